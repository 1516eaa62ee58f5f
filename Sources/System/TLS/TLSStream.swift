// TLSStream: TLS on a non-blocking socket. It reads and writes as `Socket` does, and never waits.
//
//     handshake ──done──▶ open ──read: end──▶ the peer sends no more
//         └──────────failed──────┴──failed──▶ of no use any more
//
// A record that the socket took a part of must be sent to its end before anything else: until then it is held by
// OpenSSL, and counts as written. At most one is. OpenSSL has encrypted it, and does not look at its bytes again when
// it goes on (`ssl3_write_pending`): here only their number is kept.

import COpenSSL
import EventLoop
import Glibc

/// Whom a stream tells how much it holds.
public struct TLSGauge: Sendable {
    /// So many bytes more are held.
    let hold: @Sendable (Int) -> Void
    /// So much is held by all that records are to be small.
    let isFull: @Sendable () -> Bool

    public init(hold: @escaping @Sendable (Int) -> Void, isFull: @escaping @Sendable () -> Bool) {
        self.hold = hold
        self.isFull = isFull
    }
}

/// Belongs to one thread at a time. The socket is the caller's, and has to be open as long as this is used.
public final class TLSStream {
    /// How a handshake stands.
    public enum Handshake: Equatable, Sendable {
        case done
        /// It goes on when the socket is readable.
        case wantsRead
        case wantsWrite
        /// The connection is of no use. `failure` tells why.
        case failed
    }

    /// What is agreed on in the handshake, beside TLS itself (RFC 7301). The server's order counts.
    public struct Protocols: Sendable {
        /// Each name behind its length, and a NUL.
        fileprivate let list: StaticString?

        public static let none = Protocols(list: nil)
        public static let http = Protocols(list: "\u{2}h2\u{8}http/1.1")
        public static let http2 = Protocols(list: "\u{2}h2")
        public static let http1 = Protocols(list: "\u{8}http/1.1")
    }

    /// Bytes that one record holds at most (RFC 8446, 5.1). A buffer to read to has to be as large.
    public static let record = 16 << 10
    /// Records that one read takes at most, however small they are.
    static let recordsPerRead = 64

    private let ssl: OpaquePointer
    private let fd: Int32
    /// Bytes that one record holds while others hold much.
    static let smallRecord = 2 << 10

    /// Bytes of a record that was begun.
    private var begun = 0
    /// What comes behind it, and how much of that has gone.
    private var rest: UnsafeMutableRawBufferPointer?
    private var gone = 0
    /// Bytes that a record may hold, by the peer's wish, and those that OpenSSL makes room for.
    private var most = TLSStream.record
    private var room = TLSStream.record
    /// What the gauge was told of.
    private var gauged = 0
    /// Who is to know what is held, from here on.
    public var gauge: TLSGauge?
    /// What a read came to when it had bytes to tell of first.
    private var latched: ReadResult?
    /// The kernel encrypts what is written to the socket.
    private var kernelSends = false
    /// Why the connection failed, for people. Nil when the socket failed.
    public private(set) var failure: String?
    /// OpenSSL's number for that, 0 for none.
    private var failureCode: Int32 = 0

    private init(_ context: TLSContext, _ fd: Int32) throws(TLSError) {
        ERR_clear_error()
        guard let method = socketMethod, let ssl = SSL_new(context.handle) else {
            throw TLSError(.system, "cannot use OpenSSL: \(TLSError.reason() ?? "it has no memory")")
        }
        self.ssl = ssl
        self.fd = fd
        guard fb_tls_attach(ssl, method, fd) == 1 else {
            throw TLSError(.system, "cannot use OpenSSL: \(TLSError.reason() ?? "it has no memory")")
        }
    }

    deinit {
        SSL_free(ssl)
        rest?.deallocate()
        if gauged > 0 { gauge?.hold(-gauged) }
    }

    /// The server's side of a connection.
    public convenience init(
        accepting fd: Int32, _ context: TLSContext, _ protocols: Protocols
    ) throws(TLSError) {
        try self.init(context, fd)
        SSL_set_accept_state(ssl)
        if let list = protocols.list {
            SSL_set_ex_data(ssl, 0, UnsafeMutableRawPointer(mutating: list.utf8Start))
        }
    }

    /// The client's side.
    /// - Parameter host: the name or address that the server's certificate has to be for.
    public convenience init(
        connecting fd: Int32, to host: String, _ context: TLSContext, _ protocols: Protocols
    ) throws(TLSError) {
        try self.init(context, fd)
        SSL_set_connect_state(ssl)
        // An address is no name, and is not told (RFC 6066, 3).
        if X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) != 1 {
            ERR_clear_error()
            SSL_set_hostflags(ssl, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
            guard SSL_set1_host(ssl, host) == 1, fb_tls_set_name(ssl, host) == 1 else {
                throw TLSError(.system, "\(host) is no name that a certificate could have")
            }
        }
        if let list = protocols.list {
            SSL_set_alpn_protos(ssl, list.utf8Start, UInt32(list.utf8CodeUnitCount))
        }
    }

    // MARK: Handshake

    /// Begins the handshake, or goes on with it.
    public func handshake() -> Handshake {
        ERR_clear_error()
        let result = SSL_do_handshake(ssl)
        if result == 1 {
            kernelSends = fb_tls_kernel_sends(ssl) != 0
            // RFC 6066, 4: the peer wants smaller records, 512 bytes for 1, and twice as many for each one more.
            let wish = SSL_SESSION_get_max_fragment_length(SSL_get_session(ssl))
            if (1...4).contains(wish) { most = 256 << wish }
            return .done
        }
        switch SSL_get_error(ssl, result) {
        case SSL_ERROR_WANT_READ: return .wantsRead
        case SSL_ERROR_WANT_WRITE: return .wantsWrite
        case let error:
            _ = fail(error, errno)
            return .failed
        }
    }

    /// The protocol that was agreed on; nil when there was no talk of any.
    public var agreed: String? {
        var name: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        SSL_get0_alpn_selected(ssl, &name, &count)
        return name.map { String(decoding: UnsafeBufferPointer(start: $0, count: Int(count)), as: UTF8.self) }
    }

    /// "TLSv1.3"
    public var version: String { String(cString: SSL_get_version(ssl)) }
    /// "TLS_AES_256_GCM_SHA384"
    public var cipher: String { SSL_CIPHER_get_name(SSL_get_current_cipher(ssl)).map { String(cString: $0) } ?? "" }
    /// Whether the kernel encrypts what is sent.
    public var usesKernel: Bool { kernelSends }

    /// The peer's certificate, which was verified; nil when it has shown none, or nobody looked.
    public var peerCertificate: TLSCertificate? {
        guard SSL_get_verify_mode(ssl) & SSL_VERIFY_PEER != 0, SSL_get_verify_result(ssl) == X509_V_OK,
            let certificate = SSL_get0_peer_certificate(ssl)
        else { return nil }
        return TLSCertificate(certificate)
    }

    /// What a connection failed of, where somebody can do something about it.
    public var cause: Cause {
        switch failureCode {
        case SSL_R_CERTIFICATE_VERIFY_FAILED
        where [X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH].contains(
            Int32(SSL_get_verify_result(ssl))):
            .wrongName
        case SSL_R_CERTIFICATE_VERIFY_FAILED
        where [X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID].contains(
            Int32(SSL_get_verify_result(ssl))):
            .outdated(String(cString: X509_verify_cert_error_string(SSL_get_verify_result(ssl))))
        case SSL_R_CERTIFICATE_VERIFY_FAILED:
            .distrusted(String(cString: X509_verify_cert_error_string(SSL_get_verify_result(ssl))))
        case SSL_R_WRONG_VERSION_NUMBER, SSL_R_HTTP_REQUEST, SSL_R_HTTPS_PROXY_REQUEST, SSL_R_PACKET_LENGTH_TOO_LONG,
            SSL_R_UNEXPECTED_MESSAGE:
            .notTLS
        case SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL: .otherProtocol
        case SSL_R_TLSV1_ALERT_INTERNAL_ERROR: .turnedAway
        case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED: .certificateWanted
        case SSL_R_TLSV1_ALERT_UNKNOWN_CA, SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED,
            SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN,
            SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
            .certificateRefused
        default: .other
        }
    }

    public enum Cause: Equatable, Sendable {
        /// The peer's certificate is not trusted, and why.
        case distrusted(String)
        /// The peer's certificate has ended or is not valid yet, as this machine's clock has it.
        case outdated(String)
        /// The peer's certificate is for another name.
        case wrongName
        /// The peer does not speak TLS.
        case notTLS
        /// The peer speaks none of the protocols that were offered.
        case otherProtocol
        /// The peer wants a certificate, and was shown none.
        case certificateWanted
        /// The peer does not trust the certificate that it was shown.
        case certificateRefused
        /// The peer broke the handshake off for a reason of its own.
        case turnedAway
        case other
    }

    // MARK: Reading

    /// The next read has something to tell that no poller knows of: an end, or a failure, that came behind bytes.
    public var hasNews: Bool { latched != nil }

    /// Reads what is there, at most `recordsPerRead` records and `buffer.count` bytes, which are `record` at least. The
    /// peer's end is one that it has told: a connection that is cut off has failed.
    public func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadResult {
        if let latched {
            self.latched = nil
            return latched
        }
        var count = 0
        for _ in 0..<TLSStream.recordsPerRead where buffer.count - count >= TLSStream.record {
            let result = readRecord(into: UnsafeMutableRawBufferPointer(rebasing: buffer[count...]))
            if case .bytes(let more) = result {
                count += more
                continue
            }
            if count == 0 { return result }
            if result != .blocked { latched = result }
            break
        }
        return .bytes(count)
    }

    private func readRecord(into buffer: UnsafeMutableRawBufferPointer) -> ReadResult {
        ERR_clear_error()
        let result = SSL_read(ssl, buffer.baseAddress, Int32(clamping: buffer.count))
        if result > 0 { return .bytes(Int(result)) }
        switch SSL_get_error(ssl, result) {
        // An answer of TLS's own for which there is no room is sent with the next write.
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: return .blocked
        case SSL_ERROR_ZERO_RETURN: return .end
        case let error: return .failed(fail(error, errno))
        }
    }

    // MARK: Writing

    /// A record waits for the socket to take the rest of it: `flush` when that is writable.
    public var isHeld: Bool { begun > 0 || rest != nil }

    /// Encrypts and writes `pieces` in order, as far as the socket takes them; not while a record is held. What is held
    /// behind it counts as written.
    /// - Parameter scratch: where small pieces are put together; `record` bytes at least, whose content is lost.
    public func write(
        _ pieces: UnsafeBufferPointer<UnsafeRawBufferPointer>, scratch: UnsafeMutableRawBufferPointer
    ) -> WriteResult {
        if kernelSends { return Socket.write(fd, pieces) }
        precondition(!isHeld && scratch.count >= TLSStream.record)
        fit()
        var written = 0
        var cursor = PieceCursor(pieces)
        while let record = cursor.next(atMost: Swift.min(room, most), scratch: scratch) {
            switch writeRecord(record) {
            case .bytes(let count):
                written += count
                cursor.skip(count)
            case .blocked:
                begun = record.count
                tellGauge()
                return .bytes(written + record.count)
            case .failed(let error): return .failed(error)
            }
        }
        return .bytes(written)
    }

    /// Encrypts and writes `bytes`, at most `record`; not while one is held. What the socket does not take is held.
    public func write(record bytes: UnsafeRawBufferPointer) -> WriteResult {
        precondition(!isHeld && bytes.count <= TLSStream.record)
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 16)
        copy.copyMemory(from: bytes)
        rest = copy
        gone = 0
        if !kernelSends { fit() }
        let result = flush()
        if case .failed = result { return result }
        return .bytes(bytes.count)
    }

    /// Has OpenSSL make room for the records that are to be written. Not while it has begun one.
    private func fit() {
        let wanted = gauge?.isFull() == true ? TLSStream.smallRecord : TLSStream.record
        guard wanted != room else { return }
        room = wanted
        _ = SSL_ctrl(ssl, SSL_CTRL_SET_MAX_SEND_FRAGMENT, wanted, nil)
        // Where a write is split goes down with that, but does not come up again by itself.
        _ = SSL_ctrl(ssl, SSL_CTRL_SET_SPLIT_SEND_FRAGMENT, wanted, nil)
    }

    private func tellGauge() {
        // What is begun lies in memory that has room for any record.
        let held = (begun > 0 ? room : 0) + (rest?.count ?? 0)
        guard held != gauged else { return }
        gauge?.hold(held - gauged)
        gauged = gauge == nil ? 0 : held
    }

    /// Goes on with what is held. `.blocked` when some still is.
    public func flush() -> WriteResult {
        defer { tellGauge() }
        if begun > 0 {
            switch writeRecord(UnsafeRawBufferPointer(start: nothing.baseAddress, count: begun)) {
            case .bytes(let count):
                // What it has begun is one record; of a part of it nobody could tell where to go on.
                guard count == begun else { return .failed(EPROTO) }
                begun = 0
            case .blocked: return .blocked
            case .failed(let error): return .failed(error)
            }
        }
        while let all = rest {
            let left = UnsafeRawBufferPointer(rebasing: all[gone...])
            let part = kernelSends ? left : UnsafeRawBufferPointer(rebasing: left.prefix(Swift.min(room, most)))
            let result = kernelSends ? Socket.write(fd, part) : writeRecord(part)
            switch result {
            case .bytes(let count): gone += count
            case .blocked where kernelSends: return .blocked
            case .blocked:
                begun = part.count
                gone += part.count
            case .failed(let error): return .failed(error)
            }
            if gone == all.count {
                all.deallocate()
                rest = nil
            }
            if case .blocked = result { return .blocked }
        }
        return .bytes(0)
    }

    private func writeRecord(_ bytes: UnsafeRawBufferPointer) -> WriteResult {
        ERR_clear_error()
        let result = SSL_write(ssl, bytes.baseAddress, Int32(bytes.count))
        if result > 0 { return .bytes(Int(result)) }
        switch SSL_get_error(ssl, result) {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: return .blocked
        case let error: return .failed(fail(error, errno))
        }
    }

    /// Tells the peer, if the socket takes it, that nothing more comes.
    public func end() {
        guard !isHeld, SSL_is_init_finished(ssl) == 1 else { return }
        ERR_clear_error()
        _ = SSL_shutdown(ssl)
        ERR_clear_error()
    }

    // MARK: Failures

    /// - Returns: an `errno` that comes near it.
    private func fail(_ error: Int32, _ system: Int32) -> Int32 {
        let code = ERR_peek_error()
        if error == SSL_ERROR_SSL, code != 0 {
            failureCode = ERR_GET_REASON(code)
            if failureCode == SSL_R_UNEXPECTED_EOF_WHILE_READING {
                failure = "the connection was cut off, without TLS's own end"
                ERR_clear_error()
                return ECONNRESET
            }
            failure = "TLS failed: \(TLSError.reason() ?? "error \(code)")"
            return EPROTO
        }
        ERR_clear_error()
        return system == 0 ? ECONNRESET : system
    }
}

/// Stands for the bytes of a record that OpenSSL has encrypted, and that it does not look at again.
private nonisolated(unsafe) let nothing = UnsafeRawBufferPointer(
    UnsafeMutableRawBufferPointer.allocate(byteCount: TLSStream.record, alignment: 16))

/// How every stream reads and writes its socket.
private nonisolated(unsafe) let socketMethod: OpaquePointer? = fb_tls_make_method()

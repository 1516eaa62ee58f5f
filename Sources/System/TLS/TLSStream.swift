// TLSStream: TLS on a non-blocking socket. It reads and writes like `Socket`, and never blocks.
//
//     handshake ──done──▶ open ──read: end──▶ the peer sends nothing more
//         └──────────failed──────┴──failed──▶ unusable
//
// A record of which the socket took only a part must be sent completely before anything else. Until then OpenSSL holds
// it, and it counts as written. There is at most one. OpenSSL has encrypted it and does not read the original bytes
// again when it continues (`ssl3_write_pending`), so only their number is kept here.

import COpenSSL
import EventLoop
import Glibc

/// Receives how many bytes a stream holds.
public struct TLSGauge: Sendable {
    /// Called with the change in the number of bytes held.
    let hold: @Sendable (Int) -> Void
    /// Whether all streams together hold so many bytes that records should be small.
    let isFull: @Sendable () -> Bool

    public init(hold: @escaping @Sendable (Int) -> Void, isFull: @escaping @Sendable () -> Bool) {
        self.hold = hold
        self.isFull = isFull
    }
}

/// TLS on one socket, which the caller owns and keeps open. Used by one thread at a time.
public final class TLSStream {
    /// The state of a handshake.
    public enum Handshake: Equatable, Sendable {
        case done
        /// Continue when the socket is readable.
        case wantsRead
        case wantsWrite
        /// The connection is unusable; `failure` says why.
        case failed
    }

    /// The application protocols to negotiate in the handshake (RFC 7301). The server's order decides.
    public struct Protocols: Sendable {
        /// Each name after its length, and a NUL.
        fileprivate let list: StaticString?

        public static let none = Protocols(list: nil)
        public static let http = Protocols(list: "\u{2}h2\u{8}http/1.1")
        public static let http2 = Protocols(list: "\u{2}h2")
        public static let http1 = Protocols(list: "\u{8}http/1.1")
    }

    /// The most bytes in one record (RFC 8446, 5.1). A read buffer must have at least this size.
    public static let record = 16 << 10
    /// The most records in one read, however small they are.
    static let recordsPerRead = 64

    private let ssl: OpaquePointer
    private let fd: Int32
    /// Bytes in one record while streams hold many bytes.
    static let smallRecord = 2 << 10

    /// Bytes of a record that was begun.
    private var begun = 0
    /// A copy of the bytes that follow that record, and how many of them were sent.
    private var rest: UnsafeMutableRawBufferPointer?
    private var gone = 0
    /// The most bytes in a record that the peer wishes for, and the most that OpenSSL allocates space for.
    private var most = TLSStream.record
    private var room = TLSStream.record
    /// The bytes last reported to the gauge.
    private var gauged = 0
    /// Receives changes in the number of bytes held, from now on.
    public var gauge: TLSGauge?
    /// The end or failure that followed the bytes of the last read. The next read returns it.
    private var latched: ReadResult?
    /// Whether the kernel encrypts what is written to the socket.
    private var kernelSends = false
    /// Why the connection failed, as text for the operator. Nil if the socket failed.
    public private(set) var failure: String?
    /// OpenSSL's reason code for the failure; 0 for none.
    private var failureCode: Int32 = 0

    private init(_ context: TLSContext, _ fd: Int32) throws(TLSError) {
        ERR_clear_error()
        guard let method = socketMethod, let ssl = SSL_new(context.handle) else {
            throw TLSError(.system, "cannot use OpenSSL: \(TLSError.reason() ?? "out of memory")")
        }
        self.ssl = ssl
        self.fd = fd
        guard fb_tls_attach(ssl, method, fd) == 1 else {
            throw TLSError(.system, "cannot use OpenSSL: \(TLSError.reason() ?? "out of memory")")
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

    /// The client's side of a connection.
    /// - Parameter host: the name or address for which the server's certificate must be valid.
    public convenience init(
        connecting fd: Int32, to host: String, _ context: TLSContext, _ protocols: Protocols
    ) throws(TLSError) {
        try self.init(context, fd)
        SSL_set_connect_state(ssl)
        // An address is not a host name, so it is not sent (RFC 6066, 3).
        if X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) != 1 {
            ERR_clear_error()
            SSL_set_hostflags(ssl, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
            guard SSL_set1_host(ssl, host) == 1, fb_tls_set_name(ssl, host) == 1 else {
                throw TLSError(.system, "\(host) is not a valid host name")
            }
        }
        if let list = protocols.list {
            SSL_set_alpn_protos(ssl, list.utf8Start, UInt32(list.utf8CodeUnitCount))
        }
    }

    // MARK: Handshake

    /// Begins or continues the handshake.
    public func handshake() -> Handshake {
        ERR_clear_error()
        let result = SSL_do_handshake(ssl)
        if result == 1 {
            kernelSends = fb_tls_kernel_sends(ssl) != 0
            // RFC 6066, 4: the peer wants smaller records: 512 bytes for 1, twice as many for each step up.
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

    /// The negotiated protocol; nil if none was negotiated.
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

    /// The peer's certificate, which was verified; nil if it presented none, or none was requested.
    public var peerCertificate: TLSCertificate? {
        guard SSL_get_verify_mode(ssl) & SSL_VERIFY_PEER != 0, SSL_get_verify_result(ssl) == X509_V_OK,
            let certificate = SSL_get0_peer_certificate(ssl)
        else { return nil }
        return TLSCertificate(certificate)
    }

    /// Why a connection failed, if it is for a reason that someone can fix.
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
        /// The peer's certificate is not trusted, with the reason.
        case distrusted(String)
        /// The peer's certificate has expired or is not valid yet, by this machine's clock.
        case outdated(String)
        /// The peer's certificate is for another name.
        case wrongName
        /// The peer does not speak TLS.
        case notTLS
        /// The peer speaks none of the protocols that were offered.
        case otherProtocol
        /// The peer requires a certificate, and none was presented.
        case certificateWanted
        /// The peer does not trust the certificate presented to it.
        case certificateRefused
        /// The peer aborted the handshake for another reason.
        case turnedAway
        case other
    }

    // MARK: Reading

    /// Whether the next read returns something that no poller reports: an end or a failure that followed bytes.
    public var hasInput: Bool { latched != nil }

    /// Reads what is available, at most `recordsPerRead` records and `buffer.count` bytes, which must be at least
    /// `record`. It returns the end only if the peer has sent one: a connection that is cut off has failed.
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
        // A TLS reply for which the socket has no space is sent with the next write.
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: return .blocked
        case SSL_ERROR_ZERO_RETURN: return .end
        case let error: return .failed(fail(error, errno))
        }
    }

    // MARK: Writing

    /// Whether the socket must still take the rest of a record. If so, call `flush` when it is writable.
    public var isHeld: Bool { begun > 0 || rest != nil }

    /// Encrypts and writes `pieces` in order, until the socket takes no more. Must not be called while a record is
    /// held. Bytes that are then held count as written.
    /// - Parameter scratch: a buffer in which small pieces are joined; at least `record` bytes, which are overwritten.
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
                writeGauge()
                return .bytes(written + record.count)
            case .failed(let error): return .failed(error)
            }
        }
        return .bytes(written)
    }

    /// Encrypts and writes `bytes`, at most `record`. Must not be called while a record is held. What the socket does
    /// not take is held.
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

    /// Makes OpenSSL allocate space for the records to be written. Must not be called while a record is partly written.
    private func fit() {
        let wanted = gauge?.isFull() == true ? TLSStream.smallRecord : TLSStream.record
        guard wanted != room else { return }
        room = wanted
        _ = SSL_ctrl(ssl, SSL_CTRL_SET_MAX_SEND_FRAGMENT, wanted, nil)
        // Lowering the limit also lowers the size at which a write is split, but raising it does not.
        _ = SSL_ctrl(ssl, SSL_CTRL_SET_SPLIT_SEND_FRAGMENT, wanted, nil)
    }

    private func writeGauge() {
        // OpenSSL's buffer for a begun record has space for any record.
        let held = (begun > 0 ? room : 0) + (rest?.count ?? 0)
        guard held != gauged else { return }
        gauge?.hold(held - gauged)
        gauged = gauge == nil ? 0 : held
    }

    /// Continues writing what is held. Returns `.blocked` if some of it still is.
    public func flush() -> WriteResult {
        defer { writeGauge() }
        if begun > 0 {
            switch writeRecord(UnsafeRawBufferPointer(start: nothing.baseAddress, count: begun)) {
            case .bytes(let count):
                // OpenSSL began exactly one record; after a part of it, the position to continue from would be unknown.
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

    /// Notifies the peer that nothing more is sent, if the socket takes the notice.
    public func end() {
        guard !isHeld, SSL_is_init_finished(ssl) == 1 else { return }
        ERR_clear_error()
        _ = SSL_shutdown(ssl)
        ERR_clear_error()
    }

    // MARK: Failures

    /// Records why the connection failed. Returns the closest `errno`.
    private func fail(_ error: Int32, _ system: Int32) -> Int32 {
        let code = ERR_peek_error()
        if error == SSL_ERROR_SSL, code != 0 {
            failureCode = ERR_GET_REASON(code)
            if failureCode == SSL_R_UNEXPECTED_EOF_WHILE_READING {
                failure = "the connection was cut off without a TLS close_notify"
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

/// A placeholder for the bytes of a record that OpenSSL has encrypted and does not read again.
private nonisolated(unsafe) let nothing = UnsafeRawBufferPointer(
    UnsafeMutableRawBufferPointer.allocate(byteCount: TLSStream.record, alignment: 16))

/// The BIO method with which every stream reads and writes its socket.
private nonisolated(unsafe) let socketMethod: OpaquePointer? = fb_tls_make_method()

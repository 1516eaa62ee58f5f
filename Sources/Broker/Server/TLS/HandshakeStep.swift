// HandshakeStep: a listener that speaks TLS goes on with a connection, by its first byte and then by its handshake.

import Core
import EventLoop
import TLS

/// What came of it.
enum HandshakeStep {
    /// It goes on when the socket is readable, or writable.
    case waits(writable: Bool)
    case done(TLSStream)
    /// It is over, and why. Who did not know of TLS has been told of it, and may still have that to read.
    case refused(String)
}

extension TLSServer {
    /// - Parameters:
    ///   - stream: nil before the first byte has come; the stream from then on.
    ///   - wireProtocol: what those speak, presumably, who do not speak TLS.
    func advance(
        _ fd: Int32, _ stream: inout TLSStream?, _ protocols: TLSStream.Protocols, insteadOf wireProtocol: WireProtocol
    ) -> HandshakeStep {
        if stream == nil {
            if let early = TLSServer.look(fd, wireProtocol) { return early }
            do throws(TLSError) {
                stream = try accept(fd, protocols)
            } catch {
                return .refused(error.description)
            }
        }
        guard let tls = stream else { return .refused("OpenSSL has no memory") }
        switch tls.handshake() {
        case .done: return .done(tls)
        case .wantsRead: return .waits(writable: false)
        case .wantsWrite: return .waits(writable: true)
        case .failed: return .refused(tls.failure ?? "the peer hung up")
        }
    }

    /// The first byte of TLS tells a handshake (RFC 8446, 5.1), and is none that the protocols here begin with. Who did
    /// not know of TLS is told of it, in its own protocol.
    /// - Returns: nil when it is TLS.
    private static func look(_ fd: Int32, _ wireProtocol: WireProtocol) -> HandshakeStep? {
        var first: UInt8 = 0
        switch withUnsafeMutableBytes(of: &first, { Socket.peek(fd, into: $0) }) {
        case .bytes where first == 22: return nil
        case .bytes:
            // Nothing was written before, so the socket takes it whole.
            _ = CleartextAnswer.needsTLS(wireProtocol, first).withUnsafeBytes { Socket.write(fd, $0) }
            return .refused("the peer does not speak TLS")
        case .blocked: return .waits(writable: false)
        case .end: return .refused("the peer hung up")
        case .failed(let error): return .refused(SystemError.text(of: error))
        }
    }
}

extension TLSStream {
    /// Who it is that was let in, as it is kept.
    var certificate: PeerCertificate? {
        peerCertificate.map { PeerCertificate(user: $0.user, subject: $0.subject) }
    }

    /// What was agreed on, for the log.
    func facts(peer: String) -> [LogField] {
        [
            ("peer", peer), ("version", version), ("cipher", cipher), ("kernel", String(usesKernel)),
            ("certificate", peerCertificate?.subject ?? ""),
        ]
    }
}

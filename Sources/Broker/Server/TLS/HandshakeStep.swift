// HandshakeStep: advances a connection of a TLS listener: checks its first byte, then runs the handshake.

import Core
import EventLoop
import TLS

/// The result of a step.
enum HandshakeStep {
    /// Continue when the socket is readable, or writable.
    case waits(writable: Bool)
    case done(TLSStream)
    /// The handshake failed for this reason. A client that does not speak TLS has been sent an answer, which it may
    /// not have read yet.
    case refused(String)
}

extension TLSServer {
    /// - Parameters:
    ///   - stream: nil until the first byte has arrived, then the TLS stream.
    ///   - wireProtocol: the protocol that clients without TLS presumably speak.
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
        guard let tls = stream else { return .refused("OpenSSL is out of memory") }
        switch tls.handshake() {
        case .done: return .done(tls)
        case .wantsRead: return .waits(writable: false)
        case .wantsWrite: return .waits(writable: true)
        case .failed: return .refused(tls.failure ?? "the peer closed the connection")
        }
    }

    /// Checks the first byte. That of a TLS connection is the type of a handshake record (RFC 8446, 5.1), with which
    /// none of the protocols here begins. A client that does not speak TLS is sent an error in its own protocol.
    /// - Returns: nil if the client speaks TLS.
    private static func look(_ fd: Int32, _ wireProtocol: WireProtocol) -> HandshakeStep? {
        var first: UInt8 = 0
        switch withUnsafeMutableBytes(of: &first, { Socket.peek(fd, into: $0) }) {
        case .bytes where first == 22: return nil
        case .bytes:
            // Nothing has been written yet, so the socket accepts all of it.
            _ = CleartextAnswer.needsTLS(wireProtocol, first).withUnsafeBytes { Socket.write(fd, $0) }
            return .refused("the peer does not speak TLS")
        case .blocked: return .waits(writable: false)
        case .end: return .refused("the peer closed the connection")
        case .failed(let error): return .refused(SystemError.text(of: error))
        }
    }
}

extension TLSStream {
    /// The client's certificate, in the form that the engine keeps.
    var certificate: PeerCertificate? {
        peerCertificate.map { PeerCertificate(user: $0.user, subject: $0.subject) }
    }

    /// The negotiated parameters, for the log.
    func facts(peer: String) -> [LogField] {
        [
            ("peer", peer), ("version", version), ("cipher", cipher), ("kernel", String(usesKernel)),
            ("certificate", peerCertificate?.subject ?? ""),
        ]
    }
}

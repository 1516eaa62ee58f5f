// WireProtocol: the protocol that a connection speaks.

/// The protocol of a connection. The listener that accepted the connection determines the protocol before any byte
/// arrives; it never changes.
public enum WireProtocol: Sendable {
    /// RSocket 1.0 over TCP.
    case rsocket
    /// HTTP, in the version that the connection's first bytes indicate.
    case http
}

/// The peer's identity, from a certificate that the driver has verified.
public struct PeerCertificate: Equatable, Sendable {
    /// The name of the user; nil if the certificate has no suitable name.
    public var user: String?
    /// The entire subject as text.
    public var subject: String

    public init(user: String?, subject: String) {
        self.user = user
        self.subject = subject
    }
}

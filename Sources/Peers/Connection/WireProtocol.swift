// WireProtocol: which of the broker's protocols a connection speaks.

/// The protocol of a connection. It is decided by the listener that took the connection in, before any byte has come,
/// and never changes.
public enum WireProtocol: Sendable {
    /// RSocket 1.0 over TCP.
    case rsocket
    /// HTTP, in the version that the connection's first bytes tell.
    case http
}

/// Who a peer is, by a certificate that the driver has verified.
public struct PeerCertificate: Equatable, Sendable {
    /// The name of the user; nil when the certificate has none that could be one.
    public var user: String?
    /// Its whole subject, for people.
    public var subject: String

    public init(user: String?, subject: String) {
        self.user = user
        self.subject = subject
    }
}

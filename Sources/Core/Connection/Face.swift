// Face: which of the broker's protocols a connection speaks.

/// The protocol of a connection. It is decided by the listener that took the connection in, before any byte has come,
/// and never changes.
public enum Face: Sendable {
    /// RSocket 1.0 over TCP.
    case rsocket
    /// HTTP, in the version that the connection's first bytes tell.
    case http
}

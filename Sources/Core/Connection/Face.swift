// Face: which protocol a connection speaks.

/// Decided by the listener that took the connection in.
public enum Face: Sendable {
    /// RSocket 1.0, framed for TCP.
    case rsocket
    /// HTTP/2: gRPC.
    case http
}

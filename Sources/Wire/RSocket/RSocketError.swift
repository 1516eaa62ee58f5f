// RSocketError: the module's only error – the contents of an ERROR frame, and whether it ends a stream or the
// connection.

/// An error to send to the peer.
public struct RSocketError: Error, Sendable, Equatable {
    /// What the error ends.
    public enum Scope: Sendable, Equatable {
        /// That stream; the connection and its other streams continue.
        case stream(UInt32)
        /// The connection: the ERROR goes out on stream 0, then the socket is closed.
        case connection
    }

    /// The limits of a connection that errors refer to.
    public enum Bound: Sendable, Equatable {
        case payload, metadata, keepaliveData, streams, reassembly, reassemblyTime, memory
    }

    public var code: ErrorCode
    /// A sentence that tells the person at the other end what to change.
    public var message: String
    public var scope: Scope
    /// The limit that was reached, if any.
    public var bound: Bound?

    public init(code: ErrorCode, message: String, scope: Scope, bound: Bound? = nil) {
        self.code = code
        self.message = message
        self.scope = scope
        self.bound = bound
    }

    /// The stream to answer on: 0 for the connection.
    public var stream: UInt32 {
        switch scope {
        case .stream(let id): id
        case .connection: 0
        }
    }

    static func connection(_ code: ErrorCode, _ message: String) -> RSocketError {
        RSocketError(code: code, message: message, scope: .connection)
    }

    static func stream(_ id: UInt32, _ code: ErrorCode, _ message: String, bound: Bound? = nil) -> RSocketError {
        RSocketError(code: code, message: message, scope: .stream(id), bound: bound)
    }
}

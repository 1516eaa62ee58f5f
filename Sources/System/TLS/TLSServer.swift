// TLSServer: the context for new connections, which can be reloaded from its files while a broker runs.

import Synchronization

/// Thread-safe.
public final class TLSServer: Sendable {
    private let context: Mutex<TLSContext>

    /// Reads the files.
    public init(_ settings: TLSServerSettings) throws(TLSError) {
        context = Mutex(try TLSContext(settings))
    }

    /// Uses the context of `fresh` for new connections; open connections keep theirs.
    public func adopt(_ fresh: TLSServer) {
        let newer = fresh.context.withLock { $0 }
        context.withLock { $0 = newer }
    }

    /// The validity of the certificate presented to new connections.
    public var validity: TLSValidity? { context.withLock { $0 }.validity }

    /// The server's side of a new connection.
    public func accept(_ fd: Int32, _ protocols: TLSStream.Protocols) throws(TLSError) -> TLSStream {
        try TLSStream(accepting: fd, context.withLock { $0 }, protocols)
    }
}

// TLSServer: the context that new connections get, which can be made anew from its files while a broker runs.

import Synchronization

/// Shared by threads.
public final class TLSServer: Sendable {
    private let context: Mutex<TLSContext>

    /// Reads the files.
    public init(_ settings: TLSServerSettings) throws(TLSError) {
        context = Mutex(try TLSContext(settings))
    }

    /// New connections get what `fresh` has; those that are open keep what they have.
    public func adopt(_ fresh: TLSServer) {
        let newer = fresh.context.withLock { $0 }
        context.withLock { $0 = newer }
    }

    /// The certificate that new connections are shown.
    public var validity: TLSValidity? { context.withLock { $0 }.validity }

    /// The server's side of a new connection.
    public func accept(_ fd: Int32, _ protocols: TLSStream.Protocols) throws(TLSError) -> TLSStream {
        try TLSStream(accepting: fd, context.withLock { $0 }, protocols)
    }
}

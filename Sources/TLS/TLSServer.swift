// TLSServer: the context that new connections get, which can be made anew from its files while a broker runs.

import Synchronization

/// Shared by threads.
public final class TLSServer: Sendable {
    public let settings: TLSServerSettings
    private let context: Mutex<TLSContext>

    /// Reads the files.
    public init(_ settings: TLSServerSettings) throws(TLSError) {
        self.settings = settings
        context = Mutex(try TLSContext(settings))
    }

    /// Reads the files again. Connections that are open keep what they have; when it throws, new ones do too.
    public func reload() throws(TLSError) {
        let fresh = try TLSContext(settings)
        context.withLock { $0 = fresh }
    }

    /// The server's side of a new connection.
    public func accept(_ fd: Int32, _ protocols: TLSStream.Protocols) throws(TLSError) -> TLSStream {
        try TLSStream(accepting: fd, context.withLock { $0 }, protocols)
    }
}

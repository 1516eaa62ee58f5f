// Server: a running broker. Its threads are one acceptor and one loop per shard; they share no state but inboxes, the
// log and a count.
//
//     acceptor ──accepted, drain, stop──▶ inbox of each shard ◀──mail── other shards
//         ▲────────────idle, failed──────────┘

import Core
import EventLoop
import Glibc
import Synchronization

/// A broker in this process.
public final class Server: Sendable {
    public struct Configuration: Sendable {
        /// Where RSocket clients connect; port 0 picks a free one.
        public var listen: Endpoint
        /// Shards, each with a thread; at least 1.
        public var threads: Int
        public var limits: Limits
        /// Nanoseconds that a drain may take.
        public var drainTime: UInt64

        public init(
            listen: Endpoint = Endpoint(host: "127.0.0.1", port: 7690), threads: Int = Machine.cpuCount,
            limits: Limits = Limits(), drainTime: UInt64 = 10_000_000_000
        ) {
            self.listen = listen
            self.threads = threads
            self.limits = limits
            self.drainTime = drainTime
        }
    }

    /// Addresses that are listened on; several when the host's name has several.
    public let addresses: [SocketAddress]
    /// Readable once the broker has ended.
    public let finished: Wakeup
    private let context: LoopContext
    private let acceptor: NamedThread
    private let failure: Failure

    /// Binds the listeners and starts the threads.
    public init(_ configuration: Configuration, log: Log) throws(SystemError) {
        precondition(configuration.threads > 0)
        let listeners = try Server.listen(on: configuration.listen)
        var shards: [NamedThread] = []
        var inboxes: [Inbox<InboxItem>] = []
        do throws(SystemError) {
            for _ in 0..<configuration.threads { inboxes.append(try Inbox()) }
            let context = LoopContext(
                limits: configuration.limits, inboxes: inboxes, acceptor: try Inbox(),
                connections: ConnectionCount(limit: configuration.limits.connections), log: log)
            let finished = try Wakeup()
            let failure = Failure()
            for index in inboxes.indices { shards.append(try Server.startShard(index, context)) }
            let threads = shards
            let drainTime = configuration.drainTime
            acceptor = try NamedThread.start("forebay-accept") {
                Server.runAcceptor(listeners, threads, context, drainTime: drainTime, failure)
                finished.signal()
            }
            self.context = context
            self.finished = finished
            self.failure = failure
            addresses = listeners.compactMap { Socket.localAddress($0) }
        } catch {
            for inbox in inboxes { inbox.push(.stop) }
            for shard in shards { shard.join() }
            for listener in listeners { close(listener) }
            throw error
        }
        for address in addresses {
            log.write(.info, "listening", [("protocol", "rsocket"), ("address", address.description)])
        }
    }

    /// Begins to shut down: takes no connections or streams, delivers what is buffered, at most for `drainTime`.
    public func drain() { context.acceptor.push(.drain) }

    /// Ends at once; connections are cut.
    public func stop() { context.acceptor.push(.stop) }

    /// Waits for the end. Call it once. False when the broker failed, which the log has told.
    public func wait() -> Bool {
        acceptor.join()
        return !failure.isSet
    }

    /// Connections that are open.
    public var connectionCount: Int { context.connections.value }

    private static func startShard(_ index: Int, _ context: LoopContext) throws(SystemError) -> NamedThread {
        try NamedThread.start("forebay-\(index)") {
            do throws(SystemError) {
                let shard = Shard(
                    index: index, count: context.inboxes.count, limits: context.limits, seed: try Machine.random())
                try ShardLoop(index: index, context: context, shard: shard).run()
            } catch {
                context.acceptor.push(.failed(shard: index, error))
            }
        }
    }

    private static func runAcceptor(
        _ listeners: [Int32], _ shards: [NamedThread], _ context: LoopContext, drainTime: UInt64,
        _ failure: Failure
    ) {
        var outcome = Acceptor.Outcome.failed
        do throws(SystemError) {
            outcome = try Acceptor(listeners: listeners, context: context, drainTime: drainTime).run()
        } catch {
            context.log.write(.error, "acceptor failed", [("cause", error.description)])
            for inbox in context.inboxes { inbox.push(.stop) }
        }
        let open = context.connections.value
        for shard in shards { shard.join() }
        switch outcome {
        case .drained: context.log.write(.info, "stopped", [("reason", "drained")])
        case .stopped: context.log.write(.info, "stopped", [("reason", "told to"), ("cut", String(open))])
        case .timedOut: context.log.write(.warning, "stopped", [("reason", "time over"), ("cut", String(open))])
        case .failed: failure.set()
        }
    }

    /// A listener for each address of `endpoint`. When a name has several, what this machine does not have is left out,
    /// and port 0 becomes one port for all.
    private static func listen(on endpoint: Endpoint) throws(SystemError) -> [Int32] {
        var listeners: [Int32] = []
        var port = endpoint.port
        var last = SystemError("cannot listen on \(endpoint)", cause: "it has no address")
        for var address in try endpoint.resolve() {
            do throws(SystemError) {
                address.port = port
                let listener = try Socket.listen(on: address)
                listeners.append(listener)
                port = Socket.localAddress(listener)?.port ?? port
            } catch {
                last = error
                if [EADDRNOTAVAIL, EAFNOSUPPORT].contains(error.code) { continue }
                for listener in listeners { close(listener) }
                throw error
            }
        }
        if listeners.isEmpty { throw last }
        return listeners
    }
}

/// Set when the broker ended for another reason than being told to.
private final class Failure: Sendable {
    private let flag = Atomic<Bool>(false)
    var isSet: Bool { flag.load(ordering: .acquiring) }
    func set() { flag.store(true, ordering: .releasing) }
}

// Server: a running broker. Its threads are an acceptor, one loop per shard, the login threads and the admin thread.
// They share only inboxes, the log and counters.
//
//     acceptor ──accepted, drain, stop──▶ inbox of each shard ◀─messages─ other shards
//         ▲────────────idle, failed──────────┘  ▲──inquiry── admin ◀──answer──┘

import Access
import Core
import EventLoop
import Glibc
import HTTP2
import Store
import Synchronization
import TLS
import Upstream

/// A broker in this process.
public final class Server: Sendable {
    public struct Configuration: Sendable {
        /// Addresses for RSocket and HTTP clients; port 0 picks a free port, nil turns the listener off. At least one
        /// is needed.
        public var listen: Endpoint?
        public var http: Endpoint?
        /// Address of the admin listener; nil turns it off.
        public var admin: Endpoint?
        /// Host names that the admin listener accepts, besides addresses and localhost.
        public var hostNames: HostPolicy.Names = .listed([])
        /// Number of shards, each with its own thread; at least 1.
        public var threads: Int
        public var limits: Limits
        /// The TLS configuration; nil for none.
        public var tls: TLSServer?
        /// Listeners without TLS, by the names in `Listener.names`.
        public var cleartext: Set<String> = []
        /// Maximum nanoseconds for draining.
        public var drainTime: UInt64
        /// Passed sockets that replace `listen`, `http` and `admin`, by the names in `Listener.names`.
        public var passed = PassedSockets()
        /// Where topics are stored, and how long relaxed topics may wait, in nanoseconds; nil for no store.
        public var store: (options: StoreOptions, interval: UInt64)?
        /// The NATS servers over which topics are shared; nil for none.
        var upstream: UpstreamConfiguration?
        /// Users and permissions.
        public var access = AccessRules.open
        /// Whether remote clients are served even if there are no users.
        public var allowsAnonymous = false

        public init(
            listen: Endpoint? = nil, http: Endpoint? = nil, threads: Int = Machine.cpuCount,
            limits: Limits = Limits(), drainTime: UInt64 = 10_000_000_000
        ) {
            self.listen = listen
            self.http = http
            self.threads = threads
            self.limits = limits
            self.drainTime = drainTime
        }

        /// - Parameter listener: one of `Listener.names`.
        func isSecure(_ listener: String) -> Bool { tls != nil && !cleartext.contains(listener) }

        subscript(wireProtocol: WireProtocol) -> Endpoint? {
            switch wireProtocol {
            case .rsocket: listen
            case .http: http
            }
        }
    }

    typealias Bound = (wireProtocol: WireProtocol, isSecure: Bool, address: SocketAddress)
    private let bound: [Bound]
    /// Readable once the broker has ended.
    public let finished: Wakeup
    private let context: LoopContext
    private let acceptor: NamedThread
    /// Set if the broker failed instead of being stopped.
    private let failure: Flag
    private let ending = Flag()
    private let adminAddresses: [SocketAddress]
    private let adminIsSecure: Bool
    private let allowsAnonymous: Bool

    /// Binds the listeners and starts the threads.
    public init(_ configuration: Configuration, log: Log) throws(StartError) {
        precondition(configuration.threads > 0)
        precondition(
            WireProtocol.all.contains { wireProtocol in
                configuration[wireProtocol] != nil
                    || configuration.passed.entries.contains { $0.name == wireProtocol.name }
            })
        let listeners = try Server.listen(configuration)
        allowsAnonymous = configuration.allowsAnonymous
        var shards: [NamedThread] = []
        var logins: LoginService?
        var store: StoreService?
        var upstream: UpstreamService?
        var inboxes: [Inbox<InboxItem>] = []
        let opened = try Server.open(configuration, listeners)
        var admin = opened.admin
        let bound = Server.addresses(of: listeners)
        adminAddresses = admin.addresses
        adminIsSecure = configuration.isSecure(AdminThread.name)
        do throws(SystemError) {
            for _ in 0..<configuration.threads { inboxes.append(try Inbox()) }
            let service = try LoginService(configuration.access, inboxes: inboxes, admin: admin.inbox, log: log)
            logins = service
            let memory = MemoryBudget(limit: configuration.limits.memory)
            if let opened = opened.store, let interval = configuration.store?.interval {
                store = try StoreService(opened, interval: interval, inboxes: inboxes, memory: memory, log: log)
            }
            upstream = try configuration.upstream.map { (upstream) throws(SystemError) in
                try UpstreamService(upstream, shards: inboxes, admin: admin.inbox, log: log)
            }
            let context = LoopContext(
                limits: Server.limits(configuration, admin: adminAddresses), memory: memory,
                inboxes: inboxes, acceptor: try Inbox(), admin: admin.inbox,
                connections: ConnectionCount(limit: configuration.limits.connections),
                files: FileShares(
                    of: Int(clamping: try Machine.raiseOpenFiles()),
                    connections: configuration.limits.connections, threads: configuration.threads),
                logins: service, store: store, upstream: upstream, access: configuration.access.table, log: log,
                tls: configuration.tls)
            let finished: Wakeup = try Wakeup()
            let failure = Flag()
            for index in inboxes.indices { shards.append(try Server.startShard(index, context)) }
            try admin.start(context, configuration, bound)
            let threads = shards
            let adminThread = admin
            let drainTime = configuration.drainTime
            acceptor = try NamedThread.start("forebay-accept") {
                Server.runAcceptor(listeners, threads, context, drainTime: drainTime, failure)
                adminThread.stop()
                finished.signal()
            }
            self.context = context
            self.finished = finished
            self.failure = failure
            self.bound = bound
        } catch {
            for inbox in inboxes { inbox.push(.stop) }
            for shard in shards { shard.join() }
            logins?.stop()
            upstream?.stop()
            if let store { store.stop() } else { opened.store?.close() }
            Listener.closeAll(listeners)
            admin.stop()
            throw StartError(cause: error)
        }
        reportListeners(configuration, log)
        reportCertificate()
    }

    private func reportListeners(_ configuration: Configuration, _ log: Log) {
        for (wireProtocol, isSecure, address) in bound {
            Server.report(wireProtocol.name, on: address, isSecure: isSecure, configuration, log)
        }
        for address in adminAddresses {
            Server.report(AdminThread.name, on: address, isSecure: adminIsSecure, configuration, log)
        }
    }

    private static func report(
        _ listener: String, on address: SocketAddress, isSecure: Bool, _ configuration: Configuration, _ log: Log
    ) {
        let tls = isSecure ? [("tls", "on")] : []
        log.write(.info, "listening", [("protocol", listener), ("address", address.description)] + tls)
        warn(of: address, isSecure: isSecure, configuration.access, log)
    }

    /// Warns if credentials are sent over a network without TLS.
    private static func warn(of address: SocketAddress, isSecure: Bool, _ access: AccessRules, _ log: Log) {
        guard !isSecure, !address.isLoopback, !access.settings.isOpen else { return }
        let reason = "passwords and tokens are sent in the clear"
        log.write(.warning, "no TLS", [("address", address.description), ("reason", reason)])
    }

    /// The addresses of a protocol's listeners: none if it is turned off, several if the host name has several.
    public func addresses(_ wireProtocol: WireProtocol) -> [SocketAddress] {
        bound.filter { $0.wireProtocol == wireProtocol }.map(\.address)
    }

    /// The addresses of the admin listener.
    public func addressesOfAdmin() -> [SocketAddress] { adminAddresses }

    /// Starts draining: accepts no connections or streams, and delivers buffered messages for at most `drainTime`.
    public func drain() {
        ending.set()
        context.acceptor.push(.drain)
    }

    /// Whether `drain` has been called. The broker then accepts no new clients.
    public var isDraining: Bool { ending.isSet }

    /// Returns true if all threads have answered the previous call's probe, and then sends a new one. The first call
    /// returns true. Only one thread may call it.
    public func hasPulse() -> Bool {
        guard context.pulse.isSteady else { return false }
        context.pulse.ask(context.inboxes.count + (context.admin == nil ? 1 : 2))
        for inbox in context.inboxes { inbox.push(.ping) }
        context.acceptor.push(.ping)
        context.admin?.push(.ping)
        return true
    }

    /// - Throws: an error if the changed configuration would serve remote clients without credentials.
    public func check(_ configuration: Configuration) throws(StartError) {
        try Server.checkOpen(configuration.access, allowsAnonymous: allowsAnonymous, bound, admin: adminAddresses)
    }

    /// Applies a changed configuration as far as possible without dropping connections: limits, retention, drain time,
    /// permissions and the content of TLS files. Streams that are no longer permitted end. Listeners and threads do not
    /// change. The configuration must have passed `check`.
    public func reload(_ configuration: Configuration) {
        context.memory.limit = configuration.limits.memory
        context.connections.limit = configuration.limits.connections
        context.acceptor.push(.drainTime(configuration.drainTime))
        let limits = Server.limits(configuration, admin: adminAddresses)
        context.reviews.begin(configuration.access.table, shards: context.inboxes.count)
        for inbox in context.inboxes {
            inbox.push(.limits(limits))
            inbox.push(.access(configuration.access.table))
        }
        context.admin?.push(.settings(limits, HostPolicy(configuration.hostNames)))
        context.admin?.push(.access(configuration.access.table))
        context.logins?.reload(configuration.access)
        // The files may have new contents under the same names.
        if let fresh = configuration.tls { context.tls?.adopt(fresh) }
        reportCertificate()
        for (_, isSecure, address) in bound {
            Server.warn(of: address, isSecure: isSecure, configuration.access, context.log)
        }
        for address in adminAddresses {
            Server.warn(of: address, isSecure: adminIsSecure, configuration.access, context.log)
        }
    }

    func noteReload(isAccepted: Bool) { context.reloads.note(isAccepted: isAccepted) }

    /// Logs the certificate for new connections, with a warning if it needs renewal. Does nothing without TLS.
    private func reportCertificate() {
        guard let validity = context.tls?.validity else { return }
        context.log.write(.info, "TLS certificate", CertificateWatch.facts(validity))
        warnOfCertificate()
    }

    /// Logs a warning if clients refuse the certificate, or soon will.
    public func warnOfCertificate() {
        guard let validity = context.tls?.validity, let fault = CertificateWatch.fault(validity, wall: Clock.wall())
        else { return }
        context.log.write(
            .warning, "TLS certificate needs renewal", [("cause", fault)] + CertificateWatch.facts(validity))
    }

    /// Returns unused memory to the system, if a check is due.
    func returnMemory(_ watch: inout MemoryReturn) {
        let returned = watch.look(
            now: Clock.monotonic(), used: context.memory.used, resident: { Machine.residentMemory },
            giveBack: Machine.returnFreeMemory)
        if let returned { context.log.write(.debug, "memory returned", [("bytes", returned)]) }
    }

    /// Stops at once and closes all connections.
    public func stop() { context.acceptor.push(.stop) }

    /// Waits for the end. Must be called once. Returns false if the broker failed, which the log explains.
    public func wait() -> Bool {
        acceptor.join()
        return !failure.isSet
    }

    /// A line that lists the addresses that the broker listens on.
    var status: String {
        "Listening on " + bound.map { "\($0.address) (\($0.wireProtocol.name))" }.joined(separator: ", ")
    }

    /// Number of open connections.
    public var connectionCount: Int { context.connections.value }

    /// The limits, with the admin page's origins added to those that may use HTTP.
    private static func limits(_ configuration: Configuration, admin addresses: [SocketAddress]) -> Limits {
        var limits = configuration.limits
        limits.http.cors.ownPages = AdminSettings.origins(
            of: addresses, isSecure: configuration.isSecure(AdminThread.name), names: configuration.hostNames)
        return limits
    }

    private static func startShard(_ index: Int, _ context: LoopContext) throws(SystemError) -> NamedThread {
        try NamedThread.start("forebay-\(index)") {
            do throws(SystemError) {
                let shard = Shard(
                    index: index, count: context.inboxes.count, limits: context.limits, memory: context.memory,
                    quotas: context.quotas, store: context.storeHealth, seed: try Machine.random(),
                    access: context.access,
                    now: Instant(monotonic: Clock.monotonic(), wall: Clock.wall()))
                let now = Instant(monotonic: Clock.monotonic(), wall: Clock.wall())
                try context.store?.forEachTopic(of: index) { shard.restore([$0], now: now) }
                try ShardLoop(index: index, context: context, shard: shard).run()
            } catch {
                context.acceptor.push(.failed(shard: index, error))
            }
        }
    }

    private static func runAcceptor(
        _ listeners: [Listener], _ shards: [NamedThread], _ context: LoopContext, drainTime: UInt64,
        _ failure: Flag
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
        context.logins?.stop()
        context.upstream?.stop()
        context.store?.stop()
        switch outcome {
        case .drained(0): context.log.write(.info, "stopped", [("reason", "drained")])
        case .drained(let undelivered):
            context.log.write(.warning, "stopped", [("reason", "drained"), ("undelivered", undelivered)])
        case .stopped: context.log.write(.info, "stopped", [("reason", "requested"), ("cut", open)])
        case .timedOut: context.log.write(.warning, "stopped", [("reason", "timeout"), ("cut", open)])
        case .failed: failure.set()
        }
    }

    /// Opens the listeners of every protocol that has an endpoint or a passed socket.
    private static func listen(_ configuration: Configuration) throws(StartError) -> [Listener] {
        var listeners: [Listener] = []
        for wireProtocol in WireProtocol.all {
            let passed = configuration.passed.entries.filter { $0.name == wireProtocol.name }
            listeners += passed.map {
                Listener(
                    socket: $0.socket, wireProtocol: wireProtocol, isSecure: configuration.isSecure(wireProtocol.name))
            }
            guard passed.isEmpty, let endpoint = configuration[wireProtocol] else { continue }
            do throws(SystemError) {
                listeners += try Listener.open(
                    wireProtocol, on: endpoint, isSecure: configuration.isSecure(wireProtocol.name))
            } catch {
                Listener.closeAll(listeners)
                throw StartError(listener: wireProtocol, cause: error)
            }
        }
        do throws(StartError) {
            try checkOpen(
                configuration.access, allowsAnonymous: configuration.allowsAnonymous, addresses(of: listeners))
        } catch {
            Listener.closeAll(listeners)
            throw error
        }
        return listeners
    }

    private static func addresses(of listeners: [Listener]) -> [Bound] {
        listeners.compactMap { listener in
            Socket.localAddress(listener.socket).map { (listener.wireProtocol, listener.isSecure, $0) }
        }
    }
}

/// A flag that any thread may set, once.
private final class Flag: Sendable {
    private let flag = Atomic<Bool>(false)
    var isSet: Bool { flag.load(ordering: .acquiring) }
    func set() { flag.store(true, ordering: .releasing) }
}

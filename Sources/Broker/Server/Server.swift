// Server: a running broker. Its threads are one acceptor, one loop per shard, and the admin listener's; they share no
// state but inboxes, the log and a count.
//
//     acceptor ──accepted, drain, stop──▶ inbox of each shard ◀──mail── other shards
//         ▲────────────idle, failed──────────┘  ▲──inquiry── admin ◀──answer──┘

import Access
import Core
import EventLoop
import Glibc
import HTTP2
import Synchronization
import TLS

/// A broker in this process.
public final class Server: Sendable {
    public struct Configuration: Sendable {
        /// Where RSocket clients connect, and where HTTP clients do; port 0 picks a free one, nil is nowhere. At least
        /// one of them is somewhere.
        public var listen: Endpoint?
        public var http: Endpoint?
        /// Where the admin listener is; nil is nowhere.
        public var admin: Endpoint?
        /// Names, beside addresses and localhost, under which the admin listener may be asked.
        public var hostNames: HostPolicy.Names = .listed([])
        /// Shards, each with a thread; at least 1.
        public var threads: Int
        public var limits: Limits
        /// The certificate of the listeners that speak TLS; nil for none.
        public var tls: TLSServer?
        /// Listeners that do not speak TLS nevertheless, by the names of `Listener.names`.
        public var cleartext: Set<String> = []
        /// Nanoseconds that a drain may take.
        public var drainTime: UInt64
        /// Listening sockets that stand for `listen`, `http` and `admin`, by the names of `Listener.names`.
        public var passed = PassedSockets()
        /// Who may do what.
        public var access = AccessRules.open
        /// Without users, too, clients of other machines are served.
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

        /// By one of the names of `Listener.names`.
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
    /// The broker ended for another reason than being told to.
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
        var inboxes: [Inbox<InboxItem>] = []
        var admin = AdminThread()
        do throws(StartError) {
            admin = try AdminThread(binding: configuration.admin, passed: configuration.passed)
            try Server.checkOpen(
                configuration.access, allowsAnonymous: configuration.allowsAnonymous, [], admin: admin.addresses)
        } catch {
            admin.stop()
            Listener.closeAll(listeners)
            throw error
        }
        let bound = Server.addresses(of: listeners)
        adminAddresses = admin.addresses
        adminIsSecure = configuration.isSecure(AdminThread.name)
        do throws(SystemError) {
            for _ in 0..<configuration.threads { inboxes.append(try Inbox()) }
            let service = try LoginService(configuration.access, inboxes: inboxes, admin: admin.inbox, log: log)
            logins = service
            let limits = Server.limits(configuration, admin: adminAddresses)
            let context = LoopContext(
                limits: limits, memory: MemoryBudget(limit: configuration.limits.memory),
                inboxes: inboxes, acceptor: try Inbox(), admin: admin.inbox,
                connections: ConnectionCount(limit: configuration.limits.connections),
                files: FileShares(
                    of: Int(clamping: try Machine.raiseOpenFiles()),
                    connections: configuration.limits.connections, threads: configuration.threads),
                logins: service, access: configuration.access.table, log: log, tls: configuration.tls)
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
            Listener.closeAll(listeners)
            admin.stop()
            throw StartError(cause: error)
        }
        for (wireProtocol, isSecure, address) in bound {
            Server.tell(wireProtocol.name, on: address, isSecure: isSecure, configuration, log)
        }
        for address in adminAddresses {
            Server.tell(AdminThread.name, on: address, isSecure: adminIsSecure, configuration, log)
        }
        tellCertificate()
    }

    private static func tell(
        _ listener: String, on address: SocketAddress, isSecure: Bool, _ configuration: Configuration, _ log: Log
    ) {
        let tls = isSecure ? [("tls", "on")] : []
        log.write(.info, "listening", [("protocol", listener), ("address", address.description)] + tls)
        warn(of: address, isSecure: isSecure, configuration.access, log)
    }

    /// Who logs in over a network ought not to do so in the clear.
    private static func warn(of address: SocketAddress, isSecure: Bool, _ access: AccessRules, _ log: Log) {
        guard !isSecure, !address.isLoopback, !access.settings.isOpen else { return }
        let reason = "passwords and tokens can be read on the network"
        log.write(.warning, "no TLS", [("address", address.description), ("reason", reason)])
    }

    /// Addresses that are listened on for a protocol: none when it is turned off, several when the host's name has
    /// several.
    public func addresses(_ wireProtocol: WireProtocol) -> [SocketAddress] {
        bound.filter { $0.wireProtocol == wireProtocol }.map(\.address)
    }

    /// Those of the admin listener.
    public func addressesOfAdmin() -> [SocketAddress] { adminAddresses }

    /// Begins to shut down: takes no connections or streams, delivers what is buffered, at most for `drainTime`.
    public func drain() {
        ending.set()
        context.acceptor.push(.drain)
    }

    /// `drain` was called: the broker is not ready for new clients any more.
    public var isDraining: Bool { ending.isSet }

    /// Whether every thread has come to its inbox since this was asked before; asks them anew if so. The first time it
    /// is true without asking. Only one thread may call it.
    public func hasPulse() -> Bool {
        guard context.pulse.isSteady else { return false }
        context.pulse.ask(context.inboxes.count + (context.admin == nil ? 1 : 2))
        for inbox in context.inboxes { inbox.push(.ping) }
        context.acceptor.push(.ping)
        context.admin?.push(.ping)
        return true
    }

    /// - Throws: a sentence, when with a changed configuration nobody would have to say who it is although clients of
    ///   other machines can connect.
    public func check(_ configuration: Configuration) throws(StartError) {
        try Server.checkOpen(configuration.access, allowsAnonymous: allowsAnonymous, bound, admin: adminAddresses)
    }

    /// Brings a changed configuration into force, as far as that can be done while connections go on: limits, what
    /// topics retain, the time for a drain, who may do what, and what the files of TLS hold now; streams that are no
    /// longer allowed end. Listeners and threads stay as they are.
    /// `check` has found nothing against it.
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
        // The files may hold others although they are named as before.
        if let fresh = configuration.tls { context.tls?.adopt(fresh) }
        tellCertificate()
        for (_, isSecure, address) in bound {
            Server.warn(of: address, isSecure: isSecure, configuration.access, context.log)
        }
        for address in adminAddresses {
            Server.warn(of: address, isSecure: adminIsSecure, configuration.access, context.log)
        }
    }

    func noteReload(isAccepted: Bool) { context.reloads.note(isAccepted: isAccepted) }

    /// Tells of the certificate that new connections are shown, and warns of it, if there is TLS.
    private func tellCertificate() {
        guard let validity = context.tls?.validity else { return }
        context.log.write(.info, "TLS certificate", CertificateWatch.facts(validity))
        warnOfCertificate()
    }

    /// Warns of a certificate that no client takes, or soon none will.
    public func warnOfCertificate() {
        guard let validity = context.tls?.validity, let fault = CertificateWatch.fault(validity, wall: Clock.wall())
        else { return }
        context.log.write(
            .warning, "TLS certificate needs renewal", [("cause", fault)] + CertificateWatch.facts(validity))
    }

    /// Gives memory back to the machine that nobody here uses, if it is time to look for some.
    func returnMemory(_ watch: inout MemoryReturn) {
        let returned = watch.look(
            now: Clock.monotonic(), used: context.memory.used, resident: { Machine.residentMemory },
            giveBack: Machine.returnFreeMemory)
        if let returned { context.log.write(.debug, "memory returned", [("bytes", returned)]) }
    }

    /// Ends at once; connections are cut.
    public func stop() { context.acceptor.push(.stop) }

    /// Waits for the end. Call it once. False when the broker failed, which the log has told.
    public func wait() -> Bool {
        acceptor.join()
        return !failure.isSet
    }

    /// One line that says where it listens.
    var status: String {
        "Listening on " + bound.map { "\($0.address) (\($0.wireProtocol.name))" }.joined(separator: ", ")
    }

    /// Without users, only this machine is served, unless it is wanted otherwise.
    private static func checkOpen(
        _ access: AccessRules, allowsAnonymous: Bool, _ bound: [Bound], admin: [SocketAddress] = []
    ) throws(StartError) {
        guard access.settings.isOpen, !allowsAnonymous else { return }
        for address in admin where !address.isLoopback {
            throw StartError(
                isAdmin: true, isConfiguration: true,
                cause: SystemError(
                    "\(address) would have everybody on the network end and see everything",
                    cause: "there are no users"))
        }
        for (wireProtocol, _, address) in bound where !address.isLoopback {
            throw StartError(
                listener: wireProtocol, isConfiguration: true,
                cause: SystemError("\(address) would serve everybody on the network", cause: "there are no users"))
        }
    }

    /// The same before anything is bound, for -t. A host without an address is found when it is to be listened on.
    static func checkOpen(_ configuration: Configuration) throws(StartError) {
        func addresses(_ endpoint: Endpoint?) -> [SocketAddress] { (try? endpoint?.resolve()) ?? [] }
        let bound = WireProtocol.all.flatMap { wireProtocol in
            addresses(configuration[wireProtocol]).map { (wireProtocol, configuration.isSecure(wireProtocol.name), $0) }
        }
        try checkOpen(
            configuration.access, allowsAnonymous: configuration.allowsAnonymous, bound,
            admin: addresses(configuration.admin))
    }

    /// Connections that are open.
    public var connectionCount: Int { context.connections.value }

    /// With the page of the admin listener among those that may use HTTP.
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
                    quotas: context.quotas, seed: try Machine.random(), access: context.access,
                    now: Instant(monotonic: Clock.monotonic(), wall: Clock.wall()))
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
        switch outcome {
        case .drained(0): context.log.write(.info, "stopped", [("reason", "drained")])
        case .drained(let undelivered):
            context.log.write(.warning, "stopped", [("reason", "drained"), ("undelivered", undelivered)])
        case .stopped: context.log.write(.info, "stopped", [("reason", "told to"), ("cut", open)])
        case .timedOut: context.log.write(.warning, "stopped", [("reason", "time over"), ("cut", open)])
        case .failed: failure.set()
        }
    }

    /// The listeners of every protocol that has an endpoint, or a socket that was passed.
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

/// Set once, by any thread.
private final class Flag: Sendable {
    private let flag = Atomic<Bool>(false)
    var isSet: Bool { flag.load(ordering: .acquiring) }
    func set() { flag.store(true, ordering: .releasing) }
}

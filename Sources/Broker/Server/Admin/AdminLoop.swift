// AdminLoop: the thread of the admin listener. It accepts its own connections, sends queries to the shards' inboxes,
// and responds when all have answered or the time limit has expired. Neither shards nor the broker's clients wait for
// this thread.
//
//     request ─▶ call ─▶ job: queries ─▶ shards' inboxes ─▶ results ─▶ own inbox ─▶ … ─▶ response

import Core
import EventLoop
import Glibc
import HTTP2

/// Items that other threads put into the admin thread's inbox.
enum AdminItem: Sendable {
    case answer(job: UInt64, shard: Int, ShardAnswer, LoopStatistics)
    /// The broker starts draining.
    case draining
    /// The outcome of a login.
    case authenticated(LoginTicket, LoginOutcome)
    /// New permissions.
    case access(AccessTable)
    /// New limits, and new host names that this listener accepts.
    case settings(Limits, HostPolicy)
    /// The state of the upstream.
    case upstream(UpstreamStatus)
    /// A probe from the watchdog; `LoopContext.pulse` must be answered.
    case ping
    /// End the thread at once.
    case stop
}

/// Belongs to the thread that runs it.
final class AdminLoop {
    /// A request that waits for the shards.
    private struct Job {
        let client: AdminClient
        let call: AdminCall
        var gathering: Gathering
        let deadline: UInt64
    }

    private(set) var context: LoopContext
    private(set) var settings: AdminSettings
    private let inbox: Inbox<AdminItem>
    private let listeners: [Int32]
    private var poller: Poller
    private var driver: AdminDriver!
    /// Admits new connections, after their TLS handshake if there is TLS.
    private var gate: AdminGate
    private(set) var now = Clock.monotonic()
    private var clients: [UInt32: AdminClient] = [:]
    private var nextClient: UInt32 = 0
    private var jobs: [UInt64: Job] = [:]
    private var nextJob: UInt64 = 0
    private var queue: [AdminClient] = []
    private var login: AdminLogin
    /// Clients whose credentials are being checked.
    private var unknown: [UInt64: AdminClient] = [:]
    private var known: [ShardStatistics]
    private var isDraining = false
    /// The latest state of the upstream; nil if there is none.
    private var upstream: UpstreamStatus?
    private var isStopped = false
    private var nextSweep: UInt64 = 0
    /// When accepting resumes after a lack of file descriptors or memory.
    private var resumeAt: UInt64?

    private static let sweepInterval: UInt64 = 1_000_000_000
    private static let pause: UInt64 = 100_000_000

    init(
        listeners: [Int32], inbox: Inbox<AdminItem>, context: LoopContext, settings: AdminSettings
    ) throws(SystemError) {
        poller = try Poller()
        self.listeners = listeners
        self.inbox = inbox
        self.context = context
        self.settings = settings
        login = AdminLogin(context)
        known = Array(repeating: ShardStatistics(), count: context.inboxes.count)
        gate = AdminGate(settings.isSecure ? context.tls : nil, log: context.log)
        try poller.add(inbox.descriptor, token: Token.inbox.rawValue, interest: .read)
        for (index, listener) in listeners.enumerated() {
            try poller.add(listener, token: Token.listener(UInt32(index)).rawValue, interest: .read)
        }
        driver = AdminDriver(loop: self)
        guard let driver else { throw SystemError("cannot start the admin listener", code: ENFILE) }
        try poller.add(driver.descriptor, token: Token.micro(0).rawValue, interest: .read)
    }

    /// Runs until it receives `stop`.
    func run() throws(SystemError) {
        defer {
            driver.stop()
            gate.closeAll()
        }
        while !isStopped { try turn() }
    }

    private func turn() throws(SystemError) {
        let count = try poller.wait(timeout: timeout)
        now = Clock.monotonic()
        for event in 0..<count {
            let (token, ready) = poller[event]
            switch Token(rawValue: token) {
            case .inbox: inbox.clearWake()
            case .micro: driver.wake()
            case .listener(let place): if resumeAt == nil { try accept(from: listeners[Int(place)]) }
            case let token:
                if let admitted = gate.handle(token, ready, context.limits, now: now, poller) { serve(admitted) }
            }
        }
        inbox.drain { take($0) }
        for (number, job) in jobs where job.deadline <= now {
            var gathering = job.gathering
            finish(number, job, gathering.giveUp())
        }
        if driver.isDue { driver.run() }
        if now >= nextSweep { sweep() }
        gate.tick(context.limits, now: now, poller)
        if let resumeAt, resumeAt <= now {
            self.resumeAt = nil
            try watch(.read)
        }
    }

    private var timeout: UInt64? {
        if driver.isDue { return 0 }
        var first = min(resumeAt ?? .max, gate.deadline)
        for job in jobs.values { first = min(first, job.deadline) }
        if !clients.isEmpty || gate.hasRelays { first = min(first, nextSweep) }
        if first == .max { return nil }
        let now = Clock.monotonic()
        return first > now ? first - now : 0
    }

    private func take(_ item: AdminItem) {
        switch item {
        case .answer(let number, let shard, let answer, let loop):
            guard var job = jobs[number] else { return }
            let questions = job.gathering.receive(answer, from: shard, loop: loop)
            jobs[number] = job
            ask(questions, for: number)
            if let outcome = job.gathering.outcome { finish(number, job, outcome) }
        case .draining: isDraining = true
        case .authenticated(let ticket, let outcome):
            guard let client = unknown.removeValue(forKey: ticket.number), case .success(let call)? = client.call else {
                return
            }
            switch login.check(outcome, ticket.claim, for: call) {
            case .goOn(let user):
                noteLogin(of: client)
                enqueue(client, user: user)
            case .wait: break
            case .refuse(let refusal):
                // The user is known but lacks the permission.
                if refusal.result == .denied { noteLogin(of: client) }
                client.job = nil
                refuse(client, refusal)
                driver.resume(client.micro)
            }
        case .access(let access): login.access = access
        case .settings(let limits, let names):
            context.limits = limits
            settings.guarding.hosts = names
        case .upstream(let status): upstream = status
        case .ping: context.pulse.answer()
        case .stop: isStopped = true
        }
    }

    // MARK: Connections

    private func accept(from listener: Int32) throws(SystemError) {
        do throws(SystemError) {
            for _ in 0..<AdminLimits.connections {
                guard let (fd, peer) = try Socket.accept(listener) else { return }
                if gate.occupancy(clients.count) >= AdminLimits.connections, !makeRoom() {
                    close(fd)
                    continue
                }
                Socket.configure(fd, userTimeout: Int32(clamping: AdminLimits.silence / 1_000_000))
                let time = gate.isSecure ? context.limits.setupTime : AdminLimits.silence
                try gate.take(fd, peer: peer.description, now: now, deadline: now + time, poller)
            }
        } catch {
            let record = LogRecord(
                level: .warning, message: "cannot accept connections to the admin listener",
                fields: [("cause", error.cause)], isFrequent: true)
            context.frequent.write(record, now: now, log: context.log)
            resumeAt = now + AdminLoop.pause
            try watch([])
        }
    }

    /// Closes the connection that has spent the longest time in its handshake, without a complete request, or without
    /// reading its answer, so that idle connections cannot keep others out. Returns false if all are being served.
    private func makeRoom() -> Bool {
        let longest = clients.values.filter { givesWay($0) }.min { $0.lastSign < $1.lastSign }
        if gate.dropOldest(before: longest?.lastSign ?? .max) { return true }
        guard let longest else { return false }
        driver.drop(longest.micro)
        // The library removes the connection; its relay ends by itself.
        driver.run()
        return gate.isSecure || clients.count < AdminLimits.connections
    }

    private func givesWay(_ client: AdminClient) -> Bool {
        if client.call == nil || client.micro.stage == .uploading { return true }
        return client.job == nil && now - min(now, client.lastSign) >= AdminLimits.pause
    }

    private func serve(_ admitted: AdminGate.Admitted) {
        nextClient &+= 1
        // If adding fails, the connection has already been removed.
        let id = ConnectionID(index: nextClient, generation: 0)
        guard let micro = driver.add(admitted.socket, id: id) else { return }
        clients[nextClient] = AdminClient(
            micro, peer: admitted.peer, certificate: admitted.certificate, now: now)
        nextSweep = min(nextSweep, now + AdminLoop.sweepInterval)
    }

    func client(_ micro: MicroConnection) -> AdminClient? { clients[micro.id.index] }

    func remove(_ micro: MicroConnection) {
        guard let client = clients.removeValue(forKey: micro.id.index) else { return }
        discard(client)
    }

    private func watch(_ interest: Interest) throws(SystemError) {
        for (index, listener) in listeners.enumerated() {
            try poller.modify(listener, token: Token.listener(UInt32(index)).rawValue, interest: interest)
        }
    }

    /// Closes idle connections.
    private func sweep() {
        nextSweep = now + AdminLoop.sweepInterval
        for client in clients.values where client.job == nil && now - min(now, client.lastSign) >= AdminLimits.silence {
            driver.drop(client.micro)
        }
    }

    // MARK: Jobs

    /// Answers a request, or starts the work that leads to its answer.
    func begin(_ client: AdminClient) {
        guard let call = client.call else { return }
        switch call {
        case .failure(let problem): client.set(AdminAnswer(problem))
        case .success(.file(let file)): client.set(file.answer(http: settings.httpOrigin(for: client.authority)))
        case .success(let call):
            switch login.check(call, of: client, now: now) {
            case .goOn(let user): enqueue(client, user: user)
            case .wait(let number):
                client.job = 0
                unknown[number] = client
            case .refuse(let refusal): refuse(client, refusal)
            }
        }
    }

    private func refuse(_ client: AdminClient, _ refusal: AdminLogin.Refusal) {
        client.set(AdminAnswer(refusal.problem))
        guard let result = refusal.result else { return }
        count(result)
        guard result == .refused || result == .slowed else { return }
        let cause = refusal.problem.detail
        context.frequent.write(
            .loginRefused(cause, refusal.claim, over: AdminThread.name, client.peer), now: now, log: context.log)
    }

    /// Counts a successful login. As elsewhere over HTTP, a login is counted once per connection, not for each request.
    private func noteLogin(of client: AdminClient) {
        guard client.authorization != client.counted else { return }
        client.counted = client.authorization
        count(.accepted)
    }

    /// Logins here are added to the counters of one of the shards.
    private func count(_ result: LoginResult) { context.inboxes[0].push(.login(result)) }

    private func enqueue(_ client: AdminClient, user: String?) {
        if case .success(.control(var call))? = client.call {
            call.caller = Caller(user: user, peer: client.peer)
            client.call = .success(.control(call))
        }
        // 0 is not the number of any job: the client is queued.
        client.job = 0
        queue.append(client)
        startJobs()
    }

    /// Jobs that do more than wait for one shard.
    private var surveys: Int { jobs.values.count { !$0.call.isControl } }

    private func startJobs() {
        // Control calls may wait for the store. Health checks must not wait for them.
        let isControl = { (client: AdminClient) in (try? client.call?.get().isControl) == true }
        while let place = queue.firstIndex(where: { isControl($0) || surveys < AdminLimits.jobs }) {
            let client = queue.remove(at: place)
            guard case .success(let call) = client.call else { continue }
            nextJob += 1
            let number = nextJob
            client.job = number
            var job = Job(
                client: client, call: call, gathering: Gathering(call, known: known),
                deadline: now + AdminLimits.patience)
            let questions = job.gathering.start(call)
            jobs[number] = job
            ask(questions, for: number)
            if let outcome = job.gathering.outcome { finish(number, job, outcome) }
        }
    }

    private func ask(_ questions: [Question], for number: UInt64) {
        for question in questions { context.inboxes[question.shard].push(.query(job: number, question.query)) }
    }

    private func finish(_ number: UInt64, _ job: Job, _ outcome: Gathering.Outcome) {
        jobs[number] = nil
        job.client.job = nil
        if case .figures(let figures) = outcome { known = figures.shards }
        job.client.set(render(outcome, for: job.call, of: job.client))
        driver.resume(job.client.micro)
        startJobs()
    }

    /// Cleans up after a request, whether it was answered or not.
    func discard(_ client: AdminClient) {
        if let number = client.job { jobs[number] = nil }
        client.job = nil
        queue.removeAll { $0 === client }
        if let number = unknown.first(where: { $0.value === client })?.key { unknown[number] = nil }
        startJobs()
    }

    private func render(_ outcome: Gathering.Outcome, for call: AdminCall, of client: AdminClient) -> AdminAnswer {
        switch outcome {
        case .refused(let problem): return AdminAnswer(problem)
        case .done(let json): return AdminAnswer(json: json)
        case .page(let rows, let next): return AdminAnswer(page: rows, next: next)
        case .figures(let figures):
            let process = ProcessStatistics(
                uptime: Clock.monotonic() - settings.started, isDraining: isDraining, memory: context.memory.used,
                memoryLimit: context.memory.limit, unreadMemory: context.memory.unread,
                connectionLimit: context.connections.limit,
                refusedConnections: context.connections.refused,
                connectionsOverLimit: context.connections.limitReached, patternLimit: context.limits.patterns,
                handshakes: gate.handshakes, reloads: context.reloads.value,
                isLastReloadRefused: context.reloads.isLastRefused,
                lostLogLines: context.log.lost, certificateEnds: context.tls?.validity?.ends,
                store: context.store?.snapshot(context.storeHealth, limit: context.limits.uncommittedBytes, now: now),
                upstream: upstream, now: now)
            let info = BrokerInfo(
                limits: context.limits, listeners: settings.listeners,
                httpOrigin: settings.httpOrigin(for: client.authority))
            return AdminAnswer(figures, process, info, for: call)
        }
    }
}

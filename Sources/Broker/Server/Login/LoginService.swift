// LoginService: the threads that check credentials, so that no shard waits for the hash of a password. The client's
// address determines the thread, so guesses from one address keep at most one of them busy. Cheap checks (tokens, and
// passwords that were correct recently) go ahead of any hash; passwords to be hashed wait in a queue that is fair to
// addresses.
//
//     shard ──submit──▶ inbox of a worker ──cheap──────────────────────────▶ inbox of the shard
//                                └──▶ LoginQueue, by address ──authenticate──▶──┘

import Access
import Core
import EventLoop
import Glibc
import Synchronization

final class LoginService: Sendable {
    /// Number of threads that check credentials.
    static let workers = 2
    /// Maximum bytes of credentials on their way to one thread, and the overhead in bytes counted for each login.
    /// Logins beyond that are refused.
    static let arrivals = 4 << 20
    static let overhead = 256
    /// How many arrivals a thread handles before it continues with the hash of a password.
    static let arrivalsAtOnce = 64
    /// Nanoseconds after which a login that still waits is refused.
    static let patience: UInt64 = 10_000_000_000

    private let threads: [Worker]

    /// Starts the threads; `stop` ends them.
    init(
        _ rules: AccessRules, inboxes: [Inbox<InboxItem>], admin: Inbox<AdminItem>? = nil, log: Log
    ) throws(SystemError) {
        var threads: [Worker] = []
        do throws(SystemError) {
            let desks = try (0..<LoginService.workers).map { _ throws(SystemError) in try Inbox<Worker.Item>() }
            let secret = try (0..<4).map { _ throws(SystemError) in try Machine.random() }
            for index in 0..<LoginService.workers {
                threads.append(
                    try Worker(index, desks, rules, secret: secret, inboxes: inboxes, admin: admin, log: log))
            }
        } catch {
            for worker in threads { worker.stop() }
            throw error
        }
        self.threads = threads
    }

    /// Submits credentials. The outcome goes to the shard's inbox, or to the admin's if `shard` is beyond the last one.
    /// Returns false if too many are waiting.
    func submit(_ request: LoginRequest, from shard: Int, now: UInt64) -> Bool {
        threads[LoginService.worker(of: AddressBlock.of(request.address))].submit(request, from: shard, now: now)
    }

    func reload(_ rules: AccessRules) {
        for worker in threads { worker.inbox.push(.rules(rules)) }
    }

    /// Stops the threads and waits for their end; waiting logins get no answer. Must be called exactly once.
    func stop() {
        for worker in threads { worker.stop() }
    }

    private static func worker(of address: String) -> Int {
        // FNV-1a, as for topics.
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in address.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return Int((hash >> 8) % UInt64(workers))
    }
}

/// One of the threads, as seen by other threads.
private final class Worker: Sendable {
    struct Job: Sendable {
        var request: LoginRequest
        var shard: Int
        var since: UInt64
    }

    enum Item: Sendable {
        case job(Job)
        case rules(AccessRules)
        /// Another thread found a correct password.
        case known(KnownLogin)
        case stop
    }

    let inbox: Inbox<Item>
    private let waiting: Waiting
    private let thread: NamedThread

    init(
        _ index: Int, _ all: [Inbox<Item>], _ rules: AccessRules, secret: [UInt64], inboxes: [Inbox<InboxItem>],
        admin: Inbox<AdminItem>?, log: Log
    ) throws(SystemError) {
        let inbox = all[index]
        let others = all.enumerated().filter { $0.offset != index }.map(\.element)
        let waiting = Waiting()
        thread = try NamedThread.start("forebay-login-\(index)") {
            // The shards' threads, which carry messages, have priority.
            setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 10)
            let bytes = secret.flatMap { word in withUnsafeBytes(of: word) { Array($0) } }
            var desk = Desk(
                authenticator: Authenticator(rules, secret: bytes), inbox: inbox, others: others, waiting: waiting,
                inboxes: inboxes, admin: admin, log: log)
            desk.run()
        }
        self.inbox = inbox
        self.waiting = waiting
    }

    func submit(_ request: LoginRequest, from shard: Int, now: UInt64) -> Bool {
        guard waiting.add(request.weight, limit: LoginService.arrivals) else { return false }
        inbox.push(.job(Job(request: request, shard: shard, since: now)))
        return true
    }

    func stop() {
        waiting.stop()
        inbox.push(.stop)
        thread.join()
    }
}

extension LoginRequest {
    fileprivate var size: Int {
        switch credential {
        case .password(let user, let password): user.utf8.count + password.count
        case .token(let token): token.count
        }
    }

    fileprivate var weight: Int { size + LoginService.overhead }
}

/// The bytes on their way to one thread, and whether the thread has been stopped.
private final class Waiting: Sendable {
    private let bytes = Atomic<Int>(0)
    private let stopped = Atomic<Bool>(false)

    func add(_ weight: Int, limit: Int) -> Bool {
        if bytes.wrappingAdd(weight, ordering: .relaxed).newValue <= limit { return true }
        remove(weight)
        return false
    }

    /// Lets the thread end without working through a full queue.
    func stop() { stopped.store(true, ordering: .releasing) }

    var isStopped: Bool { stopped.load(ordering: .acquiring) }

    func remove(_ weight: Int) { bytes.wrappingSubtract(weight, ordering: .relaxed) }
}

/// The private state of one thread.
private struct Desk: ~Copyable {
    private var authenticator: Authenticator
    private let inbox: Inbox<Worker.Item>
    private let others: [Inbox<Worker.Item>]
    private let waiting: Waiting
    private let inboxes: [Inbox<InboxItem>]
    private let admin: Inbox<AdminItem>?
    private let log: Log
    private var queue = LoginQueue<Worker.Job>()

    init(
        authenticator: consuming Authenticator, inbox: Inbox<Worker.Item>, others: [Inbox<Worker.Item>],
        waiting: Waiting, inboxes: [Inbox<InboxItem>], admin: Inbox<AdminItem>?, log: Log
    ) {
        self.authenticator = authenticator
        self.inbox = inbox
        self.others = others
        self.waiting = waiting
        self.inboxes = inboxes
        self.admin = admin
        self.log = log
    }

    /// Runs until it is stopped.
    mutating func run() {
        var arrivals: [Worker.Item] = []
        var next = 0
        while true {
            if next == arrivals.count {
                arrivals.removeAll(keepingCapacity: true)
                next = 0
                if queue.count == 0 {
                    var descriptor = pollfd(fd: inbox.descriptor, events: Int16(POLLIN), revents: 0)
                    _ = poll(&descriptor, 1, -1)
                }
                inbox.clearWake()
                inbox.drain { arrivals.append($0) }
            }
            for _ in 0..<min(LoginService.arrivalsAtOnce, arrivals.count - next) {
                if waiting.isStopped { return }
                switch arrivals[next] {
                case .job(let job): receive(job)
                case .rules(let rules): authenticator.adopt(rules)
                case .known(let login): authenticator.note(login, now: Clock.monotonic())
                case .stop: return
                }
                next += 1
            }
            if waiting.isStopped { return }
            if let job = queue.popFirst() { hash(job) }
        }
    }

    /// Answers at once or queues the login.
    private mutating func receive(_ job: Worker.Job) {
        waiting.remove(job.request.weight)
        let now = Instant(monotonic: Clock.monotonic(), wall: Clock.wall())
        let address = job.request.address
        let outcome = authenticator.authenticateAtOnce(job.request.credential, from: address, now: now)
        if let outcome {
            logSlowed()
            return answer(job, outcome)
        }
        let displaced = queue.append(
            job, of: AddressBlock.of(address), size: job.request.weight,
            hasFailed: authenticator.hasFailed(address, now: now.monotonic))
        for one in displaced { answer(one, .busy) }
    }

    private mutating func hash(_ job: Worker.Job) {
        let now = Instant(monotonic: Clock.monotonic(), wall: Clock.wall())
        guard now.monotonic < job.since + LoginService.patience else { return answer(job, .busy) }
        let outcome = authenticator.authenticate(job.request.credential, from: job.request.address, now: now)
        logSlowed()
        if let login = authenticator.newlyKnown { for other in others { other.push(.known(login)) } }
        answer(job, outcome)
    }

    private func logSlowed() {
        if let slowed = authenticator.newlySlowed { log.write(.warning, "logins slowed", slowed.fields) }
    }

    private func answer(_ job: Worker.Job, _ outcome: LoginOutcome) {
        if job.shard < inboxes.count {
            inboxes[job.shard].push(.authenticated(job.request.ticket, outcome))
        } else {
            admin?.push(.authenticated(job.request.ticket, outcome))
        }
    }
}

extension Slowed {
    /// The log fields of logins that are slowed down. The name of an existing user is no secret, but any other name may
    /// be a password typed into the wrong field.
    fileprivate var fields: [LogField] {
        [("address", address)] + (user.map { [("user", $0)] } ?? []) + [("reason", "too many failures")]
    }
}

// LoginService: the threads that look at credentials, so that no thread which carries messages waits for the hash of a
// password. Which thread looks is chosen by the address that the credentials come from, so whoever guesses from one
// address keeps at most one of them busy.
//
//     shard ──submit──▶ inbox of a worker ──authenticate──▶ inbox of the shard

import Access
import Core
import EventLoop
import Glibc
import Synchronization

final class LoginService: Sendable {
    /// Threads that look at credentials.
    static let workers = 2
    /// Credentials that wait for one of them; one more is refused. Each has at most `Credential.longest` bytes.
    static let queue = 512
    /// Nanoseconds after which nobody waits for credentials to be looked at.
    static let patience: UInt64 = 10_000_000_000

    private let threads: [Worker]

    /// Starts the threads. `stop` ends them.
    init(
        _ rules: AccessRules, inboxes: [Inbox<InboxItem>], admin: Inbox<AdminItem>? = nil, log: Log
    ) throws(SystemError) {
        var threads: [Worker] = []
        do throws(SystemError) {
            for index in 0..<LoginService.workers {
                threads.append(try Worker(index, rules, inboxes: inboxes, admin: admin, log: log))
            }
        } catch {
            for worker in threads { worker.stop() }
            throw error
        }
        self.threads = threads
    }

    /// Hands in credentials; the answer comes to the shard's inbox, or beyond the last shard to the admin's. False: too
    /// many wait already.
    func submit(_ request: LoginRequest, from shard: Int, now: UInt64) -> Bool {
        threads[LoginService.worker(of: request.address)].submit(request, from: shard, now: now)
    }

    func reload(_ rules: AccessRules) {
        for worker in threads { worker.inbox.push(.rules(rules)) }
    }

    /// Ends the threads and waits for that; what waits is not answered. To be called once.
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

/// One of the threads, as the others see it.
private final class Worker: Sendable {
    struct Job: Sendable {
        var request: LoginRequest
        var shard: Int
        var since: UInt64
    }

    enum Item: Sendable {
        case job(Job)
        case rules(AccessRules)
        case stop
    }

    let inbox: Inbox<Item>
    private let waiting: Waiting
    private let thread: NamedThread

    init(
        _ index: Int, _ rules: AccessRules, inboxes: [Inbox<InboxItem>], admin: Inbox<AdminItem>?, log: Log
    ) throws(SystemError) {
        let inbox = try Inbox<Item>()
        let waiting = Waiting()
        let secret = try (0..<4).map { _ throws(SystemError) in try Machine.random() }
        thread = try NamedThread.start("forebay-login-\(index)") {
            // Messages go first.
            setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 10)
            let bytes = secret.flatMap { word in withUnsafeBytes(of: word) { Array($0) } }
            var desk = Desk(
                authenticator: Authenticator(rules, secret: bytes), inbox: inbox, waiting: waiting, inboxes: inboxes,
                admin: admin, log: log)
            desk.run()
        }
        self.inbox = inbox
        self.waiting = waiting
    }

    func submit(_ request: LoginRequest, from shard: Int, now: UInt64) -> Bool {
        guard waiting.add(limit: LoginService.queue) else { return false }
        inbox.push(.job(Job(request: request, shard: shard, since: now)))
        return true
    }

    func stop() {
        waiting.stop()
        inbox.push(.stop)
        thread.join()
    }
}

/// How many wait for one thread, and whether it is to look at them.
private final class Waiting: Sendable {
    private let count = Atomic<Int>(0)
    private let stopped = Atomic<Bool>(false)

    func add(limit: Int) -> Bool {
        if count.wrappingAdd(1, ordering: .relaxed).newValue <= limit { return true }
        remove()
        return false
    }

    /// Nobody waits for them any more: not each of a full queue is looked at before the thread ends.
    func stop() { stopped.store(true, ordering: .releasing) }

    var isStopped: Bool { stopped.load(ordering: .acquiring) }

    func remove() { count.wrappingSubtract(1, ordering: .relaxed) }
}

/// What one of the threads has to itself.
private struct Desk: ~Copyable {
    private var authenticator: Authenticator
    private let inbox: Inbox<Worker.Item>
    private let waiting: Waiting
    private let inboxes: [Inbox<InboxItem>]
    private let admin: Inbox<AdminItem>?
    private let log: Log

    init(
        authenticator: consuming Authenticator, inbox: Inbox<Worker.Item>, waiting: Waiting,
        inboxes: [Inbox<InboxItem>], admin: Inbox<AdminItem>?, log: Log
    ) {
        self.authenticator = authenticator
        self.inbox = inbox
        self.waiting = waiting
        self.inboxes = inboxes
        self.admin = admin
        self.log = log
    }

    /// Until it is told to stop.
    mutating func run() {
        var items: [Worker.Item] = []
        while true {
            var descriptor = pollfd(fd: inbox.descriptor, events: Int16(POLLIN), revents: 0)
            _ = poll(&descriptor, 1, -1)
            inbox.clearWake()
            inbox.drain { items.append($0) }
            for item in items {
                if waiting.isStopped { return }
                switch item {
                case .job(let job): look(at: job)
                case .rules(let rules): authenticator.adopt(rules)
                case .stop: return
                }
            }
            items.removeAll(keepingCapacity: true)
        }
    }

    private mutating func look(at job: Worker.Job) {
        defer { waiting.remove() }
        let now = Instant(monotonic: Clock.monotonic(), wall: Clock.wall())
        let address = job.request.address
        var outcome = LoginOutcome.busy
        if now.monotonic < job.since + LoginService.patience {
            outcome = authenticator.authenticate(job.request.credential, from: address, now: now)
            if let slowed = authenticator.newlySlowed {
                log.write(.warning, "logins slowed", slowed.fields)
            }
        }
        if job.shard < inboxes.count {
            inboxes[job.shard].push(.authenticated(job.request.ticket, outcome))
        } else {
            admin?.push(.authenticated(job.request.ticket, outcome))
        }
    }
}

extension Slowed {
    /// For the log: the name of a user who is there is no secret, but any other may be a password that was typed in the
    /// wrong place.
    fileprivate var fields: [(key: String, value: String)] {
        [("address", address)] + (user.map { [("user", $0)] } ?? []) + [("reason", "too many failed")]
    }
}

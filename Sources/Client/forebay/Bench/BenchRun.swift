// BenchRun: the single event loop of `bench`, for its publishers and subscribers. One turn:
//
//     wait → one read per ready socket, checked → publish what credits and schedule allow, one write per publisher
//
//     connect → subscribe, open channels → mark ──seen by all──► publish → all acknowledged → mark ──seen by all──►
//     delete the topic → report

import Bytes
import Client
import EventLoop
import Glibc

struct BenchRun: ~Copyable {
    private let settings: BenchSettings
    private var poller: Poller
    private let signals: Signals
    private var subscribers: [BenchSubscriber]
    private var publishers: [BenchPublisher]
    private var control: BenchControl
    private var deliveries = BenchDeliveries()
    private var publications = BenchPublications()
    private var schedule: BenchSchedule?
    private var interruptions = 0
    private var nextKeepAlive: UInt64
    /// The most bytes to read from one subscriber's socket in a turn, which is also what each subscriber buffers.
    private let quantum: Int

    /// The most input of all subscribers together, provided that each has its `leastQuantum`.
    private static let inputMemory = 64 << 20
    private static let leastQuantum = 8 << 10
    private static let mostQuantum = 128 << 10
    /// Descriptors other than the connections of subscribers and publishers.
    private static let reservedFiles = 32
    /// Between two marks, in nanoseconds. The second is per subscriber, so that marks cause no significant load.
    private static let markInterval: UInt64 = 20_000_000
    private static let markIntervalEach: UInt64 = 20_000
    private static let keepAliveInterval: UInt64 = 1_000_000_000
    /// If nothing arrives for this many nanoseconds, the run ends. This is longer than the broker parks a mark.
    private static let patience: UInt64 = 15_000_000_000
    /// How long the broker may take to delete the topic, in nanoseconds.
    private static let deleteTime: UInt64 = 2_000_000_000
    /// With a rate: the loop does not sleep for this long before and after a due message, in nanoseconds, so that
    /// wake-up latency is not measured.
    private static let awake: UInt64 = 1_000_000

    private static let controlToken = UInt64.max
    private static let signalToken = UInt64.max - 1

    /// Connects to the broker, once for each publisher and subscriber. Blocks until all are connected.
    init(_ settings: BenchSettings, _ address: BrokerAddress) throws {
        let files = settings.subscribers + settings.publishers + Self.reservedFiles
        let limit = try Machine.raiseOpenFiles()
        guard files <= limit else {
            throw UsageError(
                "\(settings.subscribers) subscribers and \(settings.publishers) publishers need \(files) open files, "
                    + "of \(limit) allowed; raise 'ulimit -n'.")
        }
        Signals.ignoreBrokenPipe()
        var poller = try Poller()
        let control = BenchControl(try BenchLink(to: address, token: Self.controlToken, &poller))
        var subscribers: [BenchSubscriber] = []
        var publishers: [BenchPublisher] = []
        for index in 0..<settings.subscribers {
            let link = try BenchLink(to: address, token: UInt64(index), &poller)
            subscribers.append(BenchSubscriber(settings, link))
        }
        for index in 0..<settings.publishers {
            let link = try BenchLink(to: address, token: UInt64(settings.subscribers + index), &poller)
            publishers.append(BenchPublisher(settings, index: index, link))
        }
        // Before this point, a signal ends the process, and there is nothing to clean up.
        let signals = try Signals([SIGINT, SIGTERM, SIGHUP])
        try poller.add(signals.descriptor, token: Self.signalToken, interest: .read)
        self.settings = settings
        self.poller = poller
        self.control = control
        self.signals = signals
        self.subscribers = subscribers
        self.publishers = publishers
        quantum = min(
            Self.mostQuantum, max(Self.leastQuantum, Self.inputMemory / max(settings.subscribers, 1)))
        nextKeepAlive = Clock.monotonic() + Self.keepAliveInterval
    }

    mutating func run() throws -> BenchResult? {
        do {
            let result = try measure()
            if settings.isOwnTopic { deleteTopic() }
            return result
        } catch {
            if settings.isOwnTopic { deleteTopic(quietly: true) }
            throw error
        }
    }

    /// Nil if it was interrupted before anything was measured.
    private mutating func measure() throws -> BenchResult? {
        for subscriber in subscribers { try subscriber.subscribe(&poller) }
        for publisher in publishers { try publisher.open(&poller) }
        guard try mark(1), try waitForChannels() else { return nil }
        let began = BenchMoment()
        // Slightly in the future, so that the first messages are not late by the time until publishing starts.
        schedule = settings.schedule(start: began.time + Self.awake)
        try publish(since: began.time)
        let published = BenchMoment()
        var isWhole = interruptions < 2
        if isWhole { isWhole = try mark(2) }
        let sent = publishers.map(\.sent)
        for subscriber in subscribers { subscriber.account(sent, &deliveries) }
        return BenchResult(
            settings: settings, published: sent.reduce(0, +), publications: publications, deliveries: deliveries,
            failures: subscribers.compactMap(\.failure), began: began, publishing: published,
            isInterrupted: interruptions > 0, isWhole: isWhole)
    }

    // MARK: Phases

    /// Publishes marks of a round until every subscriber has seen one. Returns false if the run was interrupted (for
    /// the second time, if it had been interrupted already), or if nothing more arrives after it.
    private mutating func mark(_ round: UInt64) throws -> Bool {
        let interruptionsBefore = interruptions
        var progress = (reads: deliveries.reads, time: Clock.monotonic())
        var nextMark = progress.time
        while !subscribers.allSatisfy({ $0.hasSeen(round: round) }) || round == 1 && !control.isIdle {
            let now = Clock.monotonic()
            if deliveries.reads != progress.reads { progress = (deliveries.reads, now) }
            if now - progress.time > Self.patience {
                guard round == 1 else { return false }
                throw ClientError(
                    .silent, "Not every subscriber receives the messages published to '\(settings.topic)'.")
            }
            if control.isIdle, now >= nextMark {
                try control.publishMark(round, settings, &poller)
                nextMark = now + Self.markInterval + UInt64(subscribers.count) * Self.markIntervalEach
            }
            try turn(timeout: nextMark > now ? nextMark - now : Self.markInterval)
            if interruptions > interruptionsBefore { return false }
        }
        return true
    }

    private mutating func waitForChannels() throws -> Bool {
        while !publishers.allSatisfy(\.isReady) {
            try turn(timeout: Self.keepAliveInterval)
            if interruptions > 0 { return false }
        }
        return true
    }

    /// Publishes until everything is acknowledged.
    private mutating func publish(since start: UInt64) throws {
        let end = settings.count == nil ? start + settings.duration : UInt64.max
        // Messages with a due time are sent even if late, but not indefinitely.
        let deadline = settings.rate != nil && end < .max ? end + Self.patience : end
        while !publishers.allSatisfy(\.isEnded) {
            if interruptions > 1 { return }
            let now = Clock.monotonic()
            if interruptions > 0 || now >= deadline || hasLostAll {
                for publisher in publishers { publisher.stop() }
            }
            var timeout = deadline > now ? deadline - now : Self.keepAliveInterval
            for publisher in publishers {
                switch try publisher.publish(schedule, &publications, &poller) {
                case .nothing: timeout = 0
                case .broker, .end: break
                case .due(let time): timeout = min(timeout, sleep(until: time, now))
                }
            }
            try turn(timeout: min(timeout, Self.keepAliveInterval))
        }
    }

    /// Whether no subscription is left.
    private var hasLostAll: Bool { !subscribers.isEmpty && subscribers.allSatisfy { $0.failure != nil } }

    /// How long to sleep before a message due at `time`. The loop stays awake for a while around each message.
    private func sleep(until time: UInt64, _ now: UInt64) -> UInt64 {
        if now < deliveries.last + Self.awake || time < now + 2 * Self.awake { return 0 }
        return time - now - Self.awake
    }

    private mutating func deleteTopic(quietly: Bool = false) {
        do {
            let deadline = Clock.monotonic() + Self.deleteTime
            publishers = []
            subscribers = []
            // The outcome of a mark in flight does not matter.
            try? waitForAnswer(until: deadline)
            try control.deleteTopic(settings, &poller)
            try waitForAnswer(until: deadline)
        } catch {
            let why = (error as? ClientError)?.message ?? "\(error)"
            if !quietly { notify("The topic '\(settings.topic)' could not be deleted: \(why)") }
        }
    }

    private mutating func waitForAnswer(until deadline: UInt64) throws {
        while !control.isIdle, Clock.monotonic() < deadline { try turn(timeout: Self.markInterval) }
    }

    // MARK: The loop

    private mutating func turn(timeout: UInt64) throws {
        for event in 0..<(try poller.wait(timeout: timeout)) {
            let token = poller[event].token
            if token == Self.signalToken {
                while signals.next() != nil { interruptions += 1 }
            } else if token == Self.controlToken {
                try control.serve(&poller)
            } else if token < subscribers.count {
                try subscribers[Int(token)].serve(quantum: quantum, schedule, &deliveries, &poller)
            } else if token - UInt64(subscribers.count) < publishers.count {
                try publishers[Int(token) - subscribers.count].serve(&publications, &poller)
            }
        }
        let now = Clock.monotonic()
        guard now >= nextKeepAlive else { return }
        nextKeepAlive = now + Self.keepAliveInterval
        try control.keepAlive(now, &poller)
        for subscriber in subscribers { try subscriber.keepAlive(now, &poller) }
        for publisher in publishers { try publisher.keepAlive(now, &poller) }
    }
}

/// The clocks at one moment, in nanoseconds.
struct BenchMoment {
    let time = Clock.monotonic()
    /// The CPU time of this process.
    let cpu: UInt64
    /// How long its single thread was ready to run while something else ran; 0 if the kernel does not report it.
    let waited: UInt64

    init() {
        var used = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used)
        cpu = UInt64(used.tv_sec) * 1_000_000_000 + UInt64(used.tv_nsec)
        let words = Machine.text(ofFile: "/proc/self/schedstat")?.split(separator: " ") ?? []
        waited = words.count > 1 ? UInt64(words[1]) ?? 0 : 0
    }
}

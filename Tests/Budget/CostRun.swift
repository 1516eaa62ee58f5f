// CostRun: what each operation costs next to a crowd. The crowd and everything else is set up before callgrind
// instruments anything. Then each operation is performed a few times, and each time is counted separately: the minimum
// counts, so the growth of a table does not matter.

import CAllocations
import Core
import Glibc

final class CostRun {
    private let crowd: Crowd
    private let size: Int
    private let loop: Loop
    private var limits: Limits
    /// The peer that makes the requests. It owns the streams that are cancelled or cut off, or on which more is
    /// requested.
    private let actor: Peer
    private var nextStream: UInt32 = 1
    private var counts: [(operation: Operation, units: Int)] = []
    /// Streams and connections opened before counting begins.
    private var idle = Streams()
    private var doomed: [Peer] = []

    /// Streams of the actor.
    private struct Streams {
        /// The second of each pair has overflow=block.
        var waiting: (plain: [UInt32], block: [UInt32]) = ([], [])
        var leaving: (plain: [UInt32], block: [UInt32]) = ([], [])
        var channels: [UInt32] = []
        var channel: UInt32 = 0
        /// The broker's ids of subscriptions to be cut off.
        var cut: [Int] = []
    }

    static let topic = "cost"
    static let blocking = topic + "?overflow=block&buffer=1000000"
    /// How often each operation is performed.
    private static let repetitions = 3
    /// Nanoseconds of processor time: the limit for a repetition if another is to follow, and the limit for the
    /// preparations.
    private static let patience: UInt64 = 5_000_000_000
    private static let longest: UInt64 = 60_000_000_000

    init(_ crowd: Crowd, _ size: Int) throws(Fault) {
        self.crowd = crowd
        self.size = size
        limits = CostRun.limits(size)
        let access = crowd == .users ? Assembly.access(size) : .open
        loop = Loop(shards: 1, limits: limits, access: access)
        actor = try loop.connect(shard: 0)
        let frames = Frames()
        frames.setup()
        try step(frames, actor)
    }

    /// Only the crowd is near a limit.
    private static func limits(_ size: Int) -> Limits {
        var limits = Limits()
        limits.connections = 2 * size + 1000
        limits.connectionsPerAddress = limits.connections
        limits.connectionsPerUser = limits.connections
        limits.streamsPerConnection = 2 * size + 1000
        limits.subscriptions = 2 * size + 1000
        limits.patterns = 2 * size + 1000
        limits.topics = 2 * size + 1000
        limits.topicsPerUser = limits.topics
        limits.sessions = 2 * size + 1000
        limits.sessionsPerUser = limits.sessions
        limits.retain = size + 1000
        limits.retainBytes = 1 << 30
        limits.memory = 8 << 30
        // With a `block` subscription, grants reserve room. Small ones leave room for all channels.
        limits.grant = 2
        return limits
    }

    // MARK: Run

    /// Returns the number of units for each count, in order.
    func count() throws(Fault) -> [(operation: Operation, units: Int)] {
        try prepare()
        instructions_begin()
        try repeated(.request) { index in .request(self.idle.waiting.plain[index]) }
        try repeated(.requestBlock) { index in .request(self.idle.waiting.block[index]) }
        try repeated(.join) { _ in .subscribe(self.stream(), CostRun.topic) }
        try repeated(.joinBlock) { _ in .subscribe(self.stream(), CostRun.blocking) }
        try repeated(.leave) { index in .cancel(self.idle.leaving.plain[index]) }
        try repeated(.leaveBlock) { index in .cancel(self.idle.leaving.block[index]) }
        try repeated(.cut) { index in .ask(self.stream(), "$SYS.subscription.close?id=\(self.idle.cut[index])") }
        try repeated(.open) { _ in .channel(self.stream(), CostRun.topic) }
        try repeated(.cancel) { index in .cancel(self.idle.channels[index]) }
        let before = actor.taken
        try repeated(.publish) { _ in .fireAndForget(self.stream(), CostRun.topic) }
        let isTaken = actor.taken - before >= CostRun.repetitions * Frames.delivered
        guard isTaken || crowd == .full || crowd == .waiting else {
            throw Fault(message: "a published message did not arrive")
        }
        try repeated(.item) { _ in .item(self.idle.channel) }
        try repeated(.acknowledge) { _ in .ask(self.stream(), CostRun.topic) }
        try connect()
        for peer in doomed { try count(.close) { () throws(Fault) in try self.loop.lose(peer) } }
        try tick()
        return counts
    }

    /// A second, in four quarters; fewer quarters if one takes a long time.
    private func tick() throws(Fault) {
        for _ in 0..<4 {
            let began = CostRun.clock()
            try count(.tick) { () throws(Fault) in try self.loop.tick() }
            if CostRun.clock() - began > CostRun.longest / 20 { return }
        }
    }

    private func connect() throws(Fault) {
        let frames = Frames()
        frames.setup()
        let setup = frames.bytes
        for _ in 0..<CostRun.repetitions {
            try count(.connect) { () throws(Fault) in
                let peer = try self.loop.connect(shard: 0)
                self.loop.arrived(setup, from: peer)
                try self.loop.run()
            }
        }
    }

    private func repeated(_ operation: Operation, _ request: (Int) -> Request) throws(Fault) {
        for index in 0..<CostRun.repetitions {
            let frames = Frames()
            try frames.add(request(index))
            let bytes = frames.bytes
            let began = CostRun.clock()
            try count(operation) { () throws(Fault) in
                self.loop.arrived(bytes, from: self.actor)
                try self.loop.run()
            }
            // With full subscriptions the channel's credit must be used up, however long that takes.
            if CostRun.clock() - began > CostRun.patience, crowd != .full { return }
        }
    }

    private func count(_ operation: Operation, _ body: () throws(Fault) -> Void) throws(Fault) {
        instructions_zero()
        try body()
        instructions_dump(operation.rawValue)
        counts.append((operation, units(operation)))
    }

    /// The cost of work that concerns all members is reported per member.
    private func units(_ operation: Operation) -> Int {
        switch (crowd, operation) {
        // A channel opens with a message.
        case (.subscribers, .open), (.unasked, .open), (.block, .open): size
        case (.subscribers, .publish), (.subscribers, .item), (.subscribers, .acknowledge): size
        case (.unasked, .publish), (.unasked, .item), (.unasked, .acknowledge): size
        case (.matching, .open), (.matching, .publish), (.matching, .item), (.matching, .acknowledge): size
        case (.block, .publish), (.block, .item), (.block, .acknowledge): size
        default: 1
        }
    }

    // MARK: Preparations

    private func prepare() throws(Fault) {
        let began = CostRun.clock()
        // The actor's channels come first, so that they have credit whatever is left for the crowd.
        try openStreams()
        let last = try lastSubscription()
        var assembly = Assembly(crowd, size, loop: loop, actor: actor, firstStream: nextStream)
        while try assembly.advance() {
            if CostRun.clock() - began > CostRun.longest {
                throw Fault(message: "\(size) \(crowd.rawValue) took more than a minute of processor time")
            }
        }
        nextStream = assembly.nextStream
        try comeToBeCut(assembly, behind: last)
        if crowd == .waiting { try limitRate(assembly) }
        try comeForWaiting()
        for _ in 0..<2 { try loop.tick() }
        try verify(assembly)
    }

    private func openStreams() throws(Fault) {
        let frames = Frames()
        idle.channel = stream()
        try frames.channel(idle.channel, CostRun.topic)
        for _ in 0..<CostRun.repetitions {
            idle.leaving.plain.append(try subscribe(CostRun.topic, frames))
            idle.leaving.block.append(try subscribe(CostRun.blocking, frames))
            idle.channels.append(stream())
            try frames.channel(idle.channels.last!, CostRun.topic)
            doomed.append(try loop.connect(shard: 0))
            let others = Frames()
            others.setup()
            try others.subscribe(1, CostRun.topic)
            try others.subscribe(3, CostRun.blocking)
            try others.channel(5, CostRun.topic)
            try step(others, doomed.last!)
        }
        try step(frames, actor)
    }

    private func subscribe(_ route: String, n: UInt32 = 0x7fff_ffff, _ frames: Frames) throws(Fault) -> UInt32 {
        let id = stream()
        try frames.subscribe(id, route, n: n)
        return id
    }

    /// Subscription ids increase by one: the ids of new subscriptions follow the last one before the crowd.
    private func comeToBeCut(_ assembly: Assembly, behind last: Int) throws(Fault) {
        let frames = Frames()
        for index in 0..<CostRun.repetitions {
            _ = try subscribe(CostRun.topic, frames)
            idle.cut.append(last + assembly.subscriptions + 1 + index)
        }
        try step(frames, actor)
    }

    /// The id of the latest subscription.
    private func lastSubscription() throws(Fault) -> Int {
        let rows = try answers { (frames) throws(Fault) in try frames.subscribe(self.stream(), "$SYS.subscriptions") }
        guard let last = rows.numbers(behind: "\"id\":").max() else { throw Fault(message: "the list is empty") }
        return last
    }

    private func verify(_ assembly: Assembly) throws(Fault) {
        guard let (topic, figure) = assembly.expected else { return }
        let info = try answers { (frames) throws(Fault) in
            try frames.ask(self.stream(), "$SYS.topic.info?name=\(topic)")
        }
        guard let count = info.numbers(behind: "\"\(figure)\":").first, count >= size else {
            throw Fault(message: "the crowd is incomplete: \(info)")
        }
    }

    /// The response that the actor receives.
    private func answers(_ ask: (Frames) throws(Fault) -> Void) throws(Fault) -> String {
        let frames = Frames()
        try ask(frames)
        loop.hears = true
        try step(frames, actor)
        loop.hears = false
        defer { actor.heard = [] }
        return String(decoding: actor.heard, as: UTF8.self)
    }

    /// Subscriptions for which a message waits.
    private func comeForWaiting() throws(Fault) {
        let frames = Frames()
        for _ in 0..<CostRun.repetitions {
            idle.waiting.plain.append(try subscribe(CostRun.topic, n: 1, frames))
            idle.waiting.block.append(try subscribe(CostRun.blocking, n: 1, frames))
        }
        for _ in 0..<2 { try frames.fireAndForget(stream(), CostRun.topic) }
        try step(frames, actor)
    }

    /// From here on each channel, the crowd's or the actor's, waits for its user's rate limit as soon as it sends a
    /// message.
    private func limitRate(_ assembly: Assembly) throws(Fault) {
        limits.publishRate = 1
        try loop.adopt(limits)
        for (peer, frames) in try assembly.items() { try step(frames, peer) }
        let frames = Frames()
        for stream in idle.channels + [idle.channel] { frames.item(stream) }
        try step(frames, actor)
        for peer in doomed {
            let frames = Frames()
            frames.item(5)
            try step(frames, peer)
        }
    }

    private func stream() -> UInt32 {
        defer { nextStream += 2 }
        return nextStream
    }

    private func step(_ frames: Frames, _ peer: Peer) throws(Fault) {
        loop.arrived(frames.bytes, from: peer)
        try loop.run()
    }

    private static func clock() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}

extension String {
    /// The number after each `sign`.
    func numbers(behind sign: String) -> [Int] {
        var found: [Int] = []
        var rest = self[...]
        while let start = rest.firstRange(of: sign) {
            rest = rest[start.upperBound...]
            if let number = Int(rest.prefix { $0.isNumber }) { found.append(number) }
        }
        return found
    }
}

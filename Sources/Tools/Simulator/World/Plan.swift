// Plan: what a run consists of. Each run draws some of the features, and small values for the broker's limits, so that
// runs combine different features and reach their limits early.

import Core

/// What may happen in a run. Failing runs can be narrowed down by permitting fewer features.
public enum Feature: String, CaseIterable, Sendable {
    /// Several shards, with messages between them.
    case shards
    /// Shard messages that wait, and shards that take no turn for a while.
    case deferredMessages = "late-messages"
    /// The three kinds of publishing.
    case fireAndForget = "fire-and-forget"
    case acknowledged, channels
    /// Channels whose end is the topic's, and control calls.
    case ends, deletion
    /// Reads that begin and end anywhere, and partial writes.
    case splits, partialWrites = "partial-writes"
    /// Clients that do not read, disappear without closing, or close one half.
    case stalls, resets, halfCloses = "half-closes"
    /// Cancelled streams, and new subscriptions that continue where another ended, by epoch and sequence.
    case cancels, rejoining
    /// Connections that outlive their sockets, through RSocket's RESUME.
    case resume
    /// Long messages, and messages with metadata.
    case fragments, metadata
    /// Small limits on bytes, for topics and for the broker.
    case shortLogs = "short-logs", shortMemory = "short-memory"
    /// Messages that expire; time that passes in leaps.
    case age, leaps
    /// Requests for 0 messages and other mistakes of clients.
    case mistakes
    /// The broker's lists.
    case lists
    /// Clients that speak HTTP/2 next to those that speak RSocket.
    case http2
    /// Long runs in which few subscribers request one message at a time, so that waiting messages form many ranges.
    case trickle
    /// Crowds of clients that do not read what they requested, hold requests open and publish messages of all sizes, up
    /// to everything that a broker with little memory allows.
    case overload
    /// Topics in a store, which commits messages late.
    case store
    /// Subscriptions that begin at a time, and a time of day that is set forwards and back.
    case times
    /// Acknowledged publishes with numbers, which are repeated.
    case numbers
    /// A store that refuses to write, and cannot read everything. Requires `store`.
    case storeFailures = "store-failures"
    /// A broker that crashes, or is restarted, and continues with what its store has. Requires `store`.
    case crashes
    /// Subscriptions to patterns, and more topics.
    case patterns

    /// The features to draw from by default.
    public static let usual = Set(allCases)
    /// Features that were added later. They are drawn separately, so that runs without them stay the same.
    static let drawnApart: Set<Feature> = [
        .overload, .store, .times, .numbers, .storeFailures, .crashes, .patterns,
    ]
}

struct Plan {
    private var features: Set<Feature>
    let shards: Int
    private(set) var steps: Int
    private(set) var topics: [String]
    let policies: [String]
    /// Whether shard messages are examined one by one, so that only one thing happens between two inspections of a
    /// shard.
    let splitsBatches: Bool
    private(set) var buffers: [Int]
    /// The most concurrent subscriptions, and the most connections that clients open.
    private(set) var subscriptions: Int
    private(set) var connections = 8
    /// A shard that takes few turns, so that messages from others wait.
    private(set) var slowShard: Int?
    private(set) var limits = Limits()

    /// The most bytes of a connection's output that one message may take.
    var longest: Int { has(.overload) ? limits.payload + 10_000 : has(.fragments) ? 150_000 : 5_000 }

    /// Bytes of a message, including its metadata.
    var largestMessage: Int { has(.overload) ? limits.payload + 100 : Workload.largestMessage }

    /// Whether topics may lose messages that are waiting.
    var mayLose: Bool { isMemoryShort || has(.shortLogs) || has(.storeFailures) }

    var isMemoryShort: Bool { has(.shortMemory) || has(.overload) }

    func has(_ feature: Feature) -> Bool { features.contains(feature) }

    /// - Parameters:
    ///   - permitted: the features to draw from.
    ///   - required: features that the run has in any case, if they are drawn separately.
    ///   - apart: the source for later additions, so that all other runs stay the same.
    init(_ chance: Chance, permitted: Set<Feature>, required: Set<Feature>, apart: Chance) {
        var drawn: Set<Feature> = []
        for feature in Feature.allCases where !Feature.drawnApart.contains(feature) && chance.below(3) > 0 {
            if permitted.contains(feature) { drawn.insert(feature) }
        }
        let strengths = [Feature.fireAndForget, .acknowledged, .channels].filter { permitted.contains($0) }
        if drawn.isDisjoint(with: strengths), !strengths.isEmpty { drawn.insert(chance.pick(strengths)) }
        shards = drawn.contains(.shards) ? 2 + chance.below(3) : 1
        if chance.below(10) > 0 { drawn.remove(.trickle) }
        if drawn.contains(.trickle) {
            // Subscriptions should live long.
            drawn.subtract([.cancels, .resets, .halfCloses, .ends, .deletion, .mistakes])
            // And the log should not lose the messages that wait for the subscriptions.
            drawn.subtract([.shortLogs, .shortMemory])
        }
        features = drawn
        steps = drawn.contains(.trickle) ? 3000 : chance.pick([60, 200, 200, 600])
        topics = Array(["a", "b", "c.d"].prefix(1 + (drawn.contains(.trickle) ? 0 : chance.below(3))))
        let separate = ["drop-newest", "replace-newest"]
        let all =
            drawn.contains(.trickle)
            ? separate : ["drop-oldest", "drop-newest", "replace-newest", "latest", "fail", "block"]
        let few = (0..<1 + chance.below(3)).map { _ in chance.pick(all) }
        policies = chance.isOne(in: 2) ? all : few
        subscriptions = drawn.contains(.trickle) ? 1 + chance.below(2) : 12
        let buffers = chance.isOne(in: 3) ? [1] : chance.pick([[1, 2, 3], [2, 7, 50], [1, 4, 150]])
        // Mostly as many as there may be ranges, so that their ring is full when it wraps around.
        self.buffers = drawn.contains(.trickle) ? chance.pick([[64], [64], [2, 5], [7, 150]]) : buffers
        splitsBatches = chance.isOne(in: 2)
        drawLimits(chance)
        let isDrawn = permitted.contains(.overload) && apart.isOne(in: 30)
        if isDrawn || required.contains(.overload) { overload(apart) }
        let isStored = permitted.contains(.store) && apart.isOne(in: 4)
        if isStored || required.contains(.store) { store(apart) }
        let hasTimes = permitted.contains(.times) && apart.isOne(in: 4)
        if hasTimes || required.contains(.times) { features.insert(.times) }
        let isNumbered = permitted.contains(.numbers) && apart.isOne(in: 3)
        if isNumbered || required.contains(.numbers) { number(apart) }
        if !required.isDisjoint(with: [.storeFailures, .crashes]), !has(.store) { store(apart) }
        for feature in [Feature.storeFailures, .crashes] where has(.store) {
            let isDrawn = permitted.contains(feature) && apart.isOne(in: 2)
            if isDrawn || required.contains(feature) { features.insert(feature) }
        }
        let hasPatterns = permitted.contains(.patterns) && apart.isOne(in: 4)
        if hasPatterns || required.contains(.patterns) { follow(apart) }
    }

    /// One shard and default limits.
    static var idle: Plan {
        var plan = Plan(Chance(seed: 1), permitted: [], required: [], apart: Chance(seed: 1))
        plan.limits = Limits()
        return plan
    }

    /// A broker that shares all topics with others.
    /// - Parameter retain: how many messages each topic retains.
    static func sharing(_ chance: Chance, retain: Int) -> Plan {
        var plan = Plan(
            chance, permitted: [.shards, .deferredMessages, .splits, .partialWrites], required: [], apart: chance)
        plan.limits.shared = (try? TopicPattern(parsing: ">")).map { [$0] } ?? []
        plan.limits.retain = retain
        plan.limits.reassembly = Limits().reassembly
        return plan
    }

    private mutating func store(_ apart: Chance) {
        features.insert(.store)
        limits.durable = TopicPattern.some(of: topics, apart)
        limits.uncommitted = apart.pick([1, 2, 5, 50, 65_536])
        limits.resident = apart.pick([0, 0, 5000, 16 << 20])
        if apart.isOne(in: 3) { swap(&limits.durable, &limits.relaxed) }
    }

    private mutating func follow(_ apart: Chance) {
        features.insert(.patterns)
        topics += ["c.e", "f.g.h", "i"].prefix(apart.below(4))
        limits.patterns = apart.pick([1, 3, 1024])
        limits.matches = apart.pick([2, 4, 10_000, 10_000])
    }

    private mutating func number(_ apart: Chance) {
        features.insert(.numbers)
        limits.publisherTime = apart.pick([Limits.second / 2, 5 * Limits.second, 3600 * Limits.second])
        limits.publishersPerTopic = apart.pick([1, 2, 1024])
    }

    private mutating func overload(_ apart: Chance) {
        // Overload is about memory, so features that release memory are excluded.
        features.subtract([.trickle, .shortLogs, .shortMemory, .age, .leaps, .ends, .deletion, .mistakes])
        features.formUnion([.overload, .fragments, .stalls, .fireAndForget, .acknowledged])
        steps = apart.pick([300, 600, 600, 1200])
        subscriptions = 200
        connections = apart.pick([8, 30, 60])
        buffers = [1, 64, 1024]
        slowShard = shards > 1 && apart.isOne(in: 2) ? apart.below(shards) : nil
        // Usually the broker's limits are small, so that a run takes no longer than others.
        let isLarge = apart.isOne(in: 8)
        let size = isLarge ? 4 << 20 : apart.pick([512 << 10, 1 << 20])
        limits.memory = size
        limits.payload = isLarge ? 1 << 20 : size / 16
        limits.retainBytes = apart.pick([limits.memory / 4, limits.memory, 16 << 20])
        limits.retain = apart.pick([5, 1024])
        limits.output = apart.pick([20_000, 256 << 10, 256 << 10])
        limits.forwarded = 1 << 20
        limits.parkedCount = 4096
        limits.reassembly = 4 << 20
        limits.controlOutput = 64 << 10
        limits.beyondWindows = 4 << 20
        if has(.resume) { limits.resumeBuffer = size / 8 }
    }

    private mutating func drawLimits(_ chance: Chance) {
        limits.retain = chance.pick([1, 2, 5, 20, 1000])
        limits.output = chance.pick([200, 2000, 256 << 10])
        limits.grant = chance.pick([1, 2, 5, 64, 8192])
        limits.forwarded = chance.pick([1000, 1 << 20])
        limits.parkedCount = chance.pick([2, 4096])
        limits.acknowledgementBacklog = chance.pick([100, 4 << 10])
        limits.controlOutput = chance.pick([300, 64 << 10])
        limits.parkTime = UInt64(chance.pick([1, 10])) * Limits.second
        limits.blockLimit = UInt64(chance.pick([2, 30])) * Limits.second
        limits.topicIdle = 20 * Limits.second
        limits.beyondWindows = chance.pick([300, 4 << 20])
        limits.lifetime = (1 * Limits.second)...(100_000 * Limits.second)
        if has(.shortLogs) { limits.retainBytes = chance.pick([300, 1000, 3000, 20_000]) }
        if has(.shortMemory) { limits.memory = chance.pick([40_000, 100_000, 1 << 20]) }
        if has(.age) { limits.retainAge = chance.pick([Limits.second / 10, 2 * Limits.second]) }
        if chance.isOne(in: 4) { limits.reassembly = 2000 }
        if has(.resume) {
            limits.resumeTime = chance.pick([Limits.second / 3, 2 * Limits.second, 15 * Limits.second])
            limits.resumeBuffer = chance.pick([300, 3000, 1 << 20])
            limits.sessions = chance.pick([1, 3, 10_000])
        }
    }

    var description: String {
        let names = features.map(\.rawValue).sorted().joined(separator: ",")
        return "shards=\(shards) steps=\(steps) topics=\(topics) policies=\(policies) buffers=\(buffers) "
            + "retain=\(limits.retain) bytes=\(limits.retainBytes) memory=\(limits.memory) output=\(limits.output) "
            + "grant=\(limits.grant) resume=\(limits.resumeTime),\(limits.resumeBuffer),\(limits.sessions) "
            + "features=\(names)"
    }
}

extension TopicPattern {
    /// All topics, or one of them.
    fileprivate static func some(of topics: [String], _ chance: Chance) -> [TopicPattern] {
        let text = chance.isOne(in: 2) ? ">" : chance.pick(topics)
        return (try? TopicPattern(parsing: text)).map { [$0] } ?? []
    }
}

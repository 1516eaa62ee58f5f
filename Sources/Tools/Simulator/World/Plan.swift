// Plan: what a run is made of. Each run draws some of the features that there are, and small figures for the broker's
// limits, so that runs differ in what they combine and meet their edges soon.

import Core

/// What may happen in a run. Runs that fail can be narrowed down by permitting fewer.
public enum Feature: String, CaseIterable, Sendable {
    /// Several shards; mail between them.
    case shards
    /// ShardMessage that waits, and shards that have no turn for a while.
    case lateMail = "late-mail"
    /// The three strengths of publishing.
    case fire, acknowledged, channels
    /// Channels whose end is the topic's, and control calls.
    case ends, deletion
    /// Reads that begin and end anywhere, and writes that are taken in part.
    case splits, partialWrites = "partial-writes"
    /// Clients that do not read, or are gone without a word, or close one half.
    case stalls, resets, halfCloses = "half-closes"
    /// Cancelled streams, and subscriptions asked for anew where one ended, by epoch and sequence.
    case cancels, rejoining
    /// Connections that outlive their sockets, by RSocket's RESUME.
    case resume
    /// Long messages, and those that bring metadata.
    case fragments, metadata
    /// Topics of few bytes; a broker of few.
    case shortLogs = "short-logs", shortMemory = "short-memory"
    /// Messages that grow old; time that passes in leaps.
    case age, leaps
    /// Demands of 0 and other mistakes of clients.
    case mistakes
    /// Lists of what there is.
    case lists
    /// Clients that speak HTTP/2 beside those that speak RSocket.
    case http2
    /// Long runs in which few subscribers ask for one message at a time, so that what waits falls into many ranges.
    case trickle
    /// Crowds that do not read what they asked for, hold requests open and publish messages of every size, all that a
    /// broker of little memory allows.
    case overload
    /// Topics that a store keeps, which commits messages late.
    case store

    /// What is drawn from where nothing else is said.
    public static let usual = Set(allCases)
    /// What was added later is drawn by itself, so that runs without it stay as they were.
    static let drawnApart: Set<Feature> = [.overload, .store]
}

struct Plan {
    private var features: Set<Feature>
    let shards: Int
    private(set) var steps: Int
    let topics: [String]
    let policies: [String]
    /// ShardMessage is looked at one by one, so that nothing happens between two looks at a shard but one thing.
    let splitsMail: Bool
    private(set) var buffers: [Int]
    /// Subscriptions that clients ask for, and connections that they open, at most so many at a time.
    private(set) var subscriptions: Int
    private(set) var connections = 8
    /// A shard that has few turns, so that what the others send it waits.
    private(set) var slowShard: Int?
    private(set) var limits = Limits()

    /// Bytes that one message may take of a connection's output, at most.
    var longest: Int { has(.overload) ? limits.payload + 10_000 : has(.fragments) ? 150_000 : 5_000 }

    /// Bytes of a message, with what metadata it may bring.
    var largestMessage: Int { has(.overload) ? limits.payload + 100 : Workload.largestMessage }

    var isMemoryShort: Bool { has(.shortMemory) || has(.overload) }

    func has(_ feature: Feature) -> Bool { features.contains(feature) }

    /// - Parameters:
    ///   - permitted: the features to draw from.
    ///   - required: those that it has in any case, as far as they are drawn apart from all others.
    ///   - apart: for what was added later, so that all other runs stay as they were.
    init(_ chance: Chance, permitted: Set<Feature>, required: Set<Feature>, apart: Chance) {
        var drawn: Set<Feature> = []
        for feature in Feature.allCases where !Feature.drawnApart.contains(feature) && chance.below(3) > 0 {
            if permitted.contains(feature) { drawn.insert(feature) }
        }
        let strengths = [Feature.fire, .acknowledged, .channels].filter { permitted.contains($0) }
        if drawn.isDisjoint(with: strengths), !strengths.isEmpty { drawn.insert(chance.pick(strengths)) }
        shards = drawn.contains(.shards) ? 2 + chance.below(3) : 1
        if chance.below(10) > 0 { drawn.remove(.trickle) }
        if drawn.contains(.trickle) {
            // Subscriptions are to live long.
            drawn.subtract([.cancels, .resets, .halfCloses, .ends, .deletion, .mistakes])
            // And what waits for them is not to be lost by the log.
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
        // As many as there may be ranges, mostly, so that their ring is full when it goes round.
        self.buffers = drawn.contains(.trickle) ? chance.pick([[64], [64], [2, 5], [7, 150]]) : buffers
        splitsMail = chance.isOne(in: 2)
        drawLimits(chance)
        let isDrawn = permitted.contains(.overload) && apart.isOne(in: 30)
        if isDrawn || required.contains(.overload) { overload(apart) }
        let isStored = permitted.contains(.store) && apart.isOne(in: 4)
        if isStored || required.contains(.store) { store(apart) }
    }

    /// One shard, and the limits that a broker has where nothing else is said.
    static var idle: Plan {
        var plan = Plan(Chance(seed: 1), permitted: [], required: [], apart: Chance(seed: 1))
        plan.limits = Limits()
        return plan
    }

    private mutating func store(_ apart: Chance) {
        features.insert(.store)
        limits.stored = TopicPattern.some(of: topics, apart)
        limits.uncommitted = apart.pick([1, 2, 5, 50, 65_536])
        limits.resident = apart.pick([0, 0, 5000, 16 << 20])
    }

    private mutating func overload(_ apart: Chance) {
        // It is about memory; what takes it is to stay.
        features.subtract([.trickle, .shortLogs, .shortMemory, .age, .leaps, .ends, .deletion, .mistakes])
        features.formUnion([.overload, .fragments, .stalls, .fire, .acknowledged])
        steps = apart.pick([300, 600, 600, 1200])
        subscriptions = 200
        connections = apart.pick([8, 30, 60])
        buffers = [1, 64, 1024]
        slowShard = shards > 1 && apart.isOne(in: 2) ? apart.below(shards) : nil
        // The broker that is drawn most has little of everything, so that a run takes no longer than others.
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

// A node with a subscription to a pattern finds the topics of other nodes, and lacks none of their messages, whatever
// happens to its connection and to the topics that it follows.

@testable import Core
import JetStreamModel
import Replay
import Testing

@testable import Upstream

/// The owner of all topics on a node with a subscription to `s.>`. It follows a topic that has messages, and may leave
/// it at any time.
private final class Watcher {
    let node: Node
    private let pattern: TopicPattern
    private var uses: [String: (use: TopicUse, next: SequenceNumber?, followed: SequenceNumber?)] = [:]
    private var lastUse: UInt64 = 0
    /// The messages that the subscription has, by topic.
    private(set) var received: [String: [UInt64]] = [:]
    var isBegun = false
    private(set) var names: [String] = []
    private(set) var refusal: Refusal?
    var now: UInt64 = 0

    init(_ node: Node) throws {
        self.node = node
        pattern = try TopicPattern(parsing: "s.>")
        node.observer = { [unowned self] in take($0) }
    }

    var topics: [String] { uses.keys.sorted() }

    func search(wantsNames: Bool) {
        node.upstream.handle([.search(7, pattern, wantsNames: wantsNames)], from: 0, now: now)
    }

    func discard() { node.upstream.handle([.discard(pattern)], from: 0, now: now) }

    func leave(_ topic: String) {
        guard let use = uses.removeValue(forKey: topic) else { return }
        node.upstream.handle([.leave(use.use, at: use.next)], from: 0, now: now)
    }

    private func take(_ report: UpstreamReport) {
        switch report {
        case .matched(7, let some, let isLast):
            names += some
            isBegun = isBegun || isLast
        case .unlisted(7, let refusal): self.refusal = refusal
        case .heard(let name):
            guard uses[name] == nil else { return }
            lastUse += 1
            let use = TopicUse(topic: name, number: lastUse)
            uses[name] = (use, nil, nil)
            let retention = Retention(messages: 100_000, bytes: 1 << 30, age: 0)
            node.upstream.handle([.join(use, retention)], from: 0, now: now)
        case .joined(let use, _, let next): if isCurrent(use) { uses[use.topic]?.next = next }
        case .followed(let use, let first): if isCurrent(use) { uses[use.topic]?.followed = first }
        case .messages(let use, let batch): if isCurrent(use) { take(batch, of: use.topic) }
        case .absent, .current: break
        default: Issue.record("\(report) was not expected")
        }
    }

    private func isCurrent(_ use: TopicUse) -> Bool { uses[use.topic]?.use == use }

    private func take(_ batch: FeedBatch, of topic: String) {
        batch.forEach(lost: { Issue.record("\(topic) has lost what comes before \($0)") }) { item, _, _ in
            uses[topic]?.next = item.sequence.advanced(by: 1)
            guard let followed = uses[topic]?.followed, item.sequence >= followed else { return }
            #expect(received[topic]?.last ?? 0 < item.sequence.value, "\(topic) repeats a message")
            received[topic, default: []].append(item.sequence.value)
        }
    }
}

@Suite struct DiscoveryTests {
    /// The sequences that a topic's stream has, without those of messages for nodes.
    private static func truth(_ world: World, _ topic: String, after base: UInt64 = 0) -> [UInt64] {
        guard let name = world.cluster.streamName(for: "fb.p.-.\(topic)"),
            let stream = world.cluster.stream(named: name)
        else { return [] }
        return stream.messages.filter { message in
            message.sequence > base
                && !String(decoding: message.headers ?? [], as: UTF8.self).contains("Forebay-Control")
        }.map(\.sequence)
    }

    @Test(arguments: 1...30 as ClosedRange<UInt64>)
    func noMessageIsMissed(seed: UInt64) throws {
        var random = RandomSource(seed: seed)
        var options = ModelOptions()
        options.servers = seed.isMultiple(of: 2) ? 3 : 1
        let world = try World(seed: seed, options, nodes: 0, time: 1_000)
        let writers = try (0..<5).map { number in
            try Node(
                "writer-\(number)", world.cluster, topic: "s.\(number)", seed: seed &* 57 &+ UInt64(number),
                time: 1_000, now: world.now)
        }
        let node = try Node("watcher", world.cluster, seed: seed, time: 1_000, now: world.now)
        for each in writers + [node] { world.add(each) }
        let watcher = try Watcher(node)
        // Two topics exist already.
        for writer in writers.prefix(2) {
            writer.join(now: world.now)
            for _ in 0..<3 { writer.publish(now: world.now) }
        }
        #expect(world.run(seconds: 20) { writers.allSatisfy { $0.waiting.isEmpty } })
        watcher.now = world.now
        watcher.search(wantsNames: true)
        #expect(world.run(seconds: 20) { watcher.isBegun })
        #expect(watcher.names == ["s.0", "s.1"])
        world.cluster.faults = .everything
        for writer in writers.dropFirst(2) { writer.join(now: world.now) }
        for _ in 0..<150 {
            watcher.now = world.now
            switch random.next() % 10 {
            case 0: node.breakConnection(now: world.now)
            case 1:
                if let name = world.cluster.streamNames.randomElement(using: &random) {
                    world.cluster.changeLeader(of: name, now: world.now)
                }
            case 2, 3: if let topic = watcher.topics.randomElement(using: &random) { watcher.leave(topic) }
            default: writers[Int(random.next() % 5)].publish(now: world.now)
            }
            world.run(seconds: 1) {
                watcher.now = world.now
                return random.next() % 10 == 0
            }
        }
        world.cluster.faults = ModelFaults()
        let isDone = world.run(seconds: 200) {
            watcher.now = world.now
            return writers.allSatisfy { $0.waiting.isEmpty }
                && (0..<5).allSatisfy { number in
                    watcher.received["s.\(number)"] ?? []
                        == DiscoveryTests.truth(world, "s.\(number)", after: number < 2 ? 3 : 0)
                }
        }
        let all = (0..<5).map { DiscoveryTests.truth(world, "s.\($0)") }
        #expect(isDone, "\(watcher.received) of \(all)")
        #expect(all.map(\.count).reduce(0, +) > 60, "the test publishes")
    }

    @Test func aNodeWithoutPatternsHearsNothing() throws {
        let world = try World(seed: 1, ModelOptions(), nodes: 1)
        let node = try Node("watcher", world.cluster, seed: 5, time: 30, now: world.now)
        world.add(node)
        let watcher = try Watcher(node)
        watcher.now = world.now
        watcher.search(wantsNames: false)
        #expect(world.run(seconds: 20) { watcher.isBegun })
        watcher.discard()
        world.nodes[0].join(now: world.now)
        world.nodes[0].publish(now: world.now)
        #expect(world.run(seconds: 5) { world.nodes[0].waiting.isEmpty })
        #expect(watcher.topics.isEmpty && node.upstream.discovery.count == 0)
    }

    /// A stream without a leader is missing from the list. What it retains is not left out.
    @Test(arguments: [false, true]) func aSearchForNamesWaitsForAllStreams(_ wantsNames: Bool) throws {
        let world = try World(seed: 1, ModelOptions(), nodes: 0)
        let writer = try Node("writer", world.cluster, topic: "s.0", seed: 4, time: 30, now: world.now)
        let node = try Node("watcher", world.cluster, seed: 5, time: 30, now: world.now)
        world.add(writer)
        writer.join(now: world.now)
        writer.publish(now: world.now)
        #expect(world.run(seconds: 20) { writer.waiting.isEmpty })
        world.cluster.faults.electionTime = 20_000_000_000
        let stream = try #require(world.cluster.streamNames.first)
        world.cluster.changeLeader(of: stream, now: world.now)
        world.add(node)
        let watcher = try Watcher(node)
        watcher.now = world.now
        watcher.search(wantsNames: wantsNames)
        #expect(world.run(seconds: 1) { watcher.isBegun } == !wantsNames)
        #expect(world.run(seconds: 20) { watcher.isBegun })
        #expect(watcher.names == (wantsNames ? ["s.0"] : []))
    }

    /// What is known of a list does not count while the link is lost: topics cannot be read, and others may be new.
    @Test func aSearchForNamesWaitsForTheLink() throws {
        let world = try World(seed: 1, ModelOptions(), nodes: 0)
        let node = try Node("watcher", world.cluster, seed: 5, time: 4, now: world.now)
        world.add(node)
        let watcher = try Watcher(node)
        watcher.now = world.now
        watcher.search(wantsNames: false)
        #expect(world.run(seconds: 10) { watcher.isBegun })
        node.isCutOff = true
        node.breakConnection(now: world.now)
        world.run(seconds: 1)
        watcher.isBegun = false
        watcher.now = world.now
        watcher.search(wantsNames: true)
        #expect(world.run(seconds: 10) { watcher.refusal != nil } && !watcher.isBegun)
        node.isCutOff = false
        world.run(seconds: 10)
        watcher.now = world.now
        watcher.search(wantsNames: true)
        #expect(world.run(seconds: 10) { watcher.isBegun })
    }

    /// Without NATS, a subscription begins after the time that is allowed, unless topics may retain something for it.
    @Test(arguments: [false, true]) func aSearchDoesNotWaitForEver(_ wantsNames: Bool) throws {
        let world = try World(seed: 1, ModelOptions(), nodes: 0)
        let node = try Node("watcher", world.cluster, seed: 5, time: 2, now: world.now)
        node.isCutOff = true
        world.add(node)
        let watcher = try Watcher(node)
        watcher.now = world.now
        watcher.search(wantsNames: wantsNames)
        #expect(!world.run(seconds: 1) { watcher.isBegun || watcher.refusal != nil })
        #expect(world.run(seconds: 2) { watcher.isBegun || watcher.refusal != nil })
        #expect(watcher.isBegun == !wantsNames && watcher.names.isEmpty)
        #expect(watcher.refusal?.word == (wantsNames ? .unavailable : nil))
    }
}

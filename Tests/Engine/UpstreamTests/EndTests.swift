// Ends and deletions of shared topics: all nodes learn of them, after the same messages, whatever happens.

@testable import Core
import JetStreamModel
import Replay
import Testing

@testable import Upstream

@Suite struct EndTests {
    private static let ends: [SharedEnd] = [.completed, .failed("no more data"), .deleted]

    private func world(_ seed: UInt64, nodes: Int = 3, _ options: ModelOptions = ModelOptions()) throws -> World {
        let world = try World(seed: seed, options, nodes: nodes, time: 100)
        for node in world.nodes { node.join(now: world.now) }
        return world
    }

    @Test(arguments: ends)
    func anEndReachesAllNodesAfterTheMessages(_ end: SharedEnd) throws {
        let world = try world(1)
        for _ in 0..<20 { for node in world.nodes { node.publish(now: world.now) } }
        world.run(seconds: 20) { world.areDone() && world.truth.count == 60 }
        world.nodes[0].publish(now: world.now)
        let ticket = world.nodes[0].end(end, now: world.now)
        #expect(world.run(seconds: 20) { world.nodes.allSatisfy { !$0.ended.isEmpty } })
        for (index, node) in world.nodes.enumerated() {
            #expect(node.received.count == 61 && node.ended.map(\.end) == [end])
            #expect(node.ended.map(\.by) == [index == 0 ? ticket : nil])
        }
        if end == .deleted {
            #expect(world.cluster.streamNames.isEmpty)
        } else {
            #expect(world.stream?.configuration.isSealed == true)
        }
    }

    @Test func aPublishAfterTheEndIsRefused() throws {
        let world = try world(2)
        world.nodes[0].publish(now: world.now)
        world.run(seconds: 10) { world.areDone() && world.truth.count == 1 }
        world.nodes[0].end(.completed, now: world.now)
        world.nodes[0].run(now: world.now)
        // The other node does not know of the end yet.
        world.nodes[1].publish(now: world.now)
        #expect(world.run(seconds: 20) { world.nodes.allSatisfy { !$0.ended.isEmpty && $0.waiting.isEmpty } })
        let refused = world.nodes[1].refused.values.map(\.message)
        #expect(refused == ["ended: The topic 't' has completed; it takes no more messages."])
        #expect(world.nodes.allSatisfy { $0.received.count == 1 })
    }

    @Test func aNodeThatJoinsAfterTheEndReadsTheMessagesAndTheEnd() throws {
        let world = try world(3, nodes: 1)
        for _ in 0..<5 { world.nodes[0].publish(now: world.now) }
        world.nodes[0].end(.failed("why"), now: world.now)
        #expect(world.run(seconds: 20) { !world.nodes[0].ended.isEmpty })
        let late = try Node("late", world.cluster, seed: 9, time: 100, now: world.now)
        world.add(late)
        late.join(retain: 3, now: world.now)
        #expect(world.run(seconds: 20) { !late.ended.isEmpty })
        #expect(late.isCurrent && late.received.map(\.sequence) == [3, 4, 5])
        #expect(late.ended.map(\.end) == [.failed("why")])
        // It can still be deleted, and the others learn of that.
        let ticket = late.end(.deleted, now: world.now)
        #expect(world.run(seconds: 20) { world.nodes.allSatisfy { $0.ended.count == 2 } })
        #expect(late.ended.map(\.end) == [.failed("why"), .deleted] && late.failed[ticket] == nil)
        #expect(world.cluster.streamNames.isEmpty)
    }

    @Test func theEndIsReachedAlthoughTheLastMessagesAreLost() throws {
        let world = try world(6, nodes: 1)
        for _ in 0..<5 { world.nodes[0].publish(now: world.now) }
        world.nodes[0].end(.completed, now: world.now)
        #expect(world.run(seconds: 20) { !world.nodes[0].ended.isEmpty })
        // The control message and the message before it.
        world.cluster.loseTail(of: try #require(world.cluster.streamNames.first), count: 2)
        let late = try Node("late", world.cluster, seed: 9, time: 100, now: world.now)
        world.add(late)
        late.join(now: world.now)
        #expect(world.run(seconds: 20) { !late.ended.isEmpty })
        #expect(late.received.map(\.sequence) == [1, 2, 3, 4] && late.lost == [5])
        #expect(late.ended.map(\.end) == [.completed])
    }

    /// A message that the stream had and has removed is not refused as if it had never been there.
    @Test func theOutcomeOfAMessageThatIsNotReadBeforeTheEndIsUnknown() throws {
        let world = try world(7, nodes: 2, .late)
        let (other, node) = (world.nodes[0], world.nodes[1])
        world.storeThirdMessageUnread()
        #expect(world.cluster.loseMessage(of: try #require(world.cluster.streamNames.first), sequence: 3))
        other.end(.completed, now: world.now)
        #expect(world.run(seconds: 20) { !other.ended.isEmpty })
        node.isCutOff = false
        #expect(world.run(seconds: 20) { !node.ended.isEmpty && node.waiting.isEmpty })
        #expect(node.lost == [3] && node.refused.values.allSatisfy { $0.message.contains("outcome unknown") })
        #expect(node.refused.count == 1)
    }

    @Test func anEndCreatesTheTopic() throws {
        let world = try world(4)
        world.run(seconds: 2)
        #expect(world.nodes.allSatisfy { $0.isAbsent })
        world.nodes[0].end(.completed, now: world.now)
        #expect(world.run(seconds: 20) { world.nodes.allSatisfy { !$0.ended.isEmpty } })
        #expect(world.nodes.allSatisfy { $0.ended.map(\.end) == [.completed] && $0.isCurrent })
    }

    @Test func anEndIsRefusedIfNATSIsNotThere() throws {
        let world = try World(seed: 5, ModelOptions(), nodes: 1, time: 3)
        world.nodes[0].join(now: world.now)
        world.nodes[0].publish(now: world.now)
        world.run(seconds: 2)
        world.nodes[0].isCutOff = true
        world.nodes[0].breakConnection(now: world.now)
        let ticket = world.nodes[0].end(.completed, now: world.now)
        #expect(world.run(seconds: 10) { world.nodes[0].failed[ticket] != nil })
        #expect(world.nodes[0].failed[ticket]?.message.hasPrefix("unavailable: ") == true)
    }

    /// One node ends the topic while all of them publish and everything goes wrong.
    @Test(arguments: 1...30 as ClosedRange<UInt64>)
    func allNodesAgree(seed: UInt64) throws {
        var random = RandomSource(seed: seed)
        var options = ModelOptions()
        options.servers = seed.isMultiple(of: 2) ? 3 : 1
        options.faults = .everything
        let world = try world(seed, options)
        let end = EndTests.ends[Int(random.next() % 3)]
        for node in world.nodes { node.publish(now: world.now) }
        #expect(world.run(seconds: 60) { world.nodes.allSatisfy { $0.isCurrent && $0.waiting.isEmpty } })
        for round in 0..<60 {
            let node = world.nodes[Int(random.next() % 3)]
            if node.ended.isEmpty {
                switch random.next() % 6 {
                case 0: node.breakConnection(now: world.now)
                default: node.publish(now: world.now)
                }
            }
            // A second end loses.
            if round == 30 || round == 31, node.ended.isEmpty {
                node.end(round == 30 ? end : .failed("too late"), now: world.now)
            }
            world.run(seconds: 1) { random.next() % 10 == 0 }
        }
        world.cluster.faults = ModelFaults()
        let isDone = world.run(seconds: 200) { world.nodes.allSatisfy { !$0.ended.isEmpty && $0.waiting.isEmpty } }
        #expect(isDone)
        // A node that was late may learn of a deletion only, and miss messages that were deleted.
        let ends = world.nodes.flatMap(\.ended).map(\.end)
        #expect(Set(ends.filter { $0 != .deleted }.map { "\($0)" }).count <= 1, "\(ends)")
        let texts = world.nodes.map { $0.received.map(\.text) }
        guard let longest = texts.max(by: { $0.count < $1.count }) else { return }
        #expect(texts.allSatisfy { ends.contains(.deleted) ? longest.starts(with: $0) : longest == $0 })
        for node in world.nodes { #expect(node.placed.keys.allSatisfy { longest.contains($0) }) }
    }
}

// Several nodes over one model of NATS that delays, loses and repeats: whatever happens, each node reports what the
// stream has, in order and once, and each message that it accepted is in the stream once, or was refused.

@testable import Core
import JetStreamModel
import Replay
import Testing

@testable import Upstream

@Suite struct ScenarioTests {
    @Test func messagesReachAllNodes() throws {
        let world = try World(seed: 1, ModelOptions(), nodes: 3)
        for node in world.nodes { node.join(now: world.now) }
        world.run(seconds: 1)
        for _ in 0..<100 { for node in world.nodes { node.publish(now: world.now) } }
        #expect(world.run(seconds: 20) { world.areDone() && world.truth.count == 300 })
        world.check()
        #expect(world.nodes.allSatisfy { $0.isCurrent && $0.refused.isEmpty })
    }

    @Test func aNodeThatJoinsLaterReadsTheNewestMessages() throws {
        let world = try World(seed: 2, ModelOptions(), nodes: 2)
        world.nodes[0].join(now: world.now)
        for _ in 0..<700 { world.nodes[0].publish(now: world.now) }
        #expect(world.run(seconds: 20) { world.truth.count == 700 && world.nodes[0].waiting.isEmpty })
        world.nodes[1].join(retain: 300, now: world.now)
        #expect(world.run(seconds: 5) { world.nodes[1].isCurrent })
        #expect(world.nodes[1].received.map(\.sequence) == Array(401...700))
        world.nodes[1].publish(now: world.now)
        #expect(world.run(seconds: 5) { world.areDone() })
        world.check()
    }

    /// Two servers' worth of trouble: everything that can be lost or late is, connections break, leaders change.
    @Test(arguments: 1...30 as ClosedRange<UInt64>)
    func nothingIsLostOrRepeatedOrOutOfOrder(seed: UInt64) throws {
        var random = RandomSource(seed: seed)
        var options = ModelOptions()
        options.servers = seed.isMultiple(of: 2) ? 3 : 1
        options.faults = .everything
        let world = try World(seed: seed, options, nodes: 3, time: 100)
        for node in world.nodes { node.join(now: world.now) }
        var chains: [[PublishTicket]] = Array(repeating: [], count: world.nodes.count)
        for _ in 0..<120 {
            let index = Int(random.next() % 3)
            let node = world.nodes[index]
            switch random.next() % 8 {
            case 0: node.breakConnection(now: world.now)
            case 1:
                if let name = world.cluster.streamNames.first { world.cluster.changeLeader(of: name, now: world.now) }
            case 2: world.run(seconds: 1)
            case 3, 4: chains[index].append(node.publish(chain: PublishTicket(1 << 40), now: world.now))
            default: node.publish(now: world.now)
            }
            world.run(seconds: 1) { random.next() % 20 == 0 }
        }
        world.cluster.faults = ModelFaults()
        #expect(world.run(seconds: 200) { world.areDone() }, "\(world.nodes.map(\.waiting.count))")
        world.check()
        #expect(world.nodes.map(\.placed.count).reduce(0, +) > 40, "the test publishes")
        for (node, chain) in zip(world.nodes, chains) {
            let texts = Set(chain.map { "node-\(world.nodes.firstIndex { $0 === node } ?? 0).\($0.value)" })
            let order = world.truth.map(\.text).filter { texts.contains($0) }
            #expect(order == order.sorted { Int($0.split(separator: ".")[1])! < Int($1.split(separator: ".")[1])! })
        }
    }

    /// A topic that retains one message, while others publish faster than this node can ask.
    @Test func aFastTopicThatRetainsLittleIsJoined() throws {
        var options = ModelOptions()
        options.faults.answerDelay = 40 * Node.millisecond
        let world = try World(seed: 3, options, nodes: 2)
        let (node, writer) = (world.nodes[0], world.nodes[1])
        writer.join(retain: 1, now: world.now)
        writer.publish(now: world.now)
        #expect(world.run(seconds: 20) { writer.isCurrent && writer.waiting.isEmpty })
        node.join(retain: 1, now: world.now)
        let isJoined = world.run(seconds: 10) {
            writer.publish(now: world.now)
            return node.isCurrent && node.received.count > 100
        }
        #expect(isJoined && node.upstream.status.counts.lost == 0)
    }

    /// A message that was stored, and removed before this node read it, does not block those after it.
    @Test func aMessageThatWasRemovedUnreadIsAnsweredAtOnce() throws {
        let world = try World(seed: 7, .late, nodes: 2)
        for each in world.nodes { each.join(retain: 2, now: world.now) }
        let (other, node) = (world.nodes[0], world.nodes[1])
        world.storeThirdMessageUnread()
        for _ in 0..<5 { other.publish(now: world.now) }
        #expect(world.run(seconds: 20) { other.waiting.isEmpty })
        node.isCutOff = false
        let back = world.now
        #expect(world.run(seconds: 20) { node.waiting.isEmpty })
        #expect(world.now - back < 10_000 * Node.millisecond && node.lost.contains(3))
        #expect(node.refused.values.map { $0.message.contains("outcome unknown") } == [true])
    }
}

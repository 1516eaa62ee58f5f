// What happens if JetStream loses messages that it had acknowledged.

@testable import Core
import JetStreamModel
import Replay
import Testing

@testable import Upstream

@Suite struct LossTests {
    private func world(_ seed: UInt64, messages: Int) throws -> World {
        let world = try World(seed: seed, ModelOptions(), nodes: 3, time: 100)
        for node in world.nodes { node.join(now: world.now) }
        for _ in 0..<messages { world.nodes[0].publish(now: world.now) }
        #expect(world.run(seconds: 20) { world.areDone() && world.truth.count == messages })
        return world
    }

    private func name(_ world: World) throws -> String { try #require(world.cluster.streamNames.first) }

    /// All nodes leave the topic, and it begins again.
    private func checkNewEpoch(_ world: World, _ old: String) {
        #expect(world.run(seconds: 60) { world.nodes.allSatisfy { !$0.left.isEmpty } })
        let expected = "unavailable: The topic 't' has begun again with another epoch; subscribe again."
        #expect(world.nodes.allSatisfy { $0.left.map(\.message) == [expected] && $0.ended.isEmpty })
        for node in world.nodes { node.join(now: world.now) }
        world.nodes[1].publish(now: world.now)
        #expect(world.run(seconds: 20) { world.nodes.allSatisfy { $0.isCurrent && $0.next == SequenceNumber(2) } })
        #expect(world.cluster.streamName(for: "fb.p.-.t") != old && world.cluster.streamNames.contains(old))
    }

    /// The leader reports a lower last sequence, and a new message gets a sequence that was used.
    @Test func theTailIsLostWhileNodesAreConnected() throws {
        let world = try world(1, messages: 20)
        let old = try name(world)
        world.cluster.loseTail(of: old, count: 5)
        checkNewEpoch(world, old)
    }

    /// Nobody has published since, so a node must publish itself to find out.
    @Test func theTailIsLostWhileNodesAreAway() throws {
        let world = try world(2, messages: 20)
        let old = try name(world)
        world.cluster.loseTail(of: old, count: 5)
        for node in world.nodes { node.breakConnection(now: world.now) }
        checkNewEpoch(world, old)
    }

    /// Others have published so much since that the last sequence says nothing.
    @Test func theTailWasReplacedWhileANodeWasAway() throws {
        let world = try world(3, messages: 20)
        let old = try name(world)
        let away = world.nodes[2]
        away.isCutOff = true
        away.breakConnection(now: world.now)
        world.cluster.loseTail(of: old, count: 5)
        let stranger = try Node("stranger", world.cluster, seed: 77, time: 100, now: world.now)
        // The others would notice; this one has not seen the messages.
        for node in world.nodes.prefix(2) { node.isCutOff = true }
        for node in world.nodes.prefix(2) { node.breakConnection(now: world.now) }
        world.add(stranger)
        stranger.join(now: world.now)
        for _ in 0..<30 { stranger.publish(now: world.now) }
        #expect(world.run(seconds: 20) { stranger.waiting.isEmpty })
        for node in world.nodes { node.isCutOff = false }
        checkNewEpoch(world, old)
    }

    /// A message below the last one is not delivered by another name.
    @Test func aMessageThatIsPublishedAfterTheLossIsNotLostSilently() throws {
        let world = try world(4, messages: 20)
        let old = try name(world)
        world.cluster.loseTail(of: old, count: 5)
        let ticket = world.nodes[0].publish(now: world.now)
        #expect(world.run(seconds: 60) { world.nodes.allSatisfy { !$0.left.isEmpty } })
        #expect(world.nodes[0].waiting[ticket] == nil)
        #expect(world.nodes[0].refused.values.allSatisfy { $0.message.hasPrefix("unavailable: outcome unknown") })
    }

    /// Whatever a leader says without proof, and whatever limits remove, is no loss.
    @Test(arguments: 1...10 as ClosedRange<UInt64>)
    func nothingElseIsTakenForALoss(seed: UInt64) throws {
        var random = RandomSource(seed: seed)
        var options = ModelOptions()
        options.servers = 3
        options.faults = .everything
        options.faults.commitDelay = 50 * Node.millisecond
        options.faults.clockSkew = 3_000 * Node.millisecond
        options.faults.newLeaderOvertakes = true
        let world = try World(seed: seed, options, nodes: 2, time: 100)
        for node in world.nodes { node.join(retain: 10, now: world.now) }
        for _ in 0..<100 {
            let node = world.nodes[Int(random.next() % 2)]
            switch random.next() % 6 {
            case 0: node.breakConnection(now: world.now)
            case 1:
                if let name = world.cluster.streamNames.first { world.cluster.changeLeader(of: name, now: world.now) }
            default: node.publish(now: world.now)
            }
            world.run(seconds: 1) { random.next() % 20 == 0 }
        }
        world.cluster.faults = ModelFaults()
        #expect(world.run(seconds: 100) { world.nodes.allSatisfy { $0.waiting.isEmpty } })
        #expect(world.nodes.allSatisfy { $0.left.isEmpty }, "\(world.nodes.map(\.left))")
    }
}

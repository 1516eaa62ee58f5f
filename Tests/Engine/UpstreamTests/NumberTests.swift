// Numbered messages of shared topics: each is in the stream once, whatever happens and wherever it is published.

@testable import Core
import JetStreamModel
import Replay
import Testing

@testable import Upstream

@Suite struct NumberTests {
    private func world(_ seed: UInt64, _ options: ModelOptions = ModelOptions()) throws -> World {
        let world = try World(seed: seed, options, nodes: 2, time: 100)
        for node in world.nodes { node.join(now: world.now) }
        return world
    }

    private func finish(_ world: World) {
        #expect(world.run(seconds: 100) { world.nodes.allSatisfy { $0.waiting.isEmpty } })
    }

    @Test func numbersAreJudgedByTheStream() throws {
        let world = try world(1)
        for number in 1...5 as ClosedRange<UInt64> { world.nodes[0].publish("p", number, now: world.now) }
        finish(world)
        #expect(world.truth.map(\.text) == ["p.1", "p.2", "p.3", "p.4", "p.5"])
        // On another node, which has not heard of the publisher.
        world.nodes[1].publish("p", 4, now: world.now)
        world.nodes[1].publish("p", 7, now: world.now)
        world.nodes[1].publish("p", 6, now: world.now)
        world.nodes[1].publish("q", 2, now: world.now)
        finish(world)
        #expect(world.nodes[1].duplicates == ["p.4": 5] && world.nodes[1].placed["p.6"] == 6)
        #expect(world.nodes[1].refused["p.7"]?.message.hasPrefix("publisher: expected 6; ") == true)
        #expect(world.nodes[1].refused["q.2"]?.message.hasPrefix("publisher: unknown, start at 1; ") == true)
        // The first node remembers 5, and must not refuse 7 for that.
        world.nodes[0].publish("p", 7, now: world.now)
        finish(world)
        #expect(world.nodes[0].placed["p.7"] == 7)
        // The second remembers 6, and JetStream refuses what it expects.
        world.nodes[1].publish("p", 7, now: world.now)
        world.nodes[1].publish("p", 8, now: world.now)
        finish(world)
        #expect(world.nodes[1].duplicates == ["p.4": 5, "p.7": 7] && world.nodes[1].placed["p.8"] == 8)
    }

    @Test func aPublisherIsKnownWhileItsLastMessageIsRetained() throws {
        let world = try World(seed: 2, ModelOptions(), nodes: 1, time: 100)
        let node = world.nodes[0]
        node.join(retain: 3, now: world.now)
        node.publish("p", 1, now: world.now)
        finish(world)
        let first = node.find("p", now: world.now)
        #expect(world.run(seconds: 5) { node.found[first] != nil })
        #expect(node.found[first] == SharedProgress(number: 1, sequence: .first))
        for _ in 0..<5 { node.publish(now: world.now) }
        finish(world)
        let second = node.find("p", now: world.now)
        node.publish("p", 2, now: world.now)
        finish(world)
        #expect(world.run(seconds: 5) { node.found[second] != nil } && node.found[second]! == nil)
        #expect(node.refused["p.2"]?.message.hasPrefix("publisher: unknown, start at 1; ") == true)
    }

    /// Publishers that go from node to node and repeat what was not acknowledged, while everything goes wrong.
    @Test(arguments: 1...30 as ClosedRange<UInt64>)
    func eachNumberIsInTheStreamOnce(seed: UInt64) throws {
        var random = RandomSource(seed: seed)
        var options = ModelOptions()
        options.servers = seed.isMultiple(of: 2) ? 3 : 1
        options.faults = .everything
        let world = try world(seed, options)
        var next: [String: UInt64] = ["p": 1, "q": 1]
        for _ in 0..<150 {
            let publisher = random.next() % 2 == 0 ? "p" : "q"
            let node = world.nodes[Int(random.next() % 2)]
            let number = next[publisher, default: 1]
            switch random.next() % 8 {
            case 0: node.breakConnection(now: world.now)
            case 1:
                if let name = world.cluster.streamNames.first { world.cluster.changeLeader(of: name, now: world.now) }
            // Several nodes publish the same, and the next one.
            case 2: for each in world.nodes { each.publish(publisher, number, now: world.now) }
            case 3: node.publish(publisher, number + 1, now: world.now)
            default: node.publish(publisher, number, now: world.now)
            }
            world.run(seconds: 2) { random.next() % 40 == 0 }
            for publisher in next.keys {
                while let number = next[publisher], world.nodes.contains(where: { $0.has("\(publisher).\(number)") }) {
                    next[publisher] = number + 1
                }
            }
        }
        world.cluster.faults = ModelFaults()
        finish(world)
        #expect(world.run(seconds: 20) { world.areDone() })
        world.check()
        for (publisher, last) in next {
            let mine = world.truth.map(\.text).filter { $0.hasPrefix(publisher) }
            #expect(mine == (1...max(1, UInt64(mine.count))).map { "\(publisher).\($0)" }, "seed \(seed)")
            #expect(mine.count >= Int(last) - 1)
        }
        #expect(world.truth.count > 10)
    }
}

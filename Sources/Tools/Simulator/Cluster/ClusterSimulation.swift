// ClusterSimulation: several nodes without shards over one model of NATS, while everything fails: connections, servers,
// leaders, answers, nodes, and in some runs what JetStream has stored. Then nothing fails any more, and all nodes must
// agree.

import Core
import Replay

public final class ClusterSimulation {
    private let world: ClusterWorld
    private let nodes: [ClusterNode]
    /// How many messages without a number were published.
    private var texts = 0

    /// Runs a seed to its end, or until a rule is broken.
    /// - Parameter print: receives a line for each act.
    public static func run(seed: UInt64, print: ((String) -> Void)? = nil) -> Outcome {
        ClusterSimulation(seed, print).run()
    }

    private init(_ seed: UInt64, _ print: ((String) -> Void)?) {
        let world = ClusterWorld(seed, print)
        self.world = world
        nodes = (0..<2 + world.chance.below(3)).map {
            ClusterNode("node-\($0)", world.cluster, world.journal, seed: seed &* 31 &+ UInt64($0), now: world.now)
        }
    }

    private var chance: Chance { world.chance }

    private func run() -> Outcome {
        trouble()
        if world.fault == nil { recover() }
        return world.outcome("nodes=\(nodes.count)")
    }

    private func pass(_ milliseconds: Int) {
        world.pass(milliseconds) { now in
            for node in nodes { node.link.tick(now: now) }
            for node in nodes { node.run(now: now) }
        }
    }

    private func trouble() {
        let steps = chance.pick([40, 150, 150, 300])
        while world.step < steps, world.fault == nil {
            world.step += 1
            act()
            pass(chance.pick([0, 5, 20, 100, 400]))
        }
    }

    private func act() {
        let (node, topic) = (chance.pick(nodes), chance.pick(world.topics))
        node.join(topic, retain: 100_000, now: world.now)
        switch chance.below(24) {
        case let kind where kind <= 6: world.harm(kind, node, topic)
        case 7:
            world.note("\(node.name) leaves '\(topic)'")
            node.leave(topic, now: world.now)
        case 8 where world.endsTopics && chance.isOne(in: 3):
            let end = chance.pick([SharedEnd.completed, .failed("why"), .deleted, .deleted])
            world.note("\(node.name) ends '\(topic)': \(end)")
            node.end(topic, end, now: world.now)
        case 9: pass(chance.below(8_000))
        case 10...15: number(node, topic)
        default:
            texts += 1
            publish(ClusterMessage(topic: topic, publisher: "", number: nil, text: "m\(texts)"), at: node)
        }
    }

    private func publish(_ message: ClusterMessage, at node: ClusterNode) {
        let isChained = message.number == nil && chance.isOne(in: 2)
        world.note("\(node.name) publishes \(message.text) to '\(message.topic)'")
        node.publish(message, chain: isChained ? PublishTicket(1 << 47) : nil, now: world.now)
    }

    /// A publisher goes on with the number after the last one that is known to be in the topic, or repeats it.
    private func number(_ node: ClusterNode, _ topic: String) {
        let publisher = "p.\(chance.below(2))"
        let epoch = node.follows[topic]?.epoch ?? 0
        func message(_ number: UInt64) -> ClusterMessage {
            ClusterMessage(topic: topic, publisher: publisher, number: number, text: "\(publisher).\(number)")
        }
        var number: UInt64 = 1
        while world.journal.has(message(number), epoch: epoch) { number += 1 }
        publish(message(Swift.max(1, chance.pick([number, number, number, number &- 1, number + 1]))), at: node)
    }

    /// Nothing fails any more: whatever waits is answered, and all nodes have the same.
    private func recover() {
        world.heal(nodes)
        for _ in 0..<400 where world.fault == nil {
            for node in nodes { for topic in world.topics { node.join(topic, retain: 100_000, now: world.now) } }
            pass(500)
            if isAtRest { return }
        }
        world.journal.referee.fail(
            "the nodes do not come to rest: \(nodes.map(\.description)), \(world.streamLengths)")
    }

    private var isAtRest: Bool {
        nodes.allSatisfy { node in
            guard node.isAtRest else { return false }
            return world.topics.allSatisfy { topic in
                guard let (epoch, stream) = world.stream(of: topic) else {
                    return node.follows[topic]?.isCurrent != true
                }
                guard let follow = node.follows[topic], follow.isCurrent, epoch == follow.epoch else { return false }
                // After the end, there may be messages that were refused.
                return follow.isOver || follow.next?.value ?? 0 > world.journal.lastMessage(of: stream) ?? 0
            }
        }
    }
}

// BrokersSimulation: several whole brokers with clients over one model of NATS, while everything fails: the clients'
// connections, too. Each subscriber receives each message of its topic once and in order, unless some are reported as
// lost; nothing acknowledged is missing at the end.

import Core

public final class BrokersSimulation {
    private let world: ClusterWorld
    private let nodes: [ClusterBroker]
    private let readers: [ClusterReader]
    private let followers: [ClusterFollower]
    private let writers: [ClusterWriter]
    private var calls: [ClusterConnection] = []
    private var isHealed = false

    /// Runs a seed to its end, or until a rule is broken.
    /// - Parameters:
    ///   - withPatterns: whether there are subscribers to patterns.
    ///   - print: receives a line for each act.
    public static func run(seed: UInt64, withPatterns: Bool = false, print: ((String) -> Void)? = nil) -> Outcome {
        BrokersSimulation(seed, withPatterns, print).run()
    }

    private init(_ seed: UInt64, _ withPatterns: Bool, _ print: ((String) -> Void)?) {
        let world = ClusterWorld(seed, print)
        self.world = world
        let retain = world.chance.pick([100_000, 100_000, 10])
        if retain < 100 { world.journal.expectRemovals() }
        let nodes = (0..<2 + world.chance.below(2)).map {
            ClusterBroker("node-\($0)", Plan.sharing(world.chance, retain: retain), world)
        }
        self.nodes = nodes
        readers = (0..<1 + world.chance.below(4)).map { ClusterReader($0, world, nodes) }
        writers = (0..<1 + world.chance.below(3)).map {
            ClusterWriter($0, isNumbered: world.chance.isOne(in: 2), world, nodes)
        }
        // Without them, a seed still gives the same run.
        followers = withPatterns ? (0..<1 + world.chance.below(3)).map { ClusterFollower($0, world, nodes) } : []
    }

    private var chance: Chance { world.chance }

    private func run() -> Outcome {
        let steps = chance.pick([40, 100, 200])
        while world.step < steps, world.fault == nil {
            world.step += 1
            act()
            pass(chance.pick([5, 20, 100, 300]))
        }
        if world.fault == nil { recover() }
        return world.outcome(
            "nodes=\(nodes.count) readers=\(readers.count) followers=\(followers.count) writers=\(writers.count)")
    }

    private func pass(_ milliseconds: Int) {
        world.pass(milliseconds) { now in
            for node in nodes { node.advance(to: now) }
            for node in nodes { node.run(isPartial: !isHealed && chance.isOne(in: 2)) }
            for reader in readers { reader.step() }
            for follower in followers { follower.step() }
            for writer in writers {
                if !isHealed, chance.isOne(in: 4) { writer.publish() }
                writer.step()
            }
            calls.removeAll { call in
                var isAnswered = call.isClosed
                call.read(world.journal.referee) { _ in isAnswered = true }
                if isAnswered { call.close() }
                return isAnswered
            }
        }
    }

    private func act() {
        let (node, topic) = (chance.pick(nodes), chance.pick(world.topics))
        switch chance.below(24) {
        case let kind where kind <= 6: world.harm(kind, node, topic)
        case 7 where world.endsTopics && chance.isOne(in: 2): end(topic, at: node)
        case 8: pass(chance.below(8_000))
        default: break
        }
    }

    private func end(_ topic: String, at node: ClusterBroker) {
        guard let call = node.open() else { return }
        let end = chance.pick(["complete", "fail", "delete", "delete"])
        world.note("\(node.name) is asked to \(end) '\(topic)'")
        if end == "delete" { world.journal.deletes(topic) }
        call.ask("$SYS.topic.\(end)?name=\(topic)\(end == "fail" ? "&reason=why" : "")", "")
        calls.append(call)
    }

    /// Nothing fails any more: whatever waits is answered, and all subscribers receive the rest.
    private func recover() {
        isHealed = true
        world.heal(nodes)
        for reader in readers { reader.isEager = true }
        for follower in followers { follower.hurry() }
        for _ in 0..<400 where world.fault == nil {
            pass(500)
            if writers.allSatisfy({ $0.waiting == nil }), readers.allSatisfy(\.isAtRest),
                followers.allSatisfy(\.isAtRest)
            {
                return
            }
        }
        world.journal.referee.fail(
            "they do not come to rest: \(readers.map(\.description)), \(followers.map(\.description)), "
                + "\(writers.map(\.description)), "
                + "\(nodes.map(\.description)), \(world.streamLengths)")
    }
}

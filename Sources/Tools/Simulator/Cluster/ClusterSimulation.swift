// ClusterSimulation: several nodes over one model of NATS, while everything fails: connections, servers, leaders,
// answers, nodes, and in some runs what JetStream has stored. Then nothing fails any more, and all nodes must agree.

import Core
import JetStreamModel
import Replay

public final class ClusterSimulation {
    private static let millisecond: UInt64 = 1_000_000
    private static let second: UInt64 = 1_000_000_000

    private let seed: UInt64
    private let chance: Chance
    private let cluster: ModelCluster
    private let journal: ClusterJournal
    private let nodes: [ClusterNode]
    private let topics: [String]
    private let losesMessages: Bool
    private let endsTopics: Bool
    private let print: ((String) -> Void)?
    private var now: UInt64 = 1_000_000_000_000
    private var step = 0
    /// How many messages without a number were published, and the next number of each publisher and topic.
    private var texts = 0
    private var next: [String: UInt64] = [:]

    /// Runs a seed to its end, or until a rule is broken.
    /// - Parameter print: receives a line for each act.
    public static func run(seed: UInt64, print: ((String) -> Void)? = nil) -> Outcome {
        ClusterSimulation(seed, print).run()
    }

    private init(_ seed: UInt64, _ print: ((String) -> Void)?) {
        self.seed = seed
        self.print = print
        let chance = Chance(seed: seed)
        self.chance = chance
        var options = ModelOptions()
        options.servers = chance.pick([1, 3])
        options.faults = ClusterSimulation.faults(chance)
        let cluster = ModelCluster(seed: seed, options: options)
        self.cluster = cluster
        let journal = ClusterJournal(cluster)
        self.journal = journal
        topics = Array(["a", "b.c"].prefix(1 + chance.below(2)))
        losesMessages = chance.isOne(in: 4)
        endsTopics = chance.isOne(in: 2)
        let now = now
        nodes = (0..<2 + chance.below(3)).map {
            ClusterNode("node-\($0)", cluster, journal, seed: seed &* 31 &+ UInt64($0), now: now)
        }
    }

    private static func faults(_ chance: Chance) -> ModelFaults {
        func rate(_ most: Int) -> Int { chance.isOne(in: 3) ? 0 : most / 2 + chance.below(most) }
        func time(_ most: UInt64) -> UInt64 { chance.isOne(in: 3) ? 0 : UInt64(chance.below(Int(most))) * millisecond }
        var faults = ModelFaults()
        faults.answerDelay = time(60)
        faults.acknowledgementDelay = time(60)
        faults.liveDelay = time(60)
        faults.commitDelay = time(60)
        faults.electionTime = time(1_000)
        faults.creationTime = time(300)
        faults.clockSkew = time(3_000)
        faults.newLeaderOvertakes = chance.isOne(in: 2)
        faults.lostAcknowledgements = rate(30)
        faults.lostRepublished = rate(30)
        faults.lostAnswers = rate(60)
        faults.duplicates = rate(30)
        faults.unavailable = rate(60)
        faults.lagging = rate(20)
        return faults
    }

    private func run() -> Outcome {
        trouble()
        if journal.referee.fault == nil { recover() }
        if journal.referee.fault == nil { journal.check() }
        return Outcome(
            seed: seed, plan: "nodes=\(nodes.count) servers=\(cluster.options.servers) topics=\(topics)",
            fault: journal.referee.fault, step: step, hash: 0, published: journal.published,
            received: journal.received, resumed: 0, mostHeap: 0)
    }

    private func pass(_ milliseconds: Int) {
        for _ in 0..<max(1, milliseconds / 5) where journal.referee.fault == nil {
            now += 5 * ClusterSimulation.millisecond
            cluster.tick(now: now)
            for node in nodes { node.tick(now: now) }
            for node in nodes { node.run(now: now) }
        }
    }

    private func trouble() {
        let steps = chance.pick([40, 150, 150, 300])
        while step < steps, journal.referee.fault == nil {
            step += 1
            act()
            pass(chance.pick([0, 5, 20, 100, 400]))
        }
    }

    private func act() {
        let (node, topic) = (chance.pick(nodes), chance.pick(topics))
        node.join(topic, retain: 100_000, now: now)
        switch chance.below(24) {
        case 0: note("\(node.name) loses its connection") { node.breakConnection(now: now) }
        case 1: note("\(node.name) is cut off, or no longer") { node.isCutOff = !node.isCutOff && chance.isOne(in: 2) }
        case 2: if let connection = node.connection { note("partition") { cluster.partition(connection) } }
        case 3: note("\(node.name) is killed") { node.restart(now: now) }
        case 4:
            let names = cluster.streamNames
            if !names.isEmpty { note("new leader") { cluster.changeLeader(of: chance.pick(names), now: now) } }
        case 5: note("all connections are closed") { cluster.closeAll() }
        case 6: note("\(node.name) leaves '\(topic)'") { node.leave(topic, now: now) }
        case 7 where losesMessages: lose(topic)
        case 8 where endsTopics && chance.isOne(in: 3):
            let end = chance.pick([SharedEnd.completed, .failed("why"), .deleted, .deleted])
            note("\(node.name) ends '\(topic)': \(end)") { node.end(topic, end, now: now) }
        case 9: pass(chance.below(8_000))
        case 10...15: number(node, topic)
        default:
            texts += 1
            let message = ClusterMessage(topic: topic, publisher: "", number: nil, text: "m\(texts)")
            let chain = chance.isOne(in: 2) ? nil : PublishTicket(1 << 47)
            note("\(node.name) publishes \(message.text) to '\(topic)'") {
                node.publish(message, chain: chain, now: now)
            }
        }
    }

    private func lose(_ topic: String) {
        guard let name = cluster.streamName(for: "fb.p.-.\(topic)") else { return }
        if let epoch = UInt64(name.dropFirst(3)) { journal.damage(epoch) }
        note("'\(topic)' loses its tail") { cluster.loseTail(of: name, count: 1 + chance.below(5)) }
    }

    /// A publisher goes on with the number after the last one that is known to be in the topic, or repeats it.
    private func number(_ node: ClusterNode, _ topic: String) {
        let publisher = "p.\(chance.below(2))"
        let epoch = node.follows[topic]?.epoch ?? 0
        func message(_ number: UInt64) -> ClusterMessage {
            ClusterMessage(topic: topic, publisher: publisher, number: number, text: "\(publisher).\(number)")
        }
        var number: UInt64 = 1
        while journal.has(message(number), epoch: epoch) { number += 1 }
        let published = message(Swift.max(1, chance.pick([number, number, number, number &- 1, number + 1])))
        note("\(node.name) publishes \(published.text) to '\(topic)'") {
            node.publish(published, chain: nil, now: now)
        }
    }

    private func note(_ act: @autoclosure () -> String, _ body: () -> Void) {
        if let print { print("\(now / ClusterSimulation.millisecond) \(act())") }
        body()
    }

    /// Nothing fails any more: whatever waits is answered, and all nodes have the same.
    private func recover() {
        cluster.faults = ModelFaults()
        for node in nodes {
            node.isCutOff = false
            // A partition is found out only when nothing has arrived for a while.
            node.breakConnection(now: now)
        }
        for _ in 0..<400 where journal.referee.fault == nil {
            for node in nodes { for topic in topics { node.join(topic, retain: 100_000, now: now) } }
            pass(500)
            if isAtRest { return }
        }
        let ends = cluster.streamNames.map { "\($0) has \(cluster.stream(named: $0)?.lastSequence ?? 0)" }
        journal.referee.fail("the nodes do not come to rest: \(nodes.map(\.description)), \(ends)")
    }

    private var isAtRest: Bool {
        nodes.allSatisfy { node in
            guard node.isAtRest else { return false }
            return topics.allSatisfy { topic in
                guard let name = cluster.streamName(for: "fb.p.-.\(topic)") ?? nil,
                    let stream = cluster.stream(named: name)
                else { return node.follows[topic]?.isCurrent != true }
                guard let follow = node.follows[topic], follow.isCurrent, name == "FB_\(follow.epoch)" else {
                    return false
                }
                // After the end, there may be messages that were refused.
                return follow.isOver || follow.next?.value == stream.lastSequence + 1
            }
        }
    }
}

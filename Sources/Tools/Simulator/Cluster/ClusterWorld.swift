// ClusterWorld: a model of NATS in which everything fails, and the journal of what nodes over it report.

import Core
import JetStreamModel

/// A node that the world can harm.
protocol ClusterMember: AnyObject {
    var name: String { get }
    var link: ModelLink { get }
    /// The node's process is killed and started again.
    func restart(now: UInt64)
}

final class ClusterWorld {
    static let millisecond: UInt64 = 1_000_000
    static let second: UInt64 = 1_000_000_000

    let seed: UInt64
    let chance: Chance
    let cluster: ModelCluster
    let journal: ClusterJournal
    let topics: [String]
    /// Whether streams lose messages in this run, and whether topics end.
    let losesMessages: Bool
    let endsTopics: Bool
    private let print: ((String) -> Void)?
    private(set) var now: UInt64 = 1_000_000_000_000
    var step = 0

    /// - Parameter print: receives a line for each act.
    init(_ seed: UInt64, _ print: ((String) -> Void)?) {
        self.seed = seed
        self.print = print
        chance = Chance(seed: seed)
        var options = ModelOptions()
        options.servers = chance.pick([1, 3])
        options.faults = ClusterWorld.faults(chance)
        cluster = ModelCluster(seed: seed, options: options)
        journal = ClusterJournal(cluster)
        topics = Array(["a", "b.c"].prefix(1 + chance.below(2)))
        losesMessages = chance.isOne(in: 4)
        endsTopics = chance.isOne(in: 2)
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

    var fault: String? { journal.referee.fault }

    func outcome(_ plan: String) -> Outcome {
        if fault == nil { journal.check() }
        return Outcome(
            seed: seed, plan: "\(plan) servers=\(cluster.options.servers) topics=\(topics)", fault: fault, step: step,
            hash: 0, published: journal.published, received: journal.received, resumed: 0, mostHeap: 0)
    }

    /// Time passes in steps of 5 ms, unless a rule is broken.
    func pass(_ milliseconds: Int, _ body: (_ now: UInt64) -> Void) {
        for _ in 0..<max(1, milliseconds / 5) where fault == nil {
            now += 5 * ClusterWorld.millisecond
            cluster.tick(now: now)
            body(now)
        }
    }

    func note(_ act: @autoclosure () -> String) { print?("\(now / ClusterWorld.millisecond) \(act())") }

    /// Does harm of a kind from 0 to 6 to a node, or to a topic.
    func harm(_ kind: Int, _ node: some ClusterMember, _ topic: String) {
        switch kind {
        case 0:
            note("\(node.name) loses its connection")
            node.link.breakConnection(now: now)
        case 1:
            note("\(node.name) is cut off, or no longer")
            node.link.isCutOff = !node.link.isCutOff && chance.isOne(in: 2)
        case 2:
            guard let connection = node.link.connection else { return }
            note("partition of \(node.name)")
            cluster.partition(connection)
        case 3:
            note("\(node.name) is killed")
            node.restart(now: now)
        case 4:
            let names = cluster.streamNames
            guard !names.isEmpty else { return }
            note("new leader")
            cluster.changeLeader(of: chance.pick(names), now: now)
        case 5:
            note("all connections are closed")
            cluster.closeAll()
        default: lose(topic)
        }
    }

    private func lose(_ topic: String) {
        guard losesMessages, let name = cluster.streamName(for: "fb.p.-.\(topic)") else { return }
        if let epoch = UInt64(name.dropFirst(3)) { journal.damage(epoch, of: topic) }
        note("'\(topic)' loses its tail")
        cluster.loseTail(of: name, count: 1 + chance.below(5))
    }

    /// From now on, nothing fails.
    func heal(_ nodes: [some ClusterMember]) {
        cluster.faults = ModelFaults()
        for node in nodes {
            node.link.isCutOff = false
            // A partition is found out only when nothing has arrived for a while.
            node.link.breakConnection(now: now)
        }
    }

    /// The stream of a topic, and its epoch.
    func stream(of topic: String) -> (epoch: UInt64, stream: StreamTruth)? {
        guard let name = cluster.streamName(for: "fb.p.-.\(topic)"), let stream = cluster.stream(named: name),
            let epoch = UInt64(name.dropFirst(3))
        else { return nil }
        return (epoch, stream)
    }

    var streamLengths: [String] {
        cluster.streamNames.map { "\($0) has \(cluster.stream(named: $0)?.lastSequence ?? 0)" }
    }
}

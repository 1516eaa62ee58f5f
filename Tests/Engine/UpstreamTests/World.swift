// World: several nodes over one model of NATS, and their clock.

import Core
import JetStreamModel
import Replay
import Testing

@testable import Upstream

final class World {
    let cluster: ModelCluster
    private(set) var nodes: [Node]
    private(set) var now: UInt64 = 1_000_000_000_000

    init(seed: UInt64, _ options: ModelOptions, nodes count: Int, time: UInt64 = 30) throws {
        let cluster = ModelCluster(seed: seed, options: options)
        self.cluster = cluster
        let now = now
        nodes = try (0..<count).map {
            try Node("node-\($0)", cluster, seed: seed &* 31 &+ UInt64($0), time: time, now: now)
        }
    }

    func add(_ node: Node) { nodes.append(node) }

    /// Lets time pass until the condition holds. Returns false if it does not within `seconds`.
    @discardableResult
    func run(seconds: UInt64, until condition: () -> Bool = { false }) -> Bool {
        let end = now + seconds * 1_000_000_000
        while now < end {
            for node in nodes { node.run(now: now) }
            if condition() { return true }
            now += 5 * Node.millisecond
            cluster.tick(now: now)
            for node in nodes { node.tick(now: now) }
        }
        return condition()
    }

    var stream: StreamTruth? { cluster.streamName(for: "fb.p.-.t").flatMap { cluster.stream(named: $0) } }

    /// The messages of the stream, in order, without those for nodes.
    var truth: [(sequence: UInt64, text: String)] {
        (stream?.messages ?? []).filter {
            !String(decoding: $0.headers ?? [], as: UTF8.self).contains("Forebay-Control")
        }
        .map { ($0.sequence, String(decoding: $0.payload, as: UTF8.self)) }
    }

    func areDone() -> Bool {
        let end = stream?.lastSequence ?? 0
        return nodes.allSatisfy { $0.waiting.isEmpty && $0.received.last?.sequence ?? 0 == end }
    }

    /// Each of two nodes publishes a message. Then the second one publishes another, and loses NATS before it has read
    /// that. Requires options that are `late`.
    func storeThirdMessageUnread() {
        for node in nodes { node.publish(now: now) }
        #expect(run(seconds: 20) { areDone() && truth.count == 2 })
        nodes[1].publish(now: now)
        nodes[1].run(now: now)
        nodes[1].isCutOff = true
        nodes[1].breakConnection(now: now)
        #expect(stream?.lastSequence == 3 && nodes[1].waiting.count == 1)
    }

    /// Each node has what the stream has, and each accepted message is there once.
    func check() {
        let truth = truth
        for (index, node) in nodes.enumerated() {
            #expect(node.left.isEmpty, "node \(index): \(node.left)")
            let known = truth.filter { $0.sequence >= node.received.first?.sequence ?? .max }
            #expect(node.received.map(\.sequence) == known.map(\.sequence), "node \(index)")
            #expect(node.received.map(\.text) == known.map(\.text), "node \(index)")
            for (text, sequence) in node.placed {
                #expect(truth.filter { $0.text == text }.map(\.sequence) == [sequence])
            }
        }
    }
}

extension ModelOptions {
    /// What a node has published comes back up to a second later.
    static var late: ModelOptions {
        var options = ModelOptions()
        options.faults.liveDelay = 1_000 * Node.millisecond
        options.faults.acknowledgementDelay = 1_000 * Node.millisecond
        return options
    }
}

extension ModelFaults {
    /// Whatever can be late or lost is.
    static var everything: ModelFaults {
        var faults = ModelFaults()
        faults.answerDelay = 30 * Node.millisecond
        faults.acknowledgementDelay = 30 * Node.millisecond
        faults.liveDelay = 30 * Node.millisecond
        faults.electionTime = 400 * Node.millisecond
        faults.lostAcknowledgements = 20
        faults.lostRepublished = 20
        faults.lostAnswers = 40
        faults.duplicates = 20
        faults.unavailable = 40
        faults.lagging = 10
        return faults
    }
}

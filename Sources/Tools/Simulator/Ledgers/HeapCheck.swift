// HeapCheck: whether the engine holds more memory than it may, by what it has allocated and not freed. This is the
// bound of the third guarantee: `memory` and a fourth of it, and beyond that what a broker costs by itself and by
// those who are there, whatever they do.

import Core

final class HeapCheck {
    // What `Idle` measures, and a part more: 270,976 bytes for a shard, 1,140 for a connection of RSocket and 1,522 for
    // one that can be resumed, 28,676 for one of HTTP/2, 807 for a subscription and 2,237 for a call of gRPC, 1,542 for
    // a topic.

    /// Bytes of a shard with nobody on it.
    static let shard = 320 << 10
    /// How many messages of the greatest length it may be putting together at once: as they come, as they go, and for
    /// those who want them in another form.
    static let scratches = 3
    /// Bytes of connections, streams and topics that are idle. The tables of HPACK fill with use, to 4 KiB each.
    static let connection = 4 << 10
    static let http2Connection = 40 << 10
    static let stream = 4 << 10
    static let topic = 4 << 10

    /// What is put aside of a connection's requests though memory is used up, and all else has given way.
    static let requests = 16 << 10

    private let broker: Broker
    private let referee: Referee
    private let fixed: Int
    /// The most that there were at once, as tables do not shrink.
    private var population = Inspector.Population()
    private var http2 = 0
    /// Bytes, at most so far.
    private(set) var most = 0

    init(_ broker: Broker, _ plan: Plan, _ referee: Referee) {
        self.broker = broker
        self.referee = referee
        let message = plan.limits.payload + plan.limits.metadata
        fixed =
            plan.limits.memory + plan.limits.memory / 4
            + plan.shards * (HeapCheck.shard + HeapCheck.scratches * message)
    }

    /// To be asked after every input.
    func run() {
        let live = Heap.live
        guard live > most else { return }
        most = live
        guard live > fixed else { return }
        var now = Inspector.Population()
        for shard in broker.shards { shard.inspector.add(to: &now) }
        population.connections = Swift.max(population.connections, now.connections)
        population.streams = Swift.max(population.streams, now.streams)
        population.topics = Swift.max(population.topics, now.topics)
        http2 = Swift.max(http2, broker.wires.joined().count { $0.isHTTP2 })
        let bound =
            fixed + population.connections * (HeapCheck.connection + HeapCheck.requests)
            + http2 * HeapCheck.http2Connection
            + population.streams * HeapCheck.stream + population.topics * HeapCheck.topic
        referee.expect(
            live <= bound,
            "\(live) bytes are allocated, and \(bound) may be, with \(now.connections) connections, \(now.streams) "
                + "streams and \(now.topics) topics; the broker counts \(broker.memory.used), "
                + "\(broker.memory.unread) of it unread: \(broker.tally)")
    }
}

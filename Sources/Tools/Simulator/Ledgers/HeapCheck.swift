// HeapCheck: whether the engine holds more memory than allowed, measured by what it has allocated and not freed. This
// is the bound of the third guarantee: `memory` plus a quarter of it, plus the fixed cost of a broker and of its
// clients, whatever they do.

import Core

final class HeapCheck {
    // Measured by `Idle`, with a margin: 270,976 bytes for a shard, 1,140 for an RSocket connection and 1,522 for one
    // that can be resumed, 28,676 for an HTTP/2 connection, 807 for a subscription and 2,237 for a gRPC call, 1,542 for
    // a topic.

    /// Bytes of a shard without clients.
    static let shard = 320 << 10
    /// How many messages of maximum size a shard may assemble at once: while receiving, while sending, and when
    /// converting to another format.
    static let scratches = 3
    /// Bytes of idle connections, streams and topics. HPACK's tables fill with use, up to 4 KiB each.
    static let connection = 4 << 10
    static let http2Connection = 40 << 10
    static let stream = 4 << 10
    static let topic = 4 << 10

    /// What a connection's requests may occupy when memory is used up and everything else has been released.
    static let requests = 16 << 10

    private let broker: Broker
    private let referee: Referee
    private let fixed: Int
    /// The highest counts so far, because tables do not shrink.
    private var population = Inspector.Population()
    private var http2 = 0
    /// The most bytes so far.
    private(set) var most = 0

    init(_ broker: Broker, _ plan: Plan, _ referee: Referee) {
        self.broker = broker
        self.referee = referee
        let message = plan.limits.payload + plan.limits.metadata
        fixed =
            plan.limits.memory + plan.limits.memory / 4
            + plan.shards * (HeapCheck.shard + HeapCheck.scratches * message)
    }

    /// Call after every input.
    func run() {
        let live = Heap.live - broker.leftover
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
            "\(live) bytes are allocated; the limit is \(bound) with \(now.connections) connections, \(now.streams) "
                + "streams and \(now.topics) topics; the broker counts \(broker.memory.used), "
                + "\(broker.memory.unread) of it unread: \(broker.tally)")
    }
}

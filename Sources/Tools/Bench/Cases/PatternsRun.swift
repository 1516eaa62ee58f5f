// PatternsRun: one publisher that sends to many topics in turn, and subscribers that want all of them; and how long a
// quiet topic's messages take beside a busy topic.

import EventLoop
import Glibc
import Measure

extension Bench {
    func run(_ patterns: Patterns, _ contender: Contender) throws(BenchError) -> Figure {
        try withBroker(contender) { (broker) throws(BenchError) in
            let others = try subscribe(to: contender.otherPatterns / budget.divisor, port: broker.port) { "q\($0).>" }
            defer { for fd in others { close(fd) } }
            let wire = PatternWire(contender.system, topics: patterns.topics, contender.interest)
            let receivers = try Receivers(
                subscriptions(patterns), wire, payload: patterns.payload, port: broker.port)
            let publisher = try Publisher(
                topics: 0..<patterns.topics, wire, payload: patterns.payload, port: broker.port)
            let load = try Load(receivers, [Lane(publisher: publisher, receivers: 0..<patterns.subscribers)])
            try load.probe()
            // Making topics and cursors is not measured.
            load.pace = .probe(count: patterns.topics)
            try waitForAll(patterns.topics, load)
            try publishOnce(to: contender.otherTopics / budget.divisor, above: patterns.topics, load, broker)
            return try run(load, broker, lag: Throughput(subscribers: 1, payload: patterns.payload).lag)
        }
    }

    private func subscriptions(_ patterns: Patterns) -> [Subscription] {
        [Subscription](
            repeating: Subscription(window: patterns.window, options: PatternWire.unlimited),
            count: patterns.subscribers)
    }

    /// Publishes a message to each of `count` other topics, which all subscribers receive.
    private func publishOnce(
        to count: Int, above first: Int, _ load: Load, _ broker: BrokerProcess
    ) throws(BenchError) {
        guard count > 0 else { return }
        let topics = (first..<(first + count)).map(PatternWire.topic)
        let payload = load.receivers.frame.payload
        let fd = try Connector.open(port: broker.port, RSocketWire().messages(to: topics, payload: payload))
        defer { close(fd) }
        try waitForAll(count, load)
    }

    /// Waits until every subscriber has received `count` messages, and resets the counters.
    private func waitForAll(_ count: Int, _ load: Load) throws(BenchError) {
        let all = 0..<load.receivers.count
        guard try load.run(for: 10_000_000_000, until: { load.receivers.slowest(in: all) >= count }) else {
            throw BenchError("the first messages of all topics have not arrived")
        }
        load.pace = .silent
        load.reset()
    }

    // MARK: Fairness

    /// Messages per second of a quiet topic, and of the busy one.
    private static let quiet = 0.4
    private static let busy = 400.0
    /// The time without, or with, the busy topic, before it is the other's turn.
    private static let phase: UInt64 = 500_000_000

    func fairness(_ patterns: Patterns, _ contender: Contender) throws(BenchError) -> Figure {
        try withBroker(contender) { (broker) throws(BenchError) in
            let wire = PatternWire(contender.system, topics: patterns.topics, .pattern, reading: 0..<1)
            let receivers = try Receivers(
                subscriptions(patterns), wire, payload: patterns.payload, port: broker.port)
            let lanes = try [0..<1, 1..<patterns.topics].map { (topics) throws(BenchError) in
                Lane(
                    publisher: try Publisher(topics: topics, wire, payload: patterns.payload, port: broker.port),
                    receivers: 0..<patterns.subscribers)
            }
            let load = try Load(receivers, lanes)
            receivers.reception = .latency
            try load.probe()
            load.lanes[1].pace = .open(
                start: Clock.monotonic() + 1_000_000, interval: 1e9 / Bench.quiet / Double(patterns.topics - 1))
            try alternate(load, for: budget.warmUp)
            receivers.histogram.removeAll()
            let meter = ResourceMeter(broker)
            let before = receivers.messages
            let alone = try alternate(load, for: budget.paced)
            var (figure, cpu, seconds) = meter.figure()
            let deliveries = Double(receivers.messages - before)
            figure[.cpuPerDelivery] = cpu / deliveries
            figure[.deliveriesPerSecond] = deliveries / seconds
            figure.set(receivers.histogram)
            figure[.p99Alone] = Double(alone.value(at: 0.99))
            figure[.slowdown] = Double(receivers.histogram.value(at: 0.99)) / Double(alone.value(at: 0.99))
            figure[.dropped] = Double(receivers.dropped)
            figure[.lost] = Double(try unaccounted(load))
            return figure
        }
    }

    /// Lets the first lane be silent, then busy, and so on. Returns the latencies without it; the receivers have the
    /// others.
    @discardableResult
    private func alternate(_ load: Load, for time: UInt64) throws(BenchError) -> Histogram {
        let end = Clock.monotonic() + time
        var alone = Histogram()
        repeat {
            load.lanes[0].pace = .silent
            swap(&alone, &load.receivers.histogram)
            try spin(load, for: Bench.phase)
            swap(&alone, &load.receivers.histogram)
            let interval = 1e9 / Bench.busy
            let past = UInt64(Double(load.lanes[0].publisher.published) * interval)
            load.lanes[0].pace = .open(start: Clock.monotonic() &- past, interval: interval)
            try spin(load, for: Bench.phase)
        } while Clock.monotonic() < end
        return alone
    }

    /// Stops publishing; returns how many messages neither arrive nor are reported as dropped.
    private func unaccounted(_ load: Load) throws(BenchError) -> Int {
        for index in load.lanes.indices { load.lanes[index].pace = .silent }
        let receivers = load.receivers
        let goal = load.published * receivers.count
        _ = try load.run(for: 5_000_000_000) { receivers.messages + receivers.dropped >= goal }
        return abs(goal - receivers.messages - receivers.dropped)
    }
}

// JoinersRun: subscribers that all join a topic with a long history at once, and the latencies of another topic before
// and meanwhile. The generator reads little at a time and serves the other topic after each read, so that reading adds
// little to the latencies.

import EventLoop
import Glibc

extension Bench {
    /// The time for filling the topic, and for all joiners together.
    private static let joinersPatience: UInt64 = 1_200_000_000_000
    private static let sampleEvery: UInt64 = 50_000_000
    private static let smallRead = 64 << 10

    func run(_ joiners: Joiners, _ contender: Contender) throws(BenchError) -> Figure {
        try withBroker(contender) { (broker) throws(BenchError) in
            try fill(joiners.messages, payload: joiners.payload, contender, broker, patience: Bench.joinersPatience)
            let other = try otherTopic(joiners, broker)
            try spin(other, for: budget.warmUp)
            other.receivers.histogram.removeAll()
            try spin(other, for: budget.paced)
            let alone = Double(other.receivers.histogram.value(at: 0.99))
            other.receivers.histogram.removeAll()

            let before = ProcessStatistics.memory(of: broker.id).anonymous
            let meter = ResourceMeter(broker)
            let receivers = try Receivers(
                [Subscription](repeating: Subscription(options: "replay=all"), count: joiners.count), RSocketWire(),
                payload: joiners.payload, port: broker.port, awaiting: false, readSize: Bench.smallRead)
            receivers.reception = .order
            let load = try Load(receivers, [])
            load.urgent = other
            let peak = try replay(joiners.messages, load, broker)
            var (figure, cpu, seconds) = meter.figure()
            figure.set(other.receivers.histogram)
            let deliveries = Double(receivers.messages)
            figure[.seconds] = seconds
            figure[.cpuPerDelivery] = cpu / deliveries
            figure[.deliveriesPerSecond] = deliveries / seconds
            figure[.batch] = deliveries / Double(receivers.reads)
            figure[.anonymousGrowth] = Double(peak - before)
            figure[.p99Alone] = alone
            figure[.slowdown] = figure[.p99].map { $0 / alone }
            let lost = abs(joiners.messages * joiners.count - receivers.messages) + receivers.misplaced
            figure[.lost] = try drain(other).map { Double($0 + lost) }
            return figure
        }
    }

    /// A topic in memory with one subscriber, to which messages are sent when they are due.
    private func otherTopic(_ joiners: Joiners, _ broker: BrokerProcess) throws(BenchError) -> Load {
        let wire = RSocketWire()
        let publisher = try Publisher(topic: 1, wire, payload: joiners.payload, port: broker.port)
        let receivers = try Receivers(
            [Subscription(topic: 1)], wire, payload: joiners.payload, port: broker.port)
        let load = try Load(receivers, [Lane(publisher: publisher, receivers: 0..<1)])
        receivers.reception = .latency
        try load.probe()
        load.pace = .open(start: Clock.monotonic() + 1_000_000, interval: 1e9 / joiners.rate)
        return load
    }

    /// Runs until every joiner has all messages; returns the most anonymous memory that the broker had meanwhile.
    private func replay(_ messages: Int, _ load: Load, _ broker: BrokerProcess) throws(BenchError) -> Int {
        let receivers = load.receivers
        let goal = messages * receivers.count * receivers.frame.size
        let deadline = Clock.monotonic() + Bench.joinersPatience
        var peak = 0
        var sample: UInt64 = 0
        while receivers.bytes < goal || receivers.slowest(in: 0..<receivers.count) < messages {
            try load.turn(timeout: 0)
            let now = Clock.monotonic()
            if now < sample { continue }
            sample = now + Bench.sampleEvery
            peak = max(peak, ProcessStatistics.memory(of: broker.id).anonymous)
            if now > deadline {
                throw BenchError(
                    "only \(receivers.messages) of \(messages * receivers.count) messages arrived; the slowest joiner "
                        + "has \(receivers.slowest(in: 0..<receivers.count))")
            }
        }
        return peak
    }
}

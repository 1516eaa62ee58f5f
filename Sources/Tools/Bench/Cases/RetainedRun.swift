// RetainedRun: a topic full of retained messages, and subscribers that all join at once and request all of them.

import EventLoop

extension Bench {
    static let patience: UInt64 = 120_000_000_000

    func retained(
        _ messages: Int, _ subscribers: Int, window: Int, payload: Int, _ contender: Contender
    ) throws(BenchError) -> Figure {
        try withBroker(contender) { (broker) throws(BenchError) in
            try fill(messages, payload: payload, contender, broker)
            let filled = ProcessStatistics.memory(of: broker.id).resident
            let meter = ResourceMeter(broker)
            let subscription = Subscription(window: window, options: "replay=all")
            let receivers = try Receivers(
                [Subscription](repeating: subscription, count: subscribers), RSocketWire(), payload: payload,
                port: broker.port, awaiting: false)
            receivers.reception = .order
            let load = try Load(receivers, [])
            let goal = messages * receivers.frame.size * subscribers
            _ = try load.run(for: Bench.patience) { receivers.bytes >= goal }
            var (figure, cpu, seconds) = meter.figure()
            let deliveries = Double(receivers.messages)
            figure[.seconds] = seconds
            figure[.cpuPerDelivery] = cpu / deliveries
            figure[.deliveriesPerSecond] = deliveries / seconds
            figure[.batch] = deliveries / Double(receivers.reads)
            figure[.growth] = (figure[.peak] ?? 0) - Double(filled)
            figure[.lost] = Double(messages * subscribers - receivers.messages + receivers.misplaced)
            figure[.disconnected] = Double(receivers.ended)
            return figure
        }
    }

    /// Publishes numbered messages; the first, which opens the channel, is number 0 because it contains zeros.
    func fill(
        _ messages: Int, payload: Int, _ contender: Contender, _ broker: BrokerProcess,
        patience: UInt64 = Bench.patience
    ) throws(BenchError) {
        let publisher = try Publisher(topic: 0, RSocketWire(), payload: payload, port: broker.port)
        let receivers = try Receivers([], RSocketWire(), payload: payload, port: broker.port)
        let load = try Load(receivers, [Lane(publisher: publisher, receivers: 0..<0)])
        load.pace = .numbered(first: 1, count: messages - 1)
        guard try load.run(for: patience, until: { publisher.isIdle(after: messages - 1) }) else {
            throw BenchError("only \(publisher.published) messages could be published")
        }
        load.pace = .silent
        try Connector.send(RSocketWire.complete(), on: publisher.fd)
        guard try load.run(for: patience, until: { publisher.isComplete }) else {
            throw BenchError("the broker did not acknowledge the published messages")
        }
    }
}

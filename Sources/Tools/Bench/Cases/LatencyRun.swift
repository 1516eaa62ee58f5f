// LatencyRun: messages that carry the time at which they were due. The generator does not sleep, so that its own timers
// do not affect the measurement.

import EventLoop

extension Bench {
    func run(_ latency: Latency, _ contender: Contender) throws(BenchError) -> Figure {
        let interval = try interval(latency)
        return try withBroker(contender) { (broker) throws(BenchError) in
            let throughput = Throughput(subscribers: latency.subscribers, payload: latency.payload)
            let load = try makeLoad(throughput, contender, broker)
            return try measure(load, interval, broker)
        }
    }

    /// - Parameter interval: nanoseconds between messages; nil if each message waits for the previous one.
    func measure(_ load: Load, _ interval: Double?, _ broker: BrokerProcess) throws(BenchError) -> Figure {
        let receivers = load.receivers
        receivers.reception = .latency
        try load.probe()
        if let interval {
            load.pace = .open(start: Clock.monotonic() + 1_000_000, interval: interval)
        } else {
            load.pace = .stamped(lag: 1)
        }
        try spin(load, for: budget.warmUp)
        receivers.histogram.removeAll()
        let before = (bytes: receivers.bytes, reads: receivers.reads)
        let meter = ResourceMeter(broker)
        try spin(load, for: budget.paced)
        var (figure, cpu, seconds) = meter.figure()
        let deliveries = Double(receivers.bytes - before.bytes) / Double(receivers.frame.size)
        figure[.cpuPerDelivery] = cpu / deliveries
        figure[.deliveriesPerSecond] = deliveries / seconds
        figure[.batch] = deliveries / Double(receivers.reads - before.reads)
        figure[.rate] = deliveries / seconds / Double(receivers.count)
        figure[.lost] = try drain(load).map(Double.init)
        // Messages still in flight at the end count too, because they are the late ones.
        figure.set(receivers.histogram)
        return figure
    }

    func spin(_ load: Load, for time: UInt64) throws(BenchError) {
        let end = Clock.monotonic() + time
        while Clock.monotonic() < end { try load.turn(timeout: 0) }
    }

    /// Nanoseconds between messages; nil if each message waits for the previous one.
    func interval(_ latency: Latency) throws(BenchError) -> Double? {
        switch latency.schedule {
        case .oneInFlight: return nil
        case .rate(let rate): return 1e9 / rate
        case .halfOfNATS:
            if halfOfNATS == nil {
                let figure = try run(
                    Throughput(subscribers: latency.subscribers, payload: latency.payload), Contender(system: .nats))
                halfOfNATS = figure[.rate].map { $0 / 2 }
            }
            guard let halfOfNATS else { throw BenchError("the rate of NATS at full speed is not known") }
            return 1e9 / halfOfNATS
        }
    }
}

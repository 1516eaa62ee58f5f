// IdleRun: what connections cost on which nothing happens.

import Glibc

extension Bench {
    func idle(_ connections: Int, _ contender: Contender) throws(BenchError) -> Figure {
        try withBroker(contender) { (broker) throws(BenchError) in
            let before = settledMemory(of: broker)
            let meter = Meter(broker)
            let subscriptions = [Subscription](repeating: Subscription(options: ""), count: connections)
            let receivers = try Receivers(subscriptions, contender.system.wire, payload: 128, port: broker.port)
            let after = settledMemory(of: broker)
            var (figure, _, _) = meter.figure()
            figure[.perSubscriber] = Double(after - before) / Double(receivers.count)
            return figure
        }
    }

    /// Resident bytes once they stay the same for a fifth of a second, or after three.
    private func settledMemory(of broker: BrokerProcess) -> Int {
        var last = ProcessFigures.memory(of: broker.id).resident
        for _ in 0..<15 {
            poll(nil, 0, 200)
            let now = ProcessFigures.memory(of: broker.id).resident
            if now == last { break }
            last = now
        }
        return last
    }
}

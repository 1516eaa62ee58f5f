// IdleRun: the cost of idle connections.

import Glibc

extension Bench {
    /// Uses as many connections as requested, or as the limit on open files allows.
    func idle(_ wanted: Int, _ contender: Contender) throws(BenchError) -> Figure {
        let connections = min(wanted, Int(openFiles) - Bench.reservedFiles)
        return try withBroker(contender) { (broker) throws(BenchError) in
            let before = stableMemory(of: broker) { $0.resident }
            let meter = ResourceMeter(broker)
            let subscriptions = [Subscription](repeating: Subscription(options: ""), count: connections)
            let receivers = try Receivers(subscriptions, contender.system.wire, payload: 128, port: broker.port)
            let after = stableMemory(of: broker) { $0.resident }
            var (figure, _, _) = meter.figure()
            figure[.connections] = Double(connections)
            figure[.perSubscriber] = Double(after - before) / Double(receivers.count)
            return figure
        }
    }

    /// Bytes once they have been constant for two seconds, or after ten: some brokers release what they needed to
    /// start, or to accept the connections.
    func stableMemory(of broker: BrokerProcess, _ bytes: (ProcessMemory) -> Int) -> Int {
        var last = bytes(ProcessStatistics.memory(of: broker.id))
        var same = 0
        for _ in 0..<50 where same < 10 {
            poll(nil, 0, 200)
            let now = bytes(ProcessStatistics.memory(of: broker.id))
            same = now == last ? same + 1 : 0
            last = now
        }
        return last
    }
}

// TopicsRun: one topic published to at full speed, next to many idle topics with a subscription each; and the cost of
// the idle topics while nothing is published at all.

import EventLoop
import Glibc

extension Bench {
    /// How long a broker is left alone before its idle cost is measured, in nanoseconds.
    private static let quieting: UInt64 = 2_000_000_000
    /// Below the broker's limit on streams.
    private static let streamsPerConnection = 9_900

    func topics(payload: Int, _ contender: Contender) throws(BenchError) -> Figure {
        try withBroker(contender) { (broker) throws(BenchError) in
            let others = try subscribe(to: contender.otherTopics / budget.divisor, port: broker.port) { "idle\($0)" }
            defer { for fd in others { close(fd) } }
            let load = try makeLoad(Throughput(subscribers: 1, payload: payload), contender, broker)
            let rest = atRest(broker)
            try load.probe()
            var figure = try run(load, broker, lag: Throughput(subscribers: 1, payload: payload).lag)
            figure[.rest] = rest
            return figure
        }
    }

    /// CPU time divided by wall time.
    private func atRest(_ broker: BrokerProcess) -> Double {
        rest(for: Bench.quieting)
        let meter = ResourceMeter(broker)
        rest(for: budget.paced)
        return Double(meter.brokerCPU) / Double(meter.elapsed)
    }

    private func rest(for time: UInt64) {
        let end = Clock.monotonic() + time
        while Clock.monotonic() < end { poll(nil, 0, 100) }
    }

    /// Subscribes to topics or patterns, on as few connections as possible, and returns the sockets.
    func subscribe(to count: Int, port: UInt16, name: (Int) -> String) throws(BenchError) -> [Int32] {
        var sockets: [Int32] = []
        do throws(BenchError) {
            for first in stride(from: 0, to: count, by: Bench.streamsPerConnection) {
                let topics = first..<min(count, first + Bench.streamsPerConnection)
                sockets.append(try Connector.open(port: port, RSocketWire().streams(topics.map(name))))
            }
        } catch {
            for fd in sockets { close(fd) }
            throw error
        }
        return sockets
    }
}

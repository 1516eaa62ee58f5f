// Probe: before measuring, single messages are published until every subscriber has received one and nothing is in
// flight. Whether or not a protocol confirms subscriptions, all of them are then in effect on every thread of the
// broker, and what arrived is what the generator expects of a message.

import EventLoop

extension Load {
    private static let probeEvery: UInt64 = 50_000_000
    private static let quiet: UInt64 = 20_000_000
    private static let probes = 100

    /// Probes each lane, then resets the counters.
    func probe() throws(BenchError) {
        let wanted = receivers.reception
        receivers.reception = .compare
        for count in 1...Load.probes {
            pace = .probe(count: count)
            let all = 0..<receivers.count
            if try run(for: Load.probeEvery, until: { receivers.slowest(in: all) > 0 }) {
                try waitUntilIdle()
                pace = .silent
                receivers.reception = wanted
                return reset()
            }
        }
        throw BenchError("not every subscriber receives the published messages")
    }

    /// Runs the loop until nothing has arrived for a while.
    private func waitUntilIdle() throws(BenchError) {
        var bytes = -1
        while receivers.bytes != bytes {
            bytes = receivers.bytes
            _ = try run(for: Load.quiet) { receivers.bytes != bytes }
        }
    }
}

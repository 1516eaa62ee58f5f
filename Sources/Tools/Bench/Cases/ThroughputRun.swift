// ThroughputRun: publishers at full speed; measures the broker's CPU time per delivery.

import EventLoop
import Glibc

extension Bench {
    private static let checkEvery: UInt64 = 50_000_000
    /// The run ends if nothing arrives for this long.
    private static let standstill: UInt64 = 5_000_000_000

    func run(_ throughput: Throughput, _ contender: Contender) throws(BenchError) -> Figure {
        try withBroker(contender) { (broker) throws(BenchError) in
            let load = try makeLoad(throughput, contender, broker)
            let stalled = try (0..<contender.stalled).map { (_) throws(BenchError) in
                try Connector.open(
                    port: broker.subscriberPort, try contender.system.wire.subscriber(Subscription(options: "")))
            }
            defer { for fd in stalled { close(fd) } }
            try load.probe()
            var figure = try run(load, broker, lag: throughput.lag)
            figure[.rate] = figure[.deliveriesPerSecond].map { $0 / Double(throughput.subscribers) }
            if contender.stalled > 0 {
                figure[.disconnected] = Double(stalled.reduce(0) { $0 + (hasEnded($1) ? 1 : 0) })
            }
            return figure
        }
    }

    /// Measures the cost of publishing at full speed, and checks whether everything arrives.
    func run(_ load: Load, _ broker: BrokerProcess, lag: Int) throws(BenchError) -> Figure {
        load.pace = .full(lag: self.lag ?? lag)
        try keepGoing(load, for: budget.warmUp)
        var figure = try measure(load, broker)
        figure[.lost] = try drain(load).map(Double.init)
        return figure
    }

    /// Connects publishers first, so that no subscriber receives the first message of a channel. That of a stored topic
    /// is delivered once it has been acknowledged.
    func makeLoad(
        _ throughput: Throughput, _ contender: Contender, _ broker: BrokerProcess
    ) throws(BenchError) -> Load {
        try makeLoad(
            throughput, contender.wire, ports: (broker.port, broker.subscriberPort),
            isStored: contender.storage != nil)
    }

    /// - Parameter ports: for publishers and for subscribers.
    func makeLoad(
        _ throughput: Throughput, _ wire: any Wire, ports: (UInt16, UInt16), isStored: Bool = false
    ) throws(BenchError) -> Load {
        var lanes: [Lane] = []
        for topic in 0..<throughput.topics {
            let publisher = try Publisher(topic: topic, wire, payload: throughput.payload, port: ports.0)
            if isStored { try publisher.waitForAcknowledgement() }
            let first = topic * throughput.subscribers
            lanes.append(Lane(publisher: publisher, receivers: first..<(first + throughput.subscribers)))
        }
        let receivers = try Receivers(
            throughput.subscriptions, wire, payload: throughput.payload, port: ports.1)
        return try Load(receivers, lanes)
    }

    /// Runs the loop for `time`; throws if nothing more arrives.
    private func keepGoing(_ load: Load, for time: UInt64) throws(BenchError) {
        let end = Clock.monotonic() + time
        var bytes = load.receivers.bytes
        var moved = Clock.monotonic()
        while true {
            let now = Clock.monotonic()
            if load.receivers.bytes != bytes {
                bytes = load.receivers.bytes
                moved = now
            } else if now - moved > Bench.standstill {
                throw BenchError("deliveries have stopped, and \(load.missing) are missing")
            }
            if now >= end { return }
            try load.turn(timeout: 10_000_000)
        }
    }

    private func measure(_ load: Load, _ broker: BrokerProcess) throws(BenchError) -> Figure {
        let meter = ResourceMeter(broker)
        let receivers = load.receivers
        let before = (bytes: receivers.bytes, reads: receivers.reads)
        repeat {
            try keepGoing(load, for: Bench.checkEvery)
        } while meter.brokerCPU < budget.cpu && meter.elapsed < budget.wall
        var (figure, cpu, seconds) = meter.figure()
        let deliveries = Double(receivers.bytes - before.bytes) / Double(receivers.frame.size)
        figure[.cpuPerDelivery] = cpu / deliveries
        figure[.deliveriesPerSecond] = deliveries / seconds
        figure[.batch] = deliveries / Double(receivers.reads - before.reads)
        return figure
    }

    /// Stops publishing and waits for messages in flight; returns how many deliveries are missing once nothing more
    /// arrives, or nil if the broker is still busy after some seconds.
    func drain(_ load: Load) throws(BenchError) -> Int? {
        load.pace = .silent
        let deadline = Clock.monotonic() + Bench.standstill
        var bytes = -1
        while load.missing > 0, load.receivers.bytes != bytes {
            if Clock.monotonic() > deadline { return nil }
            bytes = load.receivers.bytes
            _ = try load.run(for: 1_000_000_000) { load.missing <= 0 }
        }
        return max(0, load.missing)
    }

    /// Drains a socket that was never read, to see whether the broker has closed it.
    private func hasEnded(_ fd: Int32) -> Bool {
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        let deadline = Clock.monotonic() + Bench.standstill
        while Clock.monotonic() < deadline {
            switch buffer.withUnsafeMutableBytes({ Socket.read(fd, into: $0) }) {
            case .bytes: break
            case .end, .failed: return true
            case .blocked:
                var request = pollfd(fd: fd, events: Int16(POLLIN), revents: 0)
                if poll(&request, 1, 200) == 0 { return false }
            }
        }
        return false
    }
}

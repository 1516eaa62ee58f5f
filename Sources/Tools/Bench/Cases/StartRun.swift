// StartRun: how long a broker with many stored topics takes to start, and how much memory they take before their first
// use.

import EventLoop
import Glibc

extension Bench {
    private static let payloadAtStart = 16
    private static let storingPatience: UInt64 = 300_000_000_000
    /// The number of topics whose message is read at the end.
    private static let checked = 100

    func start(topics: Int, _ contender: Contender) throws(BenchError) -> Figure {
        let directory = try newDirectory(for: contender)
        defer { Files.remove(directory) }
        let empty = try withStarted(contender, directory) { (broker, _) throws(BenchError) in
            let memory = stableMemory(of: broker) { $0.anonymous }
            try store(topics, contender, broker)
            return memory
        }
        return try withStarted(contender, directory) { (broker, seconds) throws(BenchError) in
            var figure = Figure()
            figure[.seconds] = seconds
            figure[.perTopic] = Double(stableMemory(of: broker) { $0.anonymous } - empty) / Double(topics)
            figure[.resident] = Double(ProcessStatistics.memory(of: broker.id).resident)
            figure[.lost] = Double(try missing(topics, broker))
            return figure
        }
    }

    /// Runs `body` with a broker that uses the store in `directory`, and the seconds from its execution to its first
    /// answer. The broker is killed afterwards.
    private func withStarted<Result>(
        _ contender: Contender, _ directory: String, _ body: (BrokerProcess, Double) throws(BenchError) -> Result
    ) throws(BenchError) -> Result {
        let began = Clock.monotonic()
        let broker = try BrokerProcess(contender, programs, cpus: cpus(contender), directory: directory)
        defer { broker.stop() }
        close(try Connector.open(port: broker.port, RSocketWire().connection()))
        return try body(broker, Double(Clock.monotonic() - began) / 1e9)
    }

    /// Publishes a message to each topic.
    private func store(_ topics: Int, _ contender: Contender, _ broker: BrokerProcess) throws(BenchError) {
        let acknowledged = Acknowledged(inFlight: 1000, topics: topics, payload: Bench.payloadAtStart)
        let publisher = try AcknowledgedPublisher(acknowledged, contender, port: broker.port)
        publisher.most = topics
        let load = try Load(try Receivers([], RSocketWire(), payload: acknowledged.payload, port: broker.port), [])
        try publisher.run(load, inFlight: acknowledged.inFlight, for: Bench.storingPatience) {
            publisher.acknowledged == topics
        }
        guard publisher.acknowledged == topics else {
            throw BenchError("only \(publisher.acknowledged) of \(topics) publishes were acknowledged")
        }
    }

    /// Reads the message of some topics; returns how many have none.
    private func missing(_ topics: Int, _ broker: BrokerProcess) throws(BenchError) -> Int {
        let subscriptions = stride(from: 0, to: topics, by: max(1, topics / Bench.checked)).map {
            Subscription(topic: $0, options: "replay=all")
        }
        let receivers = try Receivers(
            subscriptions, RSocketWire(), payload: Bench.payloadAtStart, port: broker.port, awaiting: false)
        let load = try Load(receivers, [])
        _ = try load.run(for: Bench.patience) { receivers.messages >= subscriptions.count }
        return subscriptions.count - receivers.messages
    }
}

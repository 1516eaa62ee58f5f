// SharedRun: topics that Forebay's nodes share over servers of NATS: the latency from one node to another, and a node
// that joins many topics.

import EventLoop
import Glibc

extension Bench {
    /// The servers of a cluster, and copies of each message.
    private static let replicas = 3

    /// Starts servers of NATS on CPUs other than those of a node with this many threads; if there are none, on all.
    func startUpstream(_ count: Int, besides threads: Int, _ directory: String) throws(BenchError) -> NATSServers {
        let others = Array(brokerCPUs.dropFirst(threads))
        let cpus = others.isEmpty ? brokerCPUs + [generatorCPU] : others
        return try NATSServers(count, programs.path(.nats), cpus: cpus, directory: directory)
    }

    /// Starts a node that is connected to a server. Its port for publishers is that of the server.
    func startNode(
        _ contender: Contender, _ upstream: NATSServers, server: Int, _ directory: String
    ) throws(BenchError) -> BrokerProcess {
        var contender = contender
        contender.arguments += ["--upstream", "nats://127.0.0.1:\(upstream.ports[server])", "--shared", ">"]
        let port = try BrokerProcess.freePorts(1)[0]
        return try BrokerProcess(
            Launch(contender, port: port, subscriberPort: port), programs.path(.forebay),
            ports: [upstream.ports[server], port], cpus: cpus(contender), directory: directory)
    }

    /// Publishes a message to each topic at a node, which creates their streams.
    func publishOnce(topics: Int, _ contender: Contender, _ node: BrokerProcess) throws(BenchError) {
        let acknowledged = Acknowledged(inFlight: 100, topics: topics)
        let publisher = try AcknowledgedPublisher(acknowledged, contender, port: node.subscriberPort)
        publisher.most = topics
        let load = try Load(
            try Receivers([], RSocketWire(), payload: acknowledged.payload, port: node.subscriberPort), [])
        try publisher.run(load, inFlight: acknowledged.inFlight, for: Bench.patience) {
            publisher.acknowledged == topics
        }
        guard publisher.acknowledged == topics else {
            throw BenchError("only \(publisher.acknowledged) of \(topics) publishes to shared topics were acknowledged")
        }
    }

    // A cluster

    /// Publishes at the first node, or server, and receives at the second. The stream's leader is the first server.
    func cluster(_ latency: Latency, _ contender: Contender) throws(BenchError) -> Figure {
        let directory = try newDirectory(for: contender)
        defer { Files.remove(directory) }
        // All processes share the brokers' CPUs, because the generator does not sleep.
        let upstream = try NATSServers(Bench.replicas, programs.path(.nats), cpus: brokerCPUs, directory: directory)
        defer { upstream.stop() }
        let interval = try interval(latency)
        let throughput = Throughput(subscribers: latency.subscribers, payload: latency.payload)
        guard contender.isShared else {
            let stream = RSocketWire().name(0)
            let answer = try upstream.ask(
                "STREAM.CREATE.\(stream)", RepublishedWire.stream(of: stream, replicas: Bench.replicas))
            guard answer?.contains("\"did_create\":true") == true else {
                throw BenchError("the stream cannot be created: \(answer ?? "no answer")")
            }
            try upstream.lead(stream)
            let load = try makeLoad(throughput, RepublishedWire(), ports: (upstream.ports[0], upstream.ports[1]))
            return try measure(load, interval, upstream.servers[1])
        }
        var contender = contender
        contender.arguments += ["--shared-replicas", String(Bench.replicas)]
        let first = try startNode(contender, upstream, server: 0, directory)
        defer { first.stop() }
        let second = try startNode(contender, upstream, server: 1, directory)
        defer { second.stop() }
        try publishOnce(topics: 1, contender, first)
        let answer = try upstream.ask("STREAM.NAMES", "{\"subject\":\"fb.p.-.\(RSocketWire().name(0))\"}")
        guard let stream = answer?.split(separator: "\"").first(where: { $0.hasPrefix("FB_") }) else {
            throw BenchError("the topic's stream was not found: \(answer ?? "no answer")")
        }
        try upstream.lead(String(stream))
        let load = try makeLoad(
            throughput, SharedWire(publishing: .node), ports: (first.subscriberPort, second.subscriberPort))
        return try measure(load, interval, second)
    }

    // Many topics

    private func createTopics(
        _ count: Int, _ contender: Contender, _ upstream: NATSServers, _ directory: String
    ) throws(BenchError) {
        let node = try startNode(contender, upstream, server: 0, directory)
        defer { node.stop() }
        try publishOnce(topics: count, contender, node)
    }

    /// How long a node takes to join all topics, each of which has a message, and how much memory it needs for them.
    func sharedTopics(_ count: Int, _ contender: Contender) throws(BenchError) -> Figure {
        let directory = try newDirectory(for: contender)
        defer { Files.remove(directory) }
        let upstream = try startUpstream(1, besides: contender.threads, directory)
        defer { upstream.stop() }
        try createTopics(count, contender, upstream, directory)
        let node = try startNode(contender, upstream, server: 0, directory)
        defer { node.stop() }
        let port = node.subscriberPort
        close(try Connector.open(port: port, RSocketWire().connection()))
        let before = stableMemory(of: node) { $0.anonymous }
        let meter = ResourceMeter(node)
        let wire = RSocketWire()
        let fd = try Connector.open(
            port: port, wire.streams((0..<count).map { wire.name($0) + "?replay=all" }).unanswered)
        defer { close(fd) }
        let size = wire.delivered(to: Subscription(), payload: Acknowledged(inFlight: 1).payload).size
        let received = try Connector.receive(count * size, on: fd, for: Bench.patience) / size
        var (figure, _, seconds) = meter.figure()
        figure[.seconds] = seconds
        figure[.lost] = Double(count - received)
        let growth = Double(stableMemory(of: node) { $0.anonymous } - before)
        figure[.anonymousGrowth] = growth
        figure[.perTopic] = growth / Double(count)
        figure[.connections] = Double(try upstream.clients(of: 0))
        return figure
    }
}

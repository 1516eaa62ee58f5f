// SharedRun: servers of NATS and Forebay's nodes for shared topics.

import EventLoop
import Glibc

extension Bench {
    /// Starts servers of NATS on CPUs that the first node does not use, or else on the generator's.
    func startUpstream(_ count: Int, _ contender: Contender, _ directory: String) throws(BenchError) -> NATSServers {
        let others = Array(brokerCPUs.dropFirst(contender.threads))
        return try NATSServers(
            count, programs.path(.nats), cpus: others.isEmpty ? [generatorCPU] : others, directory: directory)
    }

    /// Starts a node that is connected to a server, and creates the first topic with a message. Publishers connect to
    /// that server.
    func startNode(
        _ contender: Contender, _ upstream: NATSServers, server: Int, _ directory: String
    ) throws(BenchError) -> BrokerProcess {
        var contender = contender
        contender.arguments += ["--upstream", "nats://127.0.0.1:\(upstream.ports[server])", "--shared", ">"]
        let port = try BrokerProcess.freePorts(1)[0]
        let node = try BrokerProcess(
            Launch(contender, port: port, subscriberPort: port), programs.path(.forebay),
            ports: [upstream.ports[server], port], cpus: cpus(contender), directory: directory)
        do throws(BenchError) {
            try createTopic(contender, port: port)
        } catch {
            node.stop()
            throw error
        }
        return node
    }

    /// The first publish creates a topic's stream.
    private func createTopic(_ contender: Contender, port: UInt16) throws(BenchError) {
        let publisher = try AcknowledgedPublisher(Acknowledged(inFlight: 1), contender, port: port)
        publisher.most = 1
        let load = try Load(try Receivers([], RSocketWire(), payload: 128, port: port), [])
        try publisher.run(load, inFlight: 1, for: Bench.patience) { publisher.acknowledged == 1 }
        guard publisher.acknowledged == 1 else { throw BenchError("a publish to a shared topic was not acknowledged") }
    }
}

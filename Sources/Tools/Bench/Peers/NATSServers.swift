// NATSServers: servers of NATS with JetStream, over which Forebay's nodes share topics: one, or a cluster.

import EventLoop
import Glibc

final class NATSServers {
    private(set) var servers: [BrokerProcess] = []
    /// Of each server, the port for clients and that of its monitor.
    let ports: [UInt16]
    let monitors: [UInt16]
    /// How long servers may take to elect a leader, in nanoseconds.
    private static let patience: UInt64 = 30_000_000_000

    /// Starts `count` servers and waits until streams with as many replicas can be created.
    ///
    /// - Parameters:
    ///   - path: the program.
    ///   - directory: the servers' directories are created in it.
    init(_ count: Int, _ path: String, cpus: [Int], directory: String) throws(BenchError) {
        let free = try BrokerProcess.freePorts(3 * count)
        ports = Array(free[..<count])
        monitors = Array(free[count..<(2 * count)])
        do throws(BenchError) {
            for index in 0..<count {
                let folder = "\(directory)/nats\(index)"
                guard mkdir(folder, 0o755) == 0 else { throw BenchError("cannot create \(folder)") }
                let launch = Launch(
                    NATSServers.name(index), port: ports[index], monitor: monitors[index],
                    cluster: count > 1 ? (own: free[2 * count + index], all: Array(free[(2 * count)...])) : nil)
                servers.append(
                    try BrokerProcess(
                        launch, path, ports: [ports[index], monitors[index]], cpus: cpus, directory: folder))
            }
            try waitUntilReady(replicas: count)
        } catch {
            stop()
            throw error
        }
    }

    deinit { stop() }

    static func name(_ index: Int) -> String { "server\(index)" }

    func stop() {
        for server in servers { server.stop() }
        servers = []
    }

    private func waitUntilReady(replicas: Int) throws(BenchError) {
        let deadline = Clock.monotonic() + NATSServers.patience
        let stream = "{\"name\":\"ready\",\"subjects\":[\"ready\"],\"num_replicas\":\(replicas)}"
        while try ask("STREAM.CREATE.ready", stream)?.contains("\"did_create\":true") != true {
            if Clock.monotonic() > deadline { throw BenchError("JetStream is not ready") }
            poll(nil, 0, 50)
        }
        _ = try ask("STREAM.DELETE.ready")
    }

    /// The answer of JetStream's API; nil if there is none in a second.
    func ask(_ request: String, _ body: String = "") throws(BenchError) -> String? {
        // The server's first line ends in a space.
        try Connector.ask(port: ports[0], NATSWire.request("$JS.API.\(request)", body)) { $0.hasSuffix("}\r\n") }
            .flatMap { $0.split(separator: "\r\n").last.map(String.init) }
    }

    /// Makes the first server the leader of a stream.
    func lead(_ stream: String) throws(BenchError) {
        let deadline = Clock.monotonic() + NATSServers.patience
        let wanted = NATSServers.name(0)
        while try ask("STREAM.INFO.\(stream)")?.contains("\"leader\":\"\(wanted)\"") != true {
            if Clock.monotonic() > deadline { throw BenchError("\(wanted) does not become the leader of \(stream)") }
            _ = try ask("STREAM.LEADER.STEPDOWN.\(stream)", "{\"placement\":{\"preferred\":\"\(wanted)\"}}")
            poll(nil, 0, 200)
        }
    }

    /// How many clients are connected to a server.
    func clients(of index: Int) throws(BenchError) -> Int {
        let request = Array("GET /varz HTTP/1.0\r\n\r\n".utf8)
        let answer = try Connector.ask(port: monitors[index], request) { $0.hasSuffix("\n}") || $0.hasSuffix("}\n") }
        let line = answer?.split(separator: "\n").first { $0.contains("\"connections\":") }
        guard let digits = line?.filter(\.isNumber), let count = Int(digits) else {
            throw BenchError("the monitor of a NATS server did not answer")
        }
        return count
    }
}

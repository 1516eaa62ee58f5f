// UpstreamSettings: the NATS servers that connect this node with others, and which topics are shared over them.

import Configuration
import Core
import EventLoop
import NATS
import Upstream

public struct UpstreamSettings: Equatable, Sendable {
    /// URLs of NATS servers; nil for none.
    public var servers: String?
    /// Copies of each new stream.
    public var replicas = 1
    /// How long JetStream may be unreachable before streams end, in nanoseconds.
    public var time: UInt64 = 30 * Setting.second
    public var maxTopics = 1_000

    static let replicasRange = 1...5

    public init() {}

    /// The upstream's options; nil if no servers are set.
    func make() -> UpstreamOptions? {
        guard let servers = servers.flatMap({ try? NATSServers(parsing: $0) }) else { return nil }
        var options = UpstreamOptions(
            servers: servers, connection: NATSOptions(name: "forebayd", version: forebayVersion))
        options.replicas = replicas
        options.time = time
        options.maxTopics = maxTopics
        return options
    }
}

extension Options {
    /// Settings of the upstream that contradict each other.
    func upstreamFaults(_ subject: (String) -> String) -> [String] {
        var faults: [String] = []
        if upstream.servers == nil, !limits.shared.isEmpty {
            faults.append("\(subject("shared")) needs NATS servers: also set upstream")
        }
        if let pattern = limits.shared.first(where: \.isOfBroker) {
            faults.append("\(subject("shared")): \(pattern) matches only the broker's own topics, which are not shared")
        }
        for (name, patterns) in [("durable", limits.durable), ("relaxed", limits.relaxed)] {
            faults += Options.overlaps(subject("shared"), limits.shared, subject(name), patterns)
        }
        return faults
    }
}

extension Setting {
    static let upstream: [Setting] = [
        value("upstream", "URL,…", \.upstream.servers, "NATS servers over which topics are shared") {
            text throws(ValueFault) in
            do throws(NATSError) {
                _ = try NATSServers(parsing: text)
            } catch {
                throw ValueFault("is not a list of NATS servers: \(error.sentence)")
            }
            return text
        } write: {
            $0 ?? ""
        }.secret,
        patterns("shared", \.limits.shared, "topics that are shared with other nodes over NATS JetStream"),
        number(
            "shared-replicas", \.upstream.replicas, in: UpstreamSettings.replicasRange,
            "copies of a new shared topic's stream in the NATS cluster"),
        number(
            "max-shared-topics", \.upstream.maxTopics, in: 1...1_000_000,
            "shared topics that this node uses at the same time"),
        time(
            "upstream-time", \.upstream.time, in: second...hour,
            "how long NATS JetStream may be unreachable before subscriptions of shared topics end"),
    ]
}

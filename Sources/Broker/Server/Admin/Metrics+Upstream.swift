// Metrics+Upstream: the metric families of the connection to NATS JetStream. Without `upstream`, they have no samples.

import Core

extension Metrics {
    static func addUpstream(_ upstream: UpstreamStatus?, now: UInt64, to out: inout Exposition) {
        func gauge(_ name: String, _ help: String, _ value: (UpstreamStatus) -> Int) {
            out.family("forebay_upstream_\(name)", .gauge, help)
            if let upstream { out.sample([:], value(upstream)) }
        }
        func seconds(_ name: String, _ help: String, _ nanoseconds: (UpstreamStatus) -> UInt64) {
            out.family("forebay_upstream_\(name)_seconds", .gauge, help)
            if let upstream { out.sample(number: Double(nanoseconds(upstream)) / 1e9) }
        }
        func counter(_ name: String, _ help: String, _ value: (UpstreamCounts) -> UInt64) {
            out.family("forebay_upstream_\(name)_total", .counter, help)
            if let upstream { out.sample([:], value(upstream.counts)) }
        }
        gauge("connected", "1 while the broker is connected to NATS, otherwise 0.") { $0.isConnected ? 1 : 0 }
        out.family(
            "forebay_upstream_info", .gauge,
            "The NATS server that the broker is connected to; absent without one, otherwise 1.")
        if let upstream, upstream.isConnected {
            out.sample(["server": upstream.server, "name": upstream.name, "version": upstream.version], 1)
        }
        seconds("disconnected", "For how long NATS has been unreachable; 0 while connected.") {
            $0.disconnected(now: now)
        }
        out.family("forebay_upstream_topics", .gauge, "Shared topics that this node follows, by state.")
        if let upstream {
            out.sample(["state": "current"], upstream.topics - upstream.joining - upstream.absent)
            out.sample(["state": "joining"], upstream.joining)
            out.sample(["state": "absent"], upstream.absent)
        }
        gauge("topics_limit", "Maximum number of shared topics that this node follows.") { $0.maxTopics }
        gauge("unread_messages", "Messages that JetStream is known to have and that this node has not read yet.") {
            $0.unread
        }
        gauge("publishes_waiting", "Publishes to shared topics that are not acknowledged yet.") { $0.publishes }
        seconds("publish_wait", "For how long the oldest publish that is not acknowledged has waited.") {
            $0.publishWait(now: now)
        }
        counter("connections", "Connections made to NATS.") { $0.connections }
        counter("read_messages", "Messages read from JetStream.") { $0.read }
        counter("lost_messages", "Messages that no JetStream server had any longer when they were to be read.") {
            $0.lost
        }
        counter("published_messages", "Messages of this node that JetStream has stored.") { $0.published }
        counter("refused_publishes", "Publishes to shared topics that NATS refused or did not acknowledge in time.") {
            $0.refused
        }
        counter("resent_publishes", "Publishes sent to NATS again because they had not been acknowledged.") {
            $0.resent
        }
    }
}

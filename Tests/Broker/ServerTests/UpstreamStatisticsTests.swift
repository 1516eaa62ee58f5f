// What the admin listener says about the connection to NATS.

import Core
import Testing

@testable import Server

struct UpstreamStatisticsTests {
    private let second: UInt64 = 1_000_000_000

    private func process(_ upstream: UpstreamStatus?, seconds: UInt64, isDraining: Bool = false) -> ProcessStatistics {
        ProcessStatistics(
            uptime: 1, isDraining: isDraining, memory: 2, memoryLimit: 3, unreadMemory: 1, connectionLimit: 4,
            refusedConnections: [], connectionsOverLimit: 6, upstream: upstream, now: seconds * second)
    }

    @Test func aBrokerIsNotReadyWithoutNATS() {
        let info = BrokerInfo(limits: Limits(), listeners: [], httpOrigin: nil)
        let broker = BrokerStatistics(shards: [ShardStatistics()])
        var upstream = UpstreamStatus(since: second, time: 30 * second, maxTopics: 10)
        upstream.cause = "It is down."
        func ready(_ upstream: UpstreamStatus?, seconds: UInt64, isDraining: Bool = false) -> (Int, String) {
            let process = process(upstream, seconds: seconds, isDraining: isDraining)
            let answer = AdminAnswer(broker, process, info, for: .ready)
            return (answer.status, String(decoding: answer.body, as: UTF8.self))
        }
        #expect(ready(nil, seconds: 1_000) == (200, "ok\n"))
        #expect(ready(upstream, seconds: 2) == (503, "NATS JetStream has not been reached yet: It is down.\n"))
        upstream.wasConnected = true
        #expect(ready(upstream, seconds: 30) == (200, "ok\n"))
        #expect(ready(upstream, seconds: 31) == (503, "NATS has been unreachable for 30 s: It is down.\n"))
        #expect(ready(upstream, seconds: 31, isDraining: true) == (503, "draining\n"))
        #expect(AdminAnswer(broker, process(upstream, seconds: 31), info, for: .alive).status == 200)
        upstream.isConnected = true
        #expect(ready(upstream, seconds: 1_000) == (200, "ok\n"))
    }

    @Test func metricsHaveTheState() {
        var upstream = UpstreamStatus(since: second, time: 30 * second, maxTopics: 10)
        (upstream.topics, upstream.joining, upstream.absent, upstream.unread) = (9, 2, 3, 11)
        (upstream.publishes, upstream.oldestPublish) = (5, 2 * second)
        upstream.counts.connections = 21
        (upstream.counts.read, upstream.counts.lost, upstream.counts.published) = (22, 23, 24)
        (upstream.counts.refused, upstream.counts.resent) = (25, 26)
        func text(_ upstream: UpstreamStatus?) -> String {
            let broker = BrokerStatistics(shards: [ShardStatistics()])
            return Metrics.text(broker, process(upstream, seconds: 4), subscriptions: false)
        }
        let found = text(upstream)
        for line in [
            "connected 0", "disconnected_seconds 3.0", "topics{state=\"current\"} 4", "topics{state=\"joining\"} 2",
            "topics{state=\"absent\"} 3", "topics_limit 10", "unread_messages 11", "publishes_waiting 5",
            "publish_wait_seconds 2.0", "connections_total 21", "read_messages_total 22", "lost_messages_total 23",
            "published_messages_total 24", "refused_publishes_total 25", "resent_publishes_total 26",
        ] {
            #expect(found.contains("\nforebay_upstream_\(line)\n"), "\(line)")
        }
        #expect(!found.contains("\nforebay_upstream_info{"))
        upstream.isConnected = true
        (upstream.server, upstream.name, upstream.version) = ("nats://a:4222", "n1", "2.11.0")
        let labels = "server=\"nats://a:4222\",name=\"n1\",version=\"2.11.0\""
        #expect(text(upstream).contains("\nforebay_upstream_info{\(labels)} 1\n"))
        #expect(text(upstream).contains("\nforebay_upstream_disconnected_seconds 0.0\n"))
        #expect(text(nil).contains("# TYPE forebay_upstream_connected gauge\n"))
        #expect(!text(nil).contains("\nforebay_upstream_"))
    }
}

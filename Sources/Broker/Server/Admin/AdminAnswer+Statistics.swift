// AdminAnswer+Statistics: the statistics of the whole broker as JSON and text.

import Core
import EventLoop
import ForebayWire
import Glibc
import Replay

extension AdminAnswer {
    init(
        _ broker: BrokerStatistics, _ process: ProcessStatistics, _ info: BrokerInfo, for call: AdminCall
    ) {
        switch call {
        case .alive: self = .health(broker)
        case .ready: self = .health(broker, obstacle: AdminAnswer.obstacle(process))
        case .metrics(_, let subscriptions):
            let text = Metrics.text(broker, process, subscriptions: subscriptions > 0)
            self = AdminAnswer(type: Exposition.mime, text: text)
        case .info: self = AdminAnswer(json: AdminAnswer.info(broker, process, info))
        case .overview: self = AdminAnswer(json: AdminAnswer.overview(broker, process))
        case .stats, .list, .control, .file: self = AdminAnswer(json: AdminAnswer.stats(broker, process))
        }
    }

    /// A page of a list.
    init(page rows: [String], next: ListCursor?) {
        var object = JSONObject()
        object.add("items", json: "[" + rows.joined(separator: ",") + "]")
        if let next { object.add("next", next.text) }
        self.init(json: object.finished())
    }

    /// Why the broker should get no new clients, if there is a reason.
    private static func obstacle(_ process: ProcessStatistics) -> String? {
        if let store = process.store, store.hasFailed {
            return "the store has failed" + (store.failure.map { ": \($0)" } ?? "")
        }
        if process.isDraining { return "draining" }
        return process.upstream?.obstacle(now: process.now)
    }

    private static func health(_ broker: BrokerStatistics, obstacle: String? = nil) -> AdminAnswer {
        let type = "text/plain; charset=utf-8"
        let missing = broker.missing.map(String.init)
        if !missing.isEmpty {
            return AdminAnswer(
                status: 503, type: type, text: "shard \(missing.joined(separator: ", ")) is not responding\n")
        }
        if let obstacle { return AdminAnswer(status: 503, type: type, text: obstacle + "\n") }
        return AdminAnswer(type: type, text: "ok\n")
    }

    private static func info(
        _ broker: BrokerStatistics, _ process: ProcessStatistics, _ info: BrokerInfo
    ) -> String {
        var object = JSONObject()
        object.add("name", "forebay")
        object.add("version", forebayVersion)
        object.add("protocol", BrokerProtocol.number)
        let features = BrokerProtocol.features(resumes: info.limits.resumeTime > 0)
        object.add("features", json: "[" + features.map { "\"\($0)\"" }.joined(separator: ",") + "]")
        object.add("shards", broker.shards.count)
        object.add("uptime_ms", process.uptime / 1_000_000)
        object.add("draining", process.isDraining)
        object.add("pid", getpid())
        object.add("memory", process.memory)
        object.add("memory_limit", process.memoryLimit)
        object.add("connections_limit", process.connectionLimit)
        object.add("retain", info.limits.retain)
        object.add("retain_bytes", info.limits.retainBytes)
        object.add("payload_limit", info.limits.payload)
        let listeners = info.listeners.map { listener in
            var object = JSONObject()
            object.add("protocol", listener.name)
            object.add("address", listener.address.description)
            object.add("tls", listener.isSecure)
            return object.finished()
        }
        if let origin = info.httpOrigin { object.add("http_origin", origin) }
        object.add("listeners", json: "[" + listeners.joined(separator: ",") + "]")
        return object.finished()
    }

    private static func overview(_ broker: BrokerStatistics, _ process: ProcessStatistics) -> String {
        var object = JSONObject()
        object.add("stats", json: stats(broker, process))
        let topics = broker.topics.map { $0.json(with: broker.byTopic[$0.name] ?? SubscriptionSums()) }
        object.add("topics", json: "[" + topics.joined(separator: ",") + "]")
        object.add("topics_found", broker.topicsFound)
        object.add("subscriptions_found", broker.subscriptionsFound)
        object.add("subscriptions", json: "[" + broker.subscriptions.map(\.json).joined(separator: ",") + "]")
        return object.finished()
    }

    private static func stats(_ broker: BrokerStatistics, _ process: ProcessStatistics) -> String {
        let counters = broker.counters
        var object = JSONObject()
        object.add("time_ns", Clock.wall())
        object.add("uptime_ms", process.uptime / 1_000_000)
        object.add("draining", process.isDraining)
        object.add("shards_missing", json: "[" + broker.missing.map(String.init).joined(separator: ",") + "]")
        object.add("connections", broker.connections.count)
        object.add("subscriptions", broker.subscriptionSums.count)
        object.add("pattern_subscriptions", counters.patternSubscriptions)
        object.add("patterns", counters.patterns)
        object.add("patterns_limit", process.patternLimit)
        object.add("cursors", counters.cursors)
        object.add("topics", broker.topicSums.count)
        object.add("publishers", broker.topicSums.publishers)
        object.add("publishers_blocked", broker.topicSums.blockedPublishers)
        object.add("publishers_blocked_by_store", broker.topicSums.waitingForStore)
        object.add("parked", broker.topicSums.parked)
        object.add("retained", broker.topicSums.retained)
        broker.subscriptionSums.add(to: &object)
        object.add("memory", process.memory)
        object.add("memory_limit", process.memoryLimit)
        object.add("published", counters.published)
        object.add("delivered", counters.delivered)
        object.add("dropped", counters.dropped.total)
        var dropped = JSONObject()
        for policy in Overflow.allCases { dropped.add(policy.name, counters.dropped[policy]) }
        object.add("dropped_by_policy", json: dropped.finished())
        let now = Clock.monotonic()
        func ago(_ then: UInt64) -> UInt64 { (now - min(then, now)) / 1_000_000 }
        if counters.lastDrop > 0 { object.add("last_drop_ms", ago(counters.lastDrop)) }
        object.add("fire_and_forget_dropped", counters.fireAndForgetDropped)
        object.add("publishes_refused", counters.publishesRefused.total)
        var lost = JSONObject()
        for shortage in PublishLoss.shortages { lost.add(shortage.name, counters.lost(to: shortage)) }
        object.add("lost_total", counters.lost)
        object.add("lost", json: lost.finished())
        if let last = counters.lastLoss {
            object.add("last_loss_ms", ago(last.at))
            object.add("last_loss_topic", last.topic)
            object.add("last_loss_reason", last.reason.name)
        }
        var limits = JSONObject()
        for limit in LimitReached.allCases {
            let beyond = limit == .connections ? process.connectionsOverLimit : 0
            limits.add(limit.name, counters.limits[limit] &+ beyond)
        }
        object.add("limits", json: limits.finished())
        object.add("blocked_ms", counters.blocked / 1_000_000)
        object.add("bytes_in", counters.bytesIn)
        object.add("bytes_out", counters.bytesOut)
        object.add("stream_errors", counters.streamErrors)
        object.add("protocol_errors", counters.protocolErrors)
        object.add("logins_refused", counters.loginsRefused)
        object.add("logins_slowed", counters.loginsSlowed)
        object.add("denied", counters.denied)
        if let store = process.store { object.add("store", json: store.json) }
        if let upstream = process.upstream { object.add("upstream", json: upstream.json(now: process.now)) }
        object.add("reload_refused", process.isLastReloadRefused)
        object.add("log_lines_lost", process.lostLogLines)
        return object.finished()
    }
}

// Metrics: all metric families of /metrics. Names are stable once released; Protocol/admin.md lists them, and a test
// compares the two. The number of samples is bounded by the enums, the number of threads, and the request's `topics`
// and `subscriptions`.

import Core
import EventLoop
import ForebayWire
import Replay

/// Statistics of the process, besides those of the shards.
struct ProcessStatistics: Sendable {
    /// Nanoseconds since the broker's start, on the monotonic clock.
    var uptime: UInt64
    var isDraining: Bool
    var memory: Int
    var memoryLimit: Int
    /// The part of `memory` that is kept only for connections that have not read their messages.
    var unreadMemory: Int
    var connectionLimit: Int
    /// Refused connections by reason.
    var refusedConnections: [(reason: String, count: UInt64)]
    /// Number of connections that were refused before they reached a shard.
    var connectionsOverLimit: UInt64
    /// Maximum number of different patterns.
    var patternLimit = 0
    /// Handshakes of the admin listener.
    var handshakes = HandshakeCounts()
    /// Reloads of the configuration.
    var reloads: (accepted: UInt64, refused: UInt64) = (0, 0)
    var isLastReloadRefused = false
    var lostLogLines: UInt64 = 0
    /// When the TLS certificate expires, in seconds since 1970.
    var certificateEnds: Int64?
    /// Nil if there is no store.
    var store: StoreSnapshot?
    /// Nil if there is no upstream.
    var upstream: UpstreamStatus?
    /// The time of the snapshot, on the monotonic clock.
    var now: UInt64 = 0
    var resources = ProcessResources()
}

enum Metrics {
    static func text(_ broker: BrokerStatistics, _ process: ProcessStatistics, subscriptions: Bool) -> String {
        var out = Exposition()
        addBroker(broker, process, to: &out)
        addMessages(broker, to: &out)
        addSubscriptions(broker, to: &out)
        addPatterns(broker.counters, limit: process.patternLimit, to: &out)
        addPublishers(broker, to: &out)
        addConnections(broker, process, to: &out)
        addErrors(broker.counters, connectionsOverLimit: process.connectionsOverLimit, to: &out)
        addTLS(broker.counters, process, to: &out)
        addStore(broker, process.store, to: &out)
        addUpstream(process.upstream, now: process.now, to: &out)
        addLoops(broker, to: &out)
        addTopics(broker, to: &out)
        addBehind(broker.behind, to: &out)
        if subscriptions { addRows(broker.subscriptions, to: &out) }
        process.resources.add(to: &out)
        return out.text
    }

    private static func addBroker(_ broker: BrokerStatistics, _ process: ProcessStatistics, to out: inout Exposition) {
        out.family("forebay_build_info", .gauge, "Version of the broker; always 1.")
        out.sample(["version": forebayVersion], 1)
        out.single(
            "forebay_uptime_seconds", .gauge, "Time since the broker started.", nanoseconds: process.uptime)
        out.single(
            "forebay_draining", .gauge, "1 while the broker is draining, otherwise 0.", process.isDraining ? 1 : 0)
        out.family(
            "forebay_reloads_total", .counter, "Configuration reloads: accepted, or refused because of an error.")
        out.sample(["result": "accepted"], process.reloads.accepted)
        out.sample(["result": "refused"], process.reloads.refused)
        out.single(
            "forebay_log_lines_lost_total", .counter,
            "Log lines lost because the log was not read fast enough or could not be written.",
            process.lostLogLines)
        out.family("forebay_shard_responding", .gauge, "1 if the shard answered this scrape in time, otherwise 0.")
        for (index, shard) in broker.shards.enumerated() {
            out.sample(["shard": String(index)], shard.isResponding ? 1 : 0)
        }
        out.single("forebay_memory_bytes", .gauge, "Memory used by all logs and queues.", process.memory)
        out.single(
            "forebay_memory_limit_bytes", .gauge, "Limit on memory used by logs and queues.", process.memoryLimit)
        out.single(
            "forebay_memory_logs_bytes", .gauge, "Memory used by the logs of topics.", broker.topicSums.memory)
        out.single(
            "forebay_memory_unread_bytes", .gauge,
            "Memory that topics no longer need, kept for clients that do not read.", process.unreadMemory)
    }

    private static func addMessages(_ broker: BrokerStatistics, to out: inout Exposition) {
        let counters = broker.counters
        out.single(
            "forebay_messages_published_total", .counter, "Messages accepted by topics.", counters.published)
        out.single(
            "forebay_messages_delivered_total", .counter, "Messages delivered to subscriptions.", counters.delivered)
        out.family(
            "forebay_messages_dropped_total", .counter, "Messages dropped for subscriptions, by overflow policy.")
        for policy in Overflow.allCases { out.sample(["policy": policy.name], counters.dropped[policy]) }
        out.single(
            "forebay_messages_overshoot_total", .counter,
            "Messages that exceeded the buffer of a blocking subscription.", counters.overshoot)
        out.single("forebay_messages_retained", .gauge, "Messages retained for replay.", broker.topicSums.retained)
        out.single(
            "forebay_messages_waiting", .gauge, "Messages waiting for subscriptions.", broker.subscriptionSums.waiting)
    }

    private static func addSubscriptions(_ broker: BrokerStatistics, to out: inout Exposition) {
        let sums = broker.subscriptionSums
        out.single("forebay_subscriptions", .gauge, "Open subscriptions.", sums.count)
        out.single(
            "forebay_subscriptions_opened_total", .counter, "Subscriptions opened since the start.",
            broker.counters.subscriptionsOpened)
        out.family(
            "forebay_subscriptions_behind", .gauge,
            "Subscriptions with waiting messages, by what they wait for: credit or the socket.")
        out.sample(["waits_for": WaitsFor.credit.rawValue], sums.waitingForCredit)
        out.sample(["waits_for": WaitsFor.socket.rawValue], sums.waitingForSocket)
        out.single(
            "forebay_subscriptions_unbounded", .gauge, "Subscriptions with unbounded credit.", sums.unbounded)
        out.single(
            "forebay_credit_outstanding_messages", .gauge, "Outstanding credit of subscriptions with bounded credit.",
            sums.outstanding)
        out.single(
            "forebay_lag_max_messages", .gauge,
            "Largest number of messages by which a subscription is behind its topic.", sums.lag)
        out.single(
            "forebay_lag_max_seconds", .gauge, "Age of the oldest message waiting for a subscription.",
            nanoseconds: sums.age)
        out.single(
            "forebay_behind_max_seconds", .gauge,
            "Longest time that a subscription has continuously had messages waiting.",
            nanoseconds: sums.behind)
    }

    private static func addPatterns(_ counters: ShardCounters, limit: Int, to out: inout Exposition) {
        out.single(
            "forebay_pattern_subscriptions", .gauge,
            "Open subscriptions to patterns; included in forebay_subscriptions.", counters.patternSubscriptions)
        out.single(
            "forebay_patterns", .gauge,
            "Different patterns that clients are subscribed to; each counts once for every 4 tokens, rounded up.",
            counters.patterns)
        out.single("forebay_patterns_limit", .gauge, "Maximum number of different patterns.", limit)
        out.single(
            "forebay_pattern_cursors", .gauge,
            "Positions that subscriptions to patterns have in topics, most of which had a message lately.",
            counters.cursors)
    }

    private static func addPublishers(_ broker: BrokerStatistics, to out: inout Exposition) {
        let sums = broker.topicSums
        out.single("forebay_topics", .gauge, "Number of topics.", sums.count)
        out.single("forebay_publishers", .gauge, "Open publishing channels.", sums.publishers)
        out.single(
            "forebay_publishers_blocked", .gauge, "Publishers waiting for room.", sums.blockedPublishers)
        out.single(
            "forebay_publishers_blocked_seconds_total", .counter,
            "Time that publishers waited for room, summed over topics.", nanoseconds: broker.counters.blocked)
        out.single("forebay_publishes_parked", .gauge, "Publishes waiting for room.", sums.parked)
        out.single("forebay_publishes_parked_bytes", .gauge, "Bytes of publishes waiting for room.", sums.parkedBytes)
        out.family(
            "forebay_publishes_dropped_total", .counter, "Fire-and-forget publishes that were dropped, by reason.")
        for loss in PublishLoss.allCases { out.sample(["reason": loss.name], broker.counters.publishesDropped[loss]) }
        out.family(
            "forebay_publishes_refused_total", .counter,
            "Acknowledged and channel publishes that were refused, by reason.")
        for loss in PublishLoss.allCases { out.sample(["reason": loss.name], broker.counters.publishesRefused[loss]) }
    }

    private static func addConnections(
        _ broker: BrokerStatistics, _ process: ProcessStatistics, to out: inout Exposition
    ) {
        let sums = broker.connections
        out.family(
            "forebay_connections", .gauge,
            "Open connections, by protocol; http means that the HTTP version is not known yet.")
        out.sample(["protocol": "rsocket"], sums.rsocket)
        out.sample(["protocol": "http2"], sums.http2)
        out.sample(["protocol": "http1"], sums.http1)
        out.sample(["protocol": "http"], sums.undecided)
        out.single(
            "forebay_sessions_detached", .gauge,
            "Resumable connections without a socket; included in forebay_connections.", broker.counters.detached)
        out.family("forebay_resumptions_total", .counter, "Attempts to resume a connection, by result.")
        out.sample(["result": "accepted"], broker.counters.resumptionsAccepted)
        out.sample(["result": "refused"], broker.counters.resumptionsRefused)
        out.single("forebay_connections_limit", .gauge, "Maximum number of connections.", process.connectionLimit)
        out.single(
            "forebay_connections_opened_total", .counter, "Connections accepted since the start.",
            broker.counters.connectionsOpened)
        out.family(
            "forebay_connections_refused_total", .counter,
            "Connections refused, by reason: a limit (files is the limit on open files), or draining.")
        for (reason, count) in process.refusedConnections { out.sample(["reason": reason], count) }
        out.single(
            "forebay_connections_paused", .gauge, "Connections that the broker does not read until their clients read.",
            sums.paused)
        out.single(
            "forebay_received_bytes_total", .counter, "Bytes received from clients.", broker.counters.bytesIn)
        out.single("forebay_sent_bytes_total", .counter, "Bytes sent to clients.", broker.counters.bytesOut)
        out.single("forebay_output_bytes", .gauge, "Bytes of output waiting for sockets.", sums.output)
        out.single(
            "forebay_output_control_bytes", .gauge,
            "Bytes of responses and other control output waiting for sockets.", sums.control)
    }

    private static func addErrors(
        _ counters: ShardCounters, connectionsOverLimit: UInt64, to out: inout Exposition
    ) {
        var limits = counters.limits
        // Most refused connections never reach a shard, so they are added here.
        limits[.connections] &+= connectionsOverLimit
        out.family("forebay_requests_refused_total", .counter, "Refused requests and failed streams, by reason.")
        for reason in ErrorWord.allCases { out.sample(["reason": reason.name], counters.refusals[reason]) }
        out.single(
            "forebay_stream_errors_total", .counter,
            "Refused requests and failed streams, including those ended by the protocol layer.",
            counters.streamErrors)
        out.single(
            "forebay_protocol_errors_total", .counter, "Connections closed because the client violated the protocol.",
            counters.protocolErrors)
        out.family(
            "forebay_logins_total", .counter,
            "Logins, by result: accepted, refused, slowed (not checked), or missing (no credentials).")
        out.sample(["result": "accepted"], counters.loginsAccepted)
        out.sample(["result": "refused"], counters.loginsRefused)
        out.sample(["result": "slowed"], counters.loginsSlowed)
        out.sample(["result": "missing"], counters.loginsMissing)
        out.single(
            "forebay_requests_denied_total", .counter, "Requests denied for lack of permission.",
            counters.denied)
        out.family("forebay_limit_reached_total", .counter, "Number of times that a limit was reached, by name.")
        for limit in LimitReached.allCases { out.sample(["limit": limit.name], limits[limit]) }
    }

    private static func addTLS(_ counters: ShardCounters, _ process: ProcessStatistics, to out: inout Exposition) {
        out.family("forebay_tls_handshakes_total", .counter, "TLS handshakes, by result.")
        out.sample(["result": "done"], counters.handshakes &+ process.handshakes.done)
        out.sample(["result": "failed"], counters.handshakeFailures &+ process.handshakes.failed)
        out.family(
            "forebay_tls_certificate_expiry_timestamp_seconds", .gauge,
            "When the TLS certificate expires, in seconds since 1970; absent without TLS.")
        if let ends = process.certificateEnds { out.sample([:], ends) }
    }

    private static func addLoops(_ broker: BrokerStatistics, to out: inout Exposition) {
        out.family(
            "forebay_loop_turn_seconds", .histogram,
            "Duration of event-loop turns; during a turn, no other client of the shard is served.")
        let loop = broker.loop
        var count: UInt64 = 0
        for (index, bound) in LoopStatistics.bounds.enumerated() {
            count &+= loop.turns[index]
            out.sample(["le": "\(Double(bound) / 1e9)"], suffix: "_bucket", count)
        }
        count &+= loop.turns[LoopStatistics.bounds.count]
        out.sample(["le": "+Inf"], suffix: "_bucket", count)
        out.sample(suffix: "_sum", nanoseconds: loop.busy)
        out.sample(suffix: "_count", count)
        out.family(
            "forebay_loop_turn_cpu_seconds_max", .gauge,
            "Maximum CPU time of an event-loop turn since the start, accurate to 1 ms.")
        for (index, shard) in broker.shards.enumerated() {
            out.sample(["shard": String(index)], nanoseconds: shard.loop.mostWork)
        }
        out.family("forebay_loop_busy_seconds_total", .counter, "Time that the shard's event loop was busy.")
        for (index, shard) in broker.shards.enumerated() {
            out.sample(["shard": String(index)], nanoseconds: shard.loop.busy)
        }
    }

    // Families with one sample per topic or subscription

    private static func addTopics(_ broker: BrokerStatistics, to out: inout Exposition) {
        out.single(
            "forebay_topics_omitted", .gauge, "Topics without their own metrics; use ?topics=N to include more.",
            max(0, broker.topicSums.count - broker.topics.count))
        func family(
            _ name: String, _ kind: Exposition.Kind, _ help: String, _ value: (TopicStatistics) -> some BinaryInteger
        ) {
            out.family("forebay_topic_\(name)", kind, help)
            for topic in broker.topics { out.sample(["topic": topic.name], value(topic)) }
        }
        func seconds(
            _ name: String, _ kind: Exposition.Kind, _ help: String, _ value: (TopicStatistics) -> UInt64
        ) {
            out.family("forebay_topic_\(name)", kind, help)
            for topic in broker.topics { out.sample(["topic": topic.name], nanoseconds: value(topic)) }
        }
        func sums(_ topic: TopicStatistics) -> SubscriptionSums { broker.byTopic[topic.name] ?? SubscriptionSums() }
        family("published_total", .counter, "Messages accepted by the topic.") { $0.published }
        family("delivered_total", .counter, "Messages delivered to subscriptions.") { $0.delivered }
        out.family(
            "forebay_topic_dropped_total", .counter,
            "Messages dropped for subscriptions, by overflow policy; absent if none.")
        for topic in broker.topics {
            for policy in Overflow.allCases where topic.dropped[policy] > 0 {
                out.sample(["topic": topic.name, "policy": policy.name], topic.dropped[policy])
            }
        }
        family("publishes_dropped_total", .counter, "Fire-and-forget publishes that were dropped.") {
            $0.fireAndForgetDropped
        }
        family("publishes_refused_total", .counter, "Acknowledged and channel publishes that were refused.") {
            $0.refused
        }
        out.family(
            "forebay_topic_publishes_lost_total", .counter,
            "Publishes dropped or refused because of a shortage in the broker, by shortage; absent if none.")
        for topic in broker.topics {
            for shortage in PublishLoss.shortages where topic.lost(to: shortage) > 0 {
                out.sample(["topic": topic.name, "reason": shortage.name], topic.lost(to: shortage))
            }
        }
        family("subscriptions", .gauge, "Open subscriptions.") { $0.subscriptions }
        family("publishers", .gauge, "Open publishing channels.") { $0.publishers }
        family("publishers_blocked", .gauge, "Publishers waiting for room.") { $0.blockedPublishers }
        seconds("blocked_seconds_total", .counter, "Time that publishers waited for room.") { $0.blocked }
        family("retained_messages", .gauge, "Messages retained for replay.") { $0.retained }
        family("log_bytes", .gauge, "Memory charged for the messages in the log.") { $0.storage.resident }
        addStored(broker.topics, to: &out)
        family("waiting_messages", .gauge, "Messages waiting for subscriptions.") { sums($0).waiting }
        family("behind_subscriptions", .gauge, "Subscriptions with waiting messages.") {
            sums($0).waitingForCredit + sums($0).waitingForSocket
        }
        family("credit_outstanding_messages", .gauge, "Outstanding credit of subscriptions with bounded credit.") {
            sums($0).outstanding
        }
        family("lag_messages", .gauge, "Largest number of messages by which a subscription is behind.") { sums($0).lag }
        seconds("lag_seconds", .gauge, "Age of the oldest waiting message.") { sums($0).age }
        seconds("behind_seconds", .gauge, "Longest time that a subscription has had messages waiting.") {
            sums($0).behind
        }
    }

    private static func addBehind(_ pairs: [BehindPair], to out: inout Exposition) {
        out.family(
            "forebay_behind_seconds", .gauge,
            "Longest time that a subscription with this policy has had messages waiting; only if slow.")
        for pair in pairs {
            out.sample(["topic": pair.topic, "policy": pair.policy.name], nanoseconds: pair.behind)
        }
    }

    private static func addRows(_ rows: [SubscriptionStatistics], to out: inout Exposition) {
        func labels(_ row: SubscriptionStatistics) -> KeyValuePairs<String, String> {
            ["subscription": String(row.id), "topic": row.topic, "policy": row.policy.name]
        }
        func family(
            _ name: String, _ kind: Exposition.Kind, _ help: String,
            _ value: (SubscriptionStatistics) -> some BinaryInteger
        ) {
            out.family("forebay_subscription_\(name)", kind, help)
            for row in rows { out.sample(labels(row), value(row)) }
        }
        family("delivered_total", .counter, "Messages delivered to the subscription.") { $0.delivered }
        family("dropped_total", .counter, "Messages dropped for the subscription.") { $0.dropped }
        family("waiting_messages", .gauge, "Messages waiting for the subscription.") { $0.waiting }
        family("lag_messages", .gauge, "Number of messages by which the subscription is behind its topic.") { $0.lag }
        out.family(
            "forebay_subscription_credit_outstanding_messages", .gauge, "Outstanding credit; absent if unbounded.")
        for row in rows { if let credit = row.outstanding { out.sample(labels(row), credit) } }
        out.family("forebay_subscription_lag_seconds", .gauge, "Age of the oldest waiting message.")
        for row in rows { out.sample(labels(row), nanoseconds: row.age) }
        out.family(
            "forebay_subscription_behind_seconds", .gauge, "Time that the subscription has had messages waiting.")
        for row in rows { out.sample(labels(row), nanoseconds: row.behind) }
    }
}

// Metrics: every family of /metrics. Names are stable once released; Protocol/admin.md lists them, and a test compares.
// How many samples there are is bounded: by the enums, the number of threads, and `topics` and `subscriptions` of the
// request.

import Core
import EventLoop
import ForebayWire
import Replay

/// What is known of the process, beside what the shards tell.
struct ProcessFigures: Sendable {
    /// Nanoseconds of the monotonic clock since the broker began.
    var uptime: UInt64
    var isDraining: Bool
    var memory: Int
    var memoryLimit: Int
    /// Of `memory`, what nothing needs but connections that have not read it.
    var unreadMemory: Int
    var connectionLimit: Int
    /// By reason.
    var refusedConnections: [(reason: String, count: UInt64)]
    /// Those of them that no shard has heard of.
    var connectionsOverLimit: UInt64
    /// Those of the admin listener.
    var handshakes = HandshakeCounts()
    /// Attempts to read the configuration again.
    var reloads: (accepted: UInt64, refused: UInt64) = (0, 0)
    var isLastReloadRefused = false
    var lostLogLines: UInt64 = 0
    /// When the certificate of the listeners that speak TLS ends, in seconds since 1970.
    var certificateEnds: Int64?
    var resources = ProcessResources()
}

enum Metrics {
    static func text(_ broker: BrokerFigures, _ process: ProcessFigures, subscriptions: Bool) -> String {
        var out = Exposition()
        addBroker(broker, process, to: &out)
        addMessages(broker, to: &out)
        addSubscriptions(broker, to: &out)
        addPublishers(broker, to: &out)
        addConnections(broker, process, to: &out)
        addErrors(broker.counters, connectionsOverLimit: process.connectionsOverLimit, to: &out)
        addTLS(broker.counters, process, to: &out)
        addLoops(broker, to: &out)
        addTopics(broker, to: &out)
        addBehind(broker.behind, to: &out)
        if subscriptions { addRows(broker.subscriptions, to: &out) }
        process.resources.add(to: &out)
        return out.text
    }

    private static func addBroker(_ broker: BrokerFigures, _ process: ProcessFigures, to out: inout Exposition) {
        out.family("forebay_build_info", .gauge, "The version that runs; always 1.")
        out.sample(["version": forebayVersion], 1)
        out.single(
            "forebay_uptime_seconds", .gauge, "Time since the broker began.", nanoseconds: process.uptime)
        out.single(
            "forebay_draining", .gauge, "1 while the broker shuts down gently, else 0.", process.isDraining ? 1 : 0)
        out.family(
            "forebay_reloads_total", .counter, "Reloads of the configuration: accepted, or refused for a fault in it.")
        out.sample(["result": "accepted"], process.reloads.accepted)
        out.sample(["result": "refused"], process.reloads.refused)
        out.single(
            "forebay_log_lines_lost_total", .counter,
            "Lines of the log that were lost, as it was not read fast enough or could not be written.",
            process.lostLogLines)
        out.family("forebay_shard_responding", .gauge, "1 if the shard answered this scrape in time, else 0.")
        for (index, shard) in broker.shards.enumerated() {
            out.sample(["shard": String(index)], shard.isResponding ? 1 : 0)
        }
        out.single("forebay_memory_bytes", .gauge, "Memory of all logs and queues together.", process.memory)
        out.single("forebay_memory_limit_bytes", .gauge, "The most that it may be.", process.memoryLimit)
        out.single(
            "forebay_memory_logs_bytes", .gauge, "What the logs of topics take of it.", broker.topicSums.memory)
        out.single(
            "forebay_memory_unread_bytes", .gauge,
            "What topics no longer need of it, and clients that do not read still keep.", process.unreadMemory)
    }

    private static func addMessages(_ broker: BrokerFigures, to out: inout Exposition) {
        let counters = broker.counters
        out.single(
            "forebay_messages_published_total", .counter, "Messages that topics took in.", counters.published)
        out.single(
            "forebay_messages_delivered_total", .counter, "Messages handed over to subscriptions.", counters.delivered)
        out.family(
            "forebay_messages_dropped_total", .counter, "Messages that subscriptions lost, by their overflow policy.")
        for policy in Overflow.allCases { out.sample(["policy": policy.name], counters.dropped[policy]) }
        out.single(
            "forebay_messages_overshoot_total", .counter,
            "Messages that went past the buffer of a blocking subscription.", counters.overshoot)
        out.single("forebay_messages_retained", .gauge, "Messages kept for replay.", broker.topicSums.retained)
        out.single("forebay_messages_waiting", .gauge, "Messages that wait.", broker.subscriptionSums.waiting)
    }

    private static func addSubscriptions(_ broker: BrokerFigures, to out: inout Exposition) {
        let sums = broker.subscriptionSums
        out.single("forebay_subscriptions", .gauge, "Subscriptions.", sums.count)
        out.single(
            "forebay_subscriptions_opened_total", .counter, "Subscriptions ever opened.",
            broker.counters.subscriptionsOpened)
        out.family(
            "forebay_subscriptions_behind", .gauge,
            "Subscriptions with messages waiting, by what these wait for: credit or the socket.")
        out.sample(["waits_for": WaitsFor.credit.rawValue], sums.waitingForCredit)
        out.sample(["waits_for": WaitsFor.socket.rawValue], sums.waitingForSocket)
        out.single(
            "forebay_subscriptions_unbounded", .gauge, "Subscriptions with unbounded credit.", sums.unbounded)
        out.single(
            "forebay_credit_outstanding_messages", .gauge, "Credit outstanding, where it is bounded.",
            sums.outstanding)
        out.single(
            "forebay_lag_max_messages", .gauge, "How many messages the slowest subscription is behind its topic.",
            sums.lag)
        out.single(
            "forebay_lag_max_seconds", .gauge, "Age of the oldest message that waits for a subscription.",
            nanoseconds: sums.age)
        out.single(
            "forebay_behind_max_seconds", .gauge,
            "For how long a subscription has had messages waiting without a pause; the longest.",
            nanoseconds: sums.behind)
    }

    private static func addPublishers(_ broker: BrokerFigures, to out: inout Exposition) {
        let sums = broker.topicSums
        out.single("forebay_topics", .gauge, "Topics.", sums.count)
        out.single("forebay_publishers", .gauge, "Publishing channels.", sums.publishers)
        out.single(
            "forebay_publishers_blocked", .gauge, "Publishers that wait for room.", sums.blockedPublishers)
        out.single(
            "forebay_publishers_blocked_seconds_total", .counter,
            "Time for which publishers waited for room, summed over topics.", nanoseconds: broker.counters.blocked)
        out.single("forebay_publishes_parked", .gauge, "Publishes that wait for room.", sums.parked)
        out.single("forebay_publishes_parked_bytes", .gauge, "Bytes of these.", sums.parkedBytes)
        out.family(
            "forebay_publishes_dropped_total", .counter, "Fire publishes that were not taken, by reason.")
        for loss in PublishLoss.allCases { out.sample(["reason": loss.name], broker.counters.publishesDropped[loss]) }
        out.family(
            "forebay_publishes_refused_total", .counter, "Other publishes that were not taken, by reason.")
        for loss in PublishLoss.allCases { out.sample(["reason": loss.name], broker.counters.publishesRefused[loss]) }
    }

    private static func addConnections(
        _ broker: BrokerFigures, _ process: ProcessFigures, to out: inout Exposition
    ) {
        let sums = broker.connections
        out.family(
            "forebay_connections", .gauge,
            "Open connections, by protocol; http has not shown yet whether it speaks HTTP/1.1 or HTTP/2.")
        out.sample(["protocol": "rsocket"], sums.rsocket)
        out.sample(["protocol": "http2"], sums.http2)
        out.sample(["protocol": "http1"], sums.http1)
        out.sample(["protocol": "http"], sums.undecided)
        out.single(
            "forebay_sessions_detached", .gauge, "Connections among these that have no socket and may be resumed.",
            broker.counters.detached)
        out.family("forebay_resumptions_total", .counter, "Attempts to resume a connection, by what came of them.")
        out.sample(["result": "accepted"], broker.counters.resumptionsAccepted)
        out.sample(["result": "refused"], broker.counters.resumptionsRefused)
        out.single("forebay_connections_limit", .gauge, "The most that there may be.", process.connectionLimit)
        out.single(
            "forebay_connections_opened_total", .counter, "Connections ever taken in.",
            broker.counters.connectionsOpened)
        out.family(
            "forebay_connections_refused_total", .counter,
            "Connections refused, by the limit: files is that on open files; draining is no limit.")
        for (reason, count) in process.refusedConnections { out.sample(["reason": reason], count) }
        out.single(
            "forebay_connections_paused", .gauge, "Connections that are not read until their clients read.",
            sums.paused)
        out.single(
            "forebay_received_bytes_total", .counter, "Bytes that clients sent.", broker.counters.bytesIn)
        out.single("forebay_sent_bytes_total", .counter, "Bytes that clients took.", broker.counters.bytesOut)
        out.single("forebay_output_bytes", .gauge, "Bytes that wait for their sockets.", sums.output)
        out.single(
            "forebay_output_control_bytes", .gauge, "Answers and other control output among these.", sums.control)
    }

    private static func addErrors(
        _ counters: ShardCounters, connectionsOverLimit: UInt64, to out: inout Exposition
    ) {
        var limits = counters.limits
        // Most of these are turned away before any shard hears of them.
        limits[.connections] &+= connectionsOverLimit
        out.family("forebay_requests_refused_total", .counter, "Requests refused and streams failed, by reason.")
        for reason in ErrorWord.allCases { out.sample(["reason": reason.name], counters.refusals[reason]) }
        out.single(
            "forebay_stream_errors_total", .counter,
            "Requests refused and streams failed, those that a protocol ended by itself among them.",
            counters.streamErrors)
        out.single(
            "forebay_protocol_errors_total", .counter, "Connections ended because their client broke the protocol.",
            counters.protocolErrors)
        out.family(
            "forebay_logins_total", .counter,
            "Logins, by what came of them: accepted, refused, slowed (not looked at), or missing (no credentials).")
        out.sample(["result": "accepted"], counters.loginsAccepted)
        out.sample(["result": "refused"], counters.loginsRefused)
        out.sample(["result": "slowed"], counters.loginsSlowed)
        out.sample(["result": "missing"], counters.loginsMissing)
        out.single(
            "forebay_requests_denied_total", .counter, "Requests that their user had no permission for.",
            counters.denied)
        out.family("forebay_limit_reached_total", .counter, "How often a limit was reached, by its name.")
        for limit in LimitReached.allCases { out.sample(["limit": limit.name], limits[limit]) }
    }

    private static func addTLS(_ counters: ShardCounters, _ process: ProcessFigures, to out: inout Exposition) {
        out.family("forebay_tls_handshakes_total", .counter, "Handshakes of TLS, by what came of them.")
        out.sample(["result": "done"], counters.handshakes &+ process.handshakes.done)
        out.sample(["result": "failed"], counters.handshakeFailures &+ process.handshakes.failed)
        out.family(
            "forebay_tls_certificate_expiry_timestamp_seconds", .gauge,
            "When the certificate ends, in seconds since 1970; not there without TLS.")
        if let ends = process.certificateEnds { out.sample([:], ends) }
    }

    private static func addLoops(_ broker: BrokerFigures, to out: inout Exposition) {
        out.family(
            "forebay_loop_turn_seconds", .histogram,
            "How long the turns of the event loops took: while one lasts, no other client of its shard is served.")
        let loop = broker.loop
        var count: UInt64 = 0
        for (index, bound) in LoopFigures.bounds.enumerated() {
            count &+= loop.turns[index]
            out.sample(["le": "\(Double(bound) / 1e9)"], suffix: "_bucket", count)
        }
        count &+= loop.turns[LoopFigures.bounds.count]
        out.sample(["le": "+Inf"], suffix: "_bucket", count)
        out.sample(suffix: "_sum", nanoseconds: loop.busy)
        out.sample(suffix: "_count", count)
        out.family(
            "forebay_loop_turn_cpu_seconds_max", .gauge,
            "The most processor time that a turn of a shard's loop has used since the broker began, to within 1 ms.")
        for (index, shard) in broker.shards.enumerated() {
            out.sample(["shard": String(index)], nanoseconds: shard.loop.mostWork)
        }
        out.family("forebay_loop_busy_seconds_total", .counter, "Time that a shard's loop was not waiting.")
        for (index, shard) in broker.shards.enumerated() {
            out.sample(["shard": String(index)], nanoseconds: shard.loop.busy)
        }
    }

    // One topic or subscription each

    private static func addTopics(_ broker: BrokerFigures, to out: inout Exposition) {
        out.single(
            "forebay_topics_omitted", .gauge, "Topics without metrics of their own; scrape ?topics=N for more.",
            max(0, broker.topicSums.count - broker.topics.count))
        func family(
            _ name: String, _ kind: Exposition.Kind, _ help: String, _ value: (TopicFigures) -> some BinaryInteger
        ) {
            out.family("forebay_topic_\(name)", kind, help)
            for topic in broker.topics { out.sample(["topic": topic.name], value(topic)) }
        }
        func seconds(
            _ name: String, _ kind: Exposition.Kind, _ help: String, _ value: (TopicFigures) -> UInt64
        ) {
            out.family("forebay_topic_\(name)", kind, help)
            for topic in broker.topics { out.sample(["topic": topic.name], nanoseconds: value(topic)) }
        }
        func sums(_ topic: TopicFigures) -> SubscriptionSums { broker.byTopic[topic.name] ?? SubscriptionSums() }
        family("published_total", .counter, "Messages that the topic took in.") { $0.published }
        family("delivered_total", .counter, "Messages handed over to its subscriptions.") { $0.delivered }
        out.family(
            "forebay_topic_dropped_total", .counter,
            "Messages that its subscriptions lost, by their overflow policy; not there where none was.")
        for topic in broker.topics {
            for policy in Overflow.allCases where topic.dropped[policy] > 0 {
                out.sample(["topic": topic.name, "policy": policy.name], topic.dropped[policy])
            }
        }
        family("publishes_dropped_total", .counter, "Fire publishes that were not taken.") { $0.fireDropped }
        family("publishes_refused_total", .counter, "Other publishes that were not taken.") { $0.refused }
        out.family(
            "forebay_topic_publishes_lost_total", .counter,
            "Those of both that were lost for a shortage of the broker, by it; not there where none was.")
        for topic in broker.topics {
            for shortage in PublishLoss.shortages where topic.lost(to: shortage) > 0 {
                out.sample(["topic": topic.name, "reason": shortage.name], topic.lost(to: shortage))
            }
        }
        family("subscriptions", .gauge, "Its subscriptions.") { $0.subscriptions }
        family("publishers", .gauge, "Its publishing channels.") { $0.publishers }
        family("publishers_blocked", .gauge, "Its publishers that wait for room.") { $0.blockedPublishers }
        seconds("blocked_seconds_total", .counter, "Time for which its publishers waited for room.") { $0.blocked }
        family("retained_messages", .gauge, "Messages that it keeps for replay.") { $0.retained }
        family("log_bytes", .gauge, "What the messages of its log are charged.") { $0.bytes }
        family("waiting_messages", .gauge, "Messages that wait for its subscriptions.") { sums($0).waiting }
        family("behind_subscriptions", .gauge, "Its subscriptions with messages waiting.") {
            sums($0).waitingForCredit + sums($0).waitingForSocket
        }
        family("credit_outstanding_messages", .gauge, "Credit outstanding of its subscriptions, where bounded.") {
            sums($0).outstanding
        }
        family("lag_messages", .gauge, "How many messages its slowest subscription is behind.") { sums($0).lag }
        seconds("lag_seconds", .gauge, "Age of the oldest message that waits for one.") { sums($0).age }
        seconds("behind_seconds", .gauge, "For how long one has had messages waiting; the longest.") {
            sums($0).behind
        }
    }

    private static func addBehind(_ pairs: [BehindPair], to out: inout Exposition) {
        out.family(
            "forebay_behind_seconds", .gauge,
            "For how long a subscription to the topic has had messages waiting; the longest, where that is slow.")
        for pair in pairs {
            out.sample(["topic": pair.topic, "policy": pair.policy.name], nanoseconds: pair.behind)
        }
    }

    private static func addRows(_ rows: [SubscriptionFigures], to out: inout Exposition) {
        func labels(_ row: SubscriptionFigures) -> KeyValuePairs<String, String> {
            ["subscription": String(row.id), "topic": row.topic, "policy": row.policy.name]
        }
        func family(
            _ name: String, _ kind: Exposition.Kind, _ help: String,
            _ value: (SubscriptionFigures) -> some BinaryInteger
        ) {
            out.family("forebay_subscription_\(name)", kind, help)
            for row in rows { out.sample(labels(row), value(row)) }
        }
        family("delivered_total", .counter, "Messages handed over to the subscription.") { $0.delivered }
        family("dropped_total", .counter, "Messages that it lost.") { $0.dropped }
        family("waiting_messages", .gauge, "Messages that wait for it.") { $0.waiting }
        family("lag_messages", .gauge, "How many messages it is behind its topic.") { $0.lag }
        out.family(
            "forebay_subscription_credit_outstanding_messages", .gauge, "Its credit; not there when it is unbounded.")
        for row in rows { if let credit = row.outstanding { out.sample(labels(row), credit) } }
        out.family("forebay_subscription_lag_seconds", .gauge, "Age of the oldest message that waits for it.")
        for row in rows { out.sample(labels(row), nanoseconds: row.age) }
        out.family("forebay_subscription_behind_seconds", .gauge, "For how long messages have been waiting for it.")
        for row in rows { out.sample(labels(row), nanoseconds: row.behind) }
    }
}

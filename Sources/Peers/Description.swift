// Description: what control calls and lists return about the broker, a topic, a subscription or a connection, for all
// protocols. It is produced on the shard that owns the object and sent between shards unchanged.

import ForebayWire
import HTTP2
import Replay

/// The full description as JSON, plus the fields that gRPC carries separately.
enum Description: Sendable {
    case broker(InfoResponse)
    case topic(TopicRow)
    case subscription(SubscriptionRow)
    case connection(ConnectionRow)
    case publisher(PublisherRow)

    var json: String {
        switch self {
        case .broker(let broker): broker.json
        case .topic(let topic): topic.json
        case .subscription(let subscription): subscription.json
        case .connection(let connection): connection.json
        case .publisher(let publisher): publisher.json
        }
    }
}

final class Descriptions: ShardPart {
    let rateLimiter: RateLimiter
    let authorization: Authorization

    init(_ context: ShardContext, _ rateLimiter: RateLimiter, _ authorization: Authorization) {
        self.rateLimiter = rateLimiter
        self.authorization = authorization
        super.init(context)
    }

    /// - Parameter principal: the user that asks.
    func describeBroker(for principal: Principal, now: Instant) -> Description {
        var object = JSONObject()
        object.add("name", "forebay")
        object.add("version", Shard.version)
        let features = BrokerProtocol.features(resumes: limits.resumeTime > 0)
        object.add("protocol", BrokerProtocol.number)
        object.add("features", json: "[\(features.map { "\"\($0)\"" }.joined(separator: ","))]")
        object.add("shards", shards)
        object.add("uptime_ms", (now.monotonic - context.started) / 1_000_000)
        object.add("memory", memory.used)
        object.add("memory_limit", memory.limit)
        object.add("retain", limits.retain)
        object.add("retain_bytes", limits.retainBytes)
        object.add("payload_limit", limits.payload)
        if let user = principal.user { object.add("user", user) }
        let lists = authorization.listsOpen(to: principal).map { "\"\($0.rawValue)\"" }
        object.add("sees", json: "[\(lists.joined(separator: ","))]")
        return .broker(
            InfoResponse(
                json: object.finished(), version: Shard.version, number: UInt64(BrokerProtocol.number),
                features: features))
    }

    /// - Parameter end: the state to report once the store has recorded it; nil for the state that subscribers see.
    func describe(_ topic: Topic, end: TopicState? = nil, now: Instant) -> Description {
        let state = end ?? topic.visibleState
        let figures = TopicStatistics(topic, state: state, now: now)
        return .topic(
            TopicRow(
                json: figures.json, name: figures.name, epoch: figures.epoch, state: TopicRow.State(state),
                error: figures.error ?? "", firstSequence: figures.first, nextSequence: figures.next,
                storage: TopicRow.Storage(figures.storage.storage), bytes: UInt64(clamping: figures.bytes),
                uncommittedBytes: UInt64(clamping: figures.storage.uncommittedBytes)))
    }

    /// - Parameter epoch: the topic's; nil if there is no such topic.
    func describe(
        _ publisher: PublisherKey, _ last: KnownPublisher.Progress, of topic: String, epoch: UInt64?
    ) -> Description {
        var object = JSONObject()
        object.add("topic", topic)
        if let epoch { object.add("epoch", String(epoch)) }
        object.add("publisher", publisher.id)
        object.add("number", last.number)
        object.add("sequence", last.sequence.value)
        return .publisher(
            PublisherRow(
                json: object.finished(), number: last.number, sequence: last.sequence.value, epoch: epoch ?? 0))
    }

    func describe(_ subscriber: Subscriber, now: Instant) -> Description {
        row(SubscriptionStatistics(subscriber, connection: text(subscriber.connection.id), now: now))
    }

    /// The pattern takes the place of the topic.
    func describe(_ subscription: PatternSubscription, now: Instant) -> Description {
        row(SubscriptionStatistics(subscription, connection: text(subscription.connection.id), now: now))
    }

    private func row(_ figures: SubscriptionStatistics) -> Description {
        .subscription(
            SubscriptionRow(
                json: figures.json, id: figures.id, topic: figures.topic, connection: figures.connection))
    }

    func describe(_ connection: Connection, now: Instant) -> Description {
        var row = ConnectionRow(json: "", id: text(connection.id), peer: connection.peer)
        var object = JSONObject()
        object.add("id", row.id)
        object.add("peer", row.peer)
        object.add("protocol", connection.spoken.rawValue)
        object.add("state", connection.isDetached ? "detached" : "attached")
        if let user = connection.user { object.add("user", user) }
        object.add("shard", index)
        object.add("age_ms", (now.monotonic - Swift.min(now.monotonic, connection.lifecycle.openedAt)) / 1_000_000)
        object.add("streams", connection.streams.count)
        object.add("subscriptions", connection.streams.subscriptions)
        let publishers = connection.streams.channels.count
        object.add("publishers", publishers)
        let targets = connection.publishTopics
        object.add("publishes_to", json: "[\(targets.names.map { "\"\($0)\"" }.joined(separator: ","))]")
        object.add("publishes_to_more", targets.hasMore)
        if let rateLimit = connection.rateLimit, rateLimit.isWaiting, publishers + connection.input.parkedCount > 0 {
            object.add("waits_for", rateLimiter.shortage(rateLimit, now: now).name)
        }
        object.add("bytes_in", connection.bytes.in)
        object.add("bytes_out", connection.bytes.out)
        object.add("output", connection.output.count)
        object.add("control", connection.output.controlCount)
        if connection.session != nil { object.add("unacknowledged", connection.output.unacknowledged) }
        object.add("copied", connection.output.copied)
        row.json = object.finished()
        return .connection(row)
    }
}

extension Connection {
    /// The connection's user; over HTTP, the one that authenticated last. Nil if none has.
    var owner: Principal? { http?.users.login?.principal ?? principal }
    var user: String? { owner?.user }

    /// The most topics listed among those that a connection publishes to.
    static let listedTopics = 8
    /// The most channels searched for topics, so that a list of many connections stays fast.
    static let listedChannels = 64

    /// Topics that the connection publishes to: those of its channels, then those of its latest single publishes.
    var publishTopics: (names: [String], hasMore: Bool) {
        var topics = (names: [String](), hasMore: streams.channels.count > Connection.listedChannels)
        func add(_ name: String) {
            if topics.names.contains(name) { return }
            if topics.names.count == Connection.listedTopics {
                topics.hasMore = true
            } else {
                topics.names.append(name)
            }
        }
        for channel in streams.channels.prefix(Connection.listedChannels) { add(channel.name) }
        login.allowedTargets.forEach { add($0.name) }
        return topics
    }

    /// The protocol spoken, if known; with `http` the version is not known yet.
    enum Spoken: String { case rsocket, http2, http1, http }

    var spoken: Spoken {
        guard let http else { return .rsocket }
        return http.session != nil ? .http2 : http.http1 != nil ? .http1 : .http
    }

    /// Bytes received, as counted by RSocket's positions.
    var received: UInt64 { rsocket.received }
}

extension TopicRow.Storage {
    fileprivate init(_ storage: TopicStorage) {
        switch storage {
        case .memory: self = .memory
        case .durable: self = .durable
        case .relaxed: self = .relaxed
        case .shared: self = .shared
        }
    }
}

extension TopicRow.State {
    fileprivate init(_ state: TopicState) {
        switch state {
        case .live: self = .live
        case .completed: self = .completed
        case .failed, .left: self = .failed
        }
    }
}

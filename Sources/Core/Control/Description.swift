// Description: what control calls answer and lists tell – the broker, a topic, a subscription, a connection – once for
// all protocols. It is made where the thing lives and travels between shards as it is.

import HTTP2
import Replay

/// The whole picture as JSON, and beside it the fields that gRPC has by themselves.
enum Description: Sendable {
    case broker(InfoResponse)
    case topic(TopicRow)
    case subscription(SubscriptionRow)
    case connection(ConnectionRow)

    var json: String {
        switch self {
        case .broker(let broker): broker.json
        case .topic(let topic): topic.json
        case .subscription(let subscription): subscription.json
        case .connection(let connection): connection.json
        }
    }
}

extension Shard {
    func describeBroker(now: Instant) -> Description {
        var object = JSONObject()
        object.add("name", "forebay")
        object.add("version", Shard.version)
        object.add("shards", shards)
        object.add("uptime_ms", (now.monotonic - started) / 1_000_000)
        object.add("memory", memory.used)
        object.add("memory_limit", memory.limit)
        object.add("retain", limits.retain)
        object.add("retain_bytes", limits.retainBytes)
        object.add("payload_limit", limits.payload)
        return .broker(InfoResponse(json: object.finished(), version: Shard.version))
    }

    func describe(_ topic: Topic) -> Description {
        var row = TopicRow(
            json: "", name: topic.name, epoch: topic.epoch, state: TopicRow.State(topic.state), error: "",
            firstSequence: topic.retained.value, nextSequence: topic.log.end.value)
        var object = JSONObject()
        object.add("name", row.name)
        object.add("epoch", String(row.epoch))
        object.add("state", topic.state.name)
        if case .failed(let reason) = topic.state {
            row.error = reason
            object.add("error", reason)
        }
        object.add("first", row.firstSequence)
        object.add("next", row.nextSequence)
        object.add("retained", topic.log.end - topic.retained)
        object.add("retain", topic.retention.messages)
        object.add("retain_bytes", topic.retention.bytes)
        object.add("retain_age_ms", topic.retention.age / 1_000_000)
        object.add("bytes", topic.log.bytes)
        object.add("subscriptions", topic.subscriptions)
        object.add("publishers", topic.channels.count)
        object.add("published", topic.published)
        object.add("dropped", topic.dropped)
        object.add("fire_dropped", topic.fireDropped)
        object.add("overshoot", topic.overshoot)
        object.add("parked", topic.parked.count)
        row.json = object.finished()
        return .topic(row)
    }

    func describe(_ subscriber: Subscriber) -> Description {
        let cursor = subscriber.knownCursor
        let credit = cursor?.credit ?? subscriber.early
        var row = SubscriptionRow(
            json: "", id: subscriber.id, topic: subscriber.mirror.name, connection: text(subscriber.connection.id))
        var object = JSONObject()
        object.add("id", row.id)
        object.add("topic", row.topic)
        object.add("connection", row.connection)
        object.add("stream", subscriber.stream)
        object.add("peer", subscriber.connection.peer)
        if let user = subscriber.principal.user { object.add("user", user) }
        object.add("policy", subscriber.options.overflow.name)
        object.add("buffer", subscriber.options.buffer)
        if credit.isUnbounded {
            object.add("requested", "unbounded")
            object.add("outstanding", "unbounded")
        } else {
            object.add("requested", credit.requested)
            object.add("outstanding", credit.outstanding)
        }
        object.add("delivered", cursor?.delivered ?? 0)
        object.add("waiting", cursor?.waiting ?? 0)
        object.add("dropped", cursor?.dropped ?? 0)
        object.add("missed", cursor?.missedAtStart ?? 0)
        object.add("next", cursor?.cursor.value ?? 0)
        object.add("meta", subscriber.options.meta)
        row.json = object.finished()
        return .subscription(row)
    }

    func describe(_ connection: Connection, now: Instant) -> Description {
        var row = ConnectionRow(json: "", id: text(connection.id), peer: connection.peer)
        var object = JSONObject()
        object.add("id", row.id)
        object.add("peer", row.peer)
        if let user = (connection.http?.login?.principal ?? connection.principal)?.user { object.add("user", user) }
        object.add("shard", index)
        object.add("age_ms", (now.monotonic - Swift.min(now.monotonic, connection.openedAt)) / 1_000_000)
        object.add("streams", connection.streams.count)
        object.add("subscriptions", connection.subscriptions)
        object.add("publishers", connection.publishers)
        object.add("bytes_in", connection.bytesIn)
        object.add("bytes_out", connection.bytesOut)
        object.add("output", connection.output.count)
        object.add("control", connection.output.controlCount)
        object.add("copied", connection.output.copied)
        row.json = object.finished()
        return .connection(row)
    }
}

extension TopicRow.State {
    fileprivate init(_ state: TopicState) {
        switch state {
        case .live: self = .live
        case .completed: self = .completed
        case .failed: self = .failed
        }
    }
}

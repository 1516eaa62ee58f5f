// Calls: REQUEST_RESPONSE on `$SYS.…`, JSON in and out. A call about a topic is answered by the shard that owns it.

import Bytes
import Replay
import RSocket

/// A control call, as it goes to the topic's owner.
enum ControlCall: Sendable {
    case info(topic: String)
    case complete(topic: String)
    case fail(topic: String, message: String)
    case delete(topic: String)

    var topic: String {
        switch self {
        case .info(let topic), .complete(let topic), .fail(let topic, _), .delete(let topic): topic
        }
    }

    static let names = [
        "$SYS.info", "$SYS.topic.info", "$SYS.topic.complete", "$SYS.topic.fail", "$SYS.topic.delete",
    ]
    static let longestReason = 1024

    /// Nil is `$SYS.info`, which every shard can answer.
    static func read(_ route: Route) throws(Refusal) -> ControlCall? {
        guard names.contains(route.name) else {
            throw .invalid("'\(route.name)' is not a control call; there are \(names.joined(separator: ", ")).")
        }
        if route.name == "$SYS.info" {
            try route.expect([], for: route.name)
            return nil
        }
        try route.expect(route.name == "$SYS.topic.fail" ? ["name", "message"] : ["name"], for: route.name)
        guard let topic = route["name"] else {
            throw .invalid("\(route.name) needs the topic's name: \(route.name)?name=orders.")
        }
        if !TopicName.isSystem(topic), let fault = TopicName.fault(topic) { throw .invalid(fault) }
        if route.name == "$SYS.topic.info" { return .info(topic: topic) }
        guard !TopicName.isSystem(topic) else {
            throw .rejected("'\(topic)' is the broker's own; it cannot be ended or deleted.")
        }
        switch route.name {
        case "$SYS.topic.complete": return .complete(topic: topic)
        case "$SYS.topic.delete": return .delete(topic: topic)
        default:
            let message = route["message"] ?? "failed by request"
            guard message.utf8.count <= longestReason else {
                throw .invalid("The message has more than \(longestReason) bytes; shorten it.")
            }
            return .fail(topic: topic, message: message)
        }
    }
}

/// A call that waits for its topic's owner.
final class Call: BoundStream {}

extension Shard {
    public static let version = "0.1.0"

    func call(_ connection: Connection, stream: UInt32, _ route: Route, now: Instant) throws(Refusal) {
        let request = try ControlCall.read(route)
        let bound = streams.insert { Call(kind: .call, connection: connection, stream: stream, handle: $0) }
        connection.attach(bound)
        guard let request else {
            reply(brokerInfo(now: now), to: bound)
            return
        }
        let owner = owner(of: request.topic)
        if owner == index {
            answer(key(bound), perform(request, now: now))
        } else {
            send(.call(key(bound), request), to: owner)
        }
    }

    func answer(_ key: StreamKey, _ result: Result<String, Refusal>) {
        guard key.shard == index else {
            send(.answer(key, result), to: key.shard)
            return
        }
        guard let bound = streams[key.handle], bound.kind == .call else { return }
        switch result {
        case .success(let text): reply(text, to: bound)
        case .failure(let refusal): fail(bound, refusal)
        }
    }

    /// Carries out a call about a topic that this shard owns.
    func perform(_ call: ControlCall, now: Instant) -> Result<String, Refusal> {
        do throws(Refusal) {
            let topic = try existing(call.topic)
            switch call {
            case .info:
                return .success(describe(topic))
            case .complete:
                guard topic.state.isLive else { throw topic.refusal(charge: 0)! }
                topic.finish(.completed, now: now)
            case .fail(_, let message):
                guard topic.state.isLive else { throw topic.refusal(charge: 0)! }
                topic.finish(.failed(message), now: now)
            case .delete:
                delete(topic, now: now)
            }
            return .success(describe(topic))
        } catch {
            return .failure(error)
        }
    }

    private func brokerInfo(now: Instant) -> String {
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
        return object.finished()
    }

    func describe(_ topic: Topic) -> String {
        var object = JSONObject()
        object.add("name", topic.name)
        object.add("epoch", String(topic.epoch))
        object.add("state", topic.state.name)
        if case .failed(let reason) = topic.state { object.add("error", reason) }
        object.add("first", topic.retained.value)
        object.add("next", topic.log.end.value)
        object.add("retained", topic.log.end - topic.retained)
        object.add("bytes", topic.log.bytes)
        object.add("subscriptions", topic.subscriptions)
        object.add("publishers", topic.channels.count)
        object.add("published", topic.published)
        object.add("dropped", topic.dropped)
        object.add("fire_dropped", topic.fireDropped)
        object.add("overshoot", topic.overshoot)
        object.add("parked", topic.parked.count)
        return object.finished()
    }
}

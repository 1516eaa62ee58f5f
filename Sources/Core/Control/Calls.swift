// Calls: REQUEST_RESPONSE on `$SYS.…`, and the single calls of gRPC's Admin. A call about a topic is answered by the
// shard that owns it.

import Bytes
import Replay
import RSocket

/// A control call about a topic, as it goes to the topic's owner.
struct ControlCall: Sendable {
    enum Action: Sendable {
        case info, complete, delete
        case fail(message: String)
    }

    let topic: String
    let action: Action

    static let names = [
        "$SYS.info", "$SYS.topic.info", "$SYS.topic.complete", "$SYS.topic.fail", "$SYS.topic.delete",
    ]
    static let longestReason = 1024
    /// Why a topic failed that was failed without a word.
    static let defaultReason = "failed by request"

    init(_ action: Action, topic: String) throws(Refusal) {
        if !TopicName.isSystem(topic), let fault = TopicName.fault(topic) { throw .invalid(fault) }
        self.topic = topic
        self.action = action
        if case .info = action { return }
        guard !TopicName.isSystem(topic) else {
            throw Refusal(.forbidden, "'\(topic)' is the broker's own; it cannot be ended or deleted.")
        }
        if case .fail(let message) = action, message.utf8.count > ControlCall.longestReason {
            throw .invalid("The message has more than \(ControlCall.longestReason) bytes; shorten it.")
        }
    }

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
        let action: Action =
            switch route.name {
            case "$SYS.topic.info": .info
            case "$SYS.topic.complete": .complete
            case "$SYS.topic.delete": .delete
            default: .fail(message: route["message"] ?? defaultReason)
            }
        return try ControlCall(action, topic: topic)
    }
}

/// A call that waits for its topic's owner.
final class Call: BoundStream {}

extension Shard {
    public static let version = "0.1.0"

    /// - Parameter request: nil asks for the broker.
    func call(_ connection: Connection, stream: UInt32, _ request: ControlCall?, now: Instant) throws(Refusal) {
        if let request { try expectCall(request, of: principal(of: connection, stream)) }
        let bound = streams.insert { Call(kind: .call, connection: connection, stream: stream, handle: $0) }
        connection.attach(bound)
        guard let request else {
            reply(describeBroker(now: now), to: bound)
            return
        }
        let owner = owner(of: request.topic)
        if owner == index {
            answer(key(bound), perform(request, now: now))
        } else {
            send(.call(key(bound), request), to: owner)
        }
    }

    func answer(_ key: StreamKey, _ result: Result<Description?, Refusal>) {
        guard key.shard == index else {
            send(.answer(key, result), to: key.shard)
            return
        }
        guard let bound = streams[key.handle], bound.kind == .call else { return }
        switch result {
        case .success(let description): reply(description, to: bound)
        case .failure(let refusal): fail(bound, refusal)
        }
    }

    /// Carries out a call about a topic that this shard owns.
    func perform(_ call: ControlCall, now: Instant) -> Result<Description?, Refusal> {
        do throws(Refusal) {
            let topic = try existing(call.topic)
            switch call.action {
            case .info:
                return .success(describe(topic))
            case .complete:
                guard topic.state.isLive else { throw topic.refusal(charge: 0)! }
                topic.finish(.completed, now: now)
            case .fail(let message):
                guard topic.state.isLive else { throw topic.refusal(charge: 0)! }
                topic.finish(.failed(message), now: now)
            case .delete:
                // As it was: by now it is nothing but a failure that its subscribers still have to hear of.
                let description = describe(topic)
                delete(topic, now: now)
                return .success(description)
            }
            return .success(describe(topic))
        } catch {
            return .failure(error)
        }
    }
}

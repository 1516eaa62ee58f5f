// Calls: REQUEST_RESPONSE on `$SYS.…`, and the single calls of gRPC's Admin. A call about a topic is answered by the
// shard that owns it.

import Bytes
import HTTP2
import Replay
import RSocket

/// A control call about a topic, a connection or a subscription, as it goes to the shard that has it.
public struct ControlCall: Sendable {
    /// What one on its way to another shard counts for in `Limits.forwarded`.
    static let weight = 1 << 10

    public enum Action: Sendable {
        case info, complete, delete
        case fail(message: String)
    }

    enum Subject: Sendable {
        case topic(String, Action)
        /// To be closed.
        case connection(shard: Int, ConnectionID)
        case subscription(UInt64)
    }

    let subject: Subject
    /// Who makes it, for the log.
    public var caller: Caller?
    /// It asks in order to publish to the topic, and is refused to who may not.
    private(set) var isForPublishing = false

    static let names = [
        "$SYS.info", "$SYS.topic.info", "$SYS.topic.complete", "$SYS.topic.fail", "$SYS.topic.delete",
        "$SYS.connection.close", "$SYS.subscription.close",
    ]
    /// Of the calls about a topic that take more than its name.
    private static let options = ["$SYS.topic.info": ["name", "for"], "$SYS.topic.fail": ["name", "message"]]
    static let longestReason = 1024
    /// Why a topic failed that was failed without a word.
    public static let defaultReason = "failed by request"

    /// The same for who is no part of the engine.
    public static func about(_ topic: String, _ action: Action) throws(Problem) -> ControlCall {
        do throws(Refusal) { return try ControlCall(action, topic: topic) } catch { throw error.problem }
    }

    /// Closes the connection of that id, as lists tell it: `SHARD-PLACE-GENERATION`.
    init(closeConnection id: String) throws(Refusal) {
        let parts = id.split(separator: "-", omittingEmptySubsequences: false).map { UInt32($0) }
        guard parts.count == 3, let shard = parts[0], let index = parts[1], let generation = parts[2] else {
            throw .invalid("'\(id)' is no connection's id; $SYS.connections lists those that there are.")
        }
        subject = .connection(shard: Int(shard), ConnectionID(index: index, generation: generation))
    }

    /// Ends the subscription of that id, as lists tell it.
    init(closeSubscription id: String) throws(Refusal) {
        guard id.utf8.allSatisfy({ (48...57).contains($0) }), let number = UInt64(id) else {
            throw .invalid("'\(id)' is no subscription's id; $SYS.subscriptions lists those that there are.")
        }
        subject = .subscription(number)
    }

    /// The same for who is no part of the engine.
    public static func closing(_ list: SystemList, id: String) throws(Problem) -> ControlCall {
        do throws(Refusal) {
            return try list == .connections ? ControlCall(closeConnection: id) : ControlCall(closeSubscription: id)
        } catch {
            throw error.problem
        }
    }

    init(_ action: Action, topic: String) throws(Refusal) {
        if !TopicName.isSystem(topic), let fault = TopicName.fault(topic) { throw .invalid(fault) }
        subject = .topic(topic, action)
        if case .info = action { return }
        guard !TopicName.isSystem(topic) else {
            throw Refusal(.forbidden, "'\(topic)' is the broker's own; it cannot be ended or deleted.")
        }
        if case .fail(let message) = action, message.utf8.count > ControlCall.longestReason {
            throw .invalid("The message has more than \(ControlCall.longestReason) bytes; shorten it.")
        }
    }

    /// What one has to be permitted to control: the topic, or the list that the other things are in.
    public var permitted: String {
        switch subject {
        case .topic(let name, _): name
        case .connection: SystemList.connections.name
        case .subscription: SystemList.subscriptions.name
        }
    }

    /// It changes nothing.
    public var isReading: Bool {
        if case .topic(_, .info) = subject { true } else { false }
    }

    /// The shard that it is for.
    public func home(among shards: Int) -> Int {
        switch subject {
        case .topic(let name, _): Shard.owner(of: name, among: shards)
        // What no shard can have is found to be nowhere by any.
        case .connection(let shard, _): shard < shards ? shard : 0
        case .subscription(let id): Int(id % UInt64(shards))
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
        if route.name.hasSuffix(".close") {
            try route.expect(["id"], for: route.name)
            guard let id = route["id"] else {
                throw .invalid("\(route.name) needs an id, as the lists tell it: \(route.name)?id=….")
            }
            return try route.name == "$SYS.connection.close"
                ? ControlCall(closeConnection: id) : ControlCall(closeSubscription: id)
        }
        try route.expect(options[route.name] ?? ["name"], for: route.name)
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
        var call = try ControlCall(action, topic: topic)
        call.isForPublishing = try route.choice("for", [("publish", true)]) ?? false
        return call
    }
}

/// A call that waits for its topic's owner.
final class Call: BoundStream {}

extension Shard {
    public static let version = "0.1.0"

    /// - Parameter request: nil asks for the broker.
    func call(_ connection: Connection, stream: UInt32, _ request: ControlCall?, now: Instant) throws(Refusal) {
        let principal = principal(of: connection, stream)
        var request = request
        if let call = request {
            try expectCall(call, of: principal)
            request?.caller = Caller(user: principal.user, peer: connection.peer)
        }
        let bound = streams.insert { Call(kind: .call, connection: connection, stream: stream, handle: $0) }
        connection.attach(bound)
        guard let request else {
            reply(describeBroker(for: principal, now: now), to: bound)
            return
        }
        let owner = request.home(among: shards)
        if owner == index {
            answer(key(bound), perform(request, now: now))
        } else {
            forward(ControlCall.weight, of: connection)
            send(.call(key(bound), connection.id, request), to: owner)
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

    /// Carries out a call about something that this shard has.
    func perform(_ call: ControlCall, now: Instant) -> Result<Description?, Refusal> {
        do throws(Refusal) {
            switch call.subject {
            case .topic(let name, let action): return .success(try perform(action, on: name, by: call.caller, now: now))
            case .connection(let shard, let id): return .success(try cutOff(id, of: shard, by: call.caller, now: now))
            case .subscription(let id): return .success(try cutOff(subscription: id, by: call.caller, now: now))
            }
        } catch {
            return .failure(error)
        }
    }

    private func perform(
        _ action: ControlCall.Action, on name: String, by caller: Caller?, now: Instant
    ) throws(Refusal) -> Description {
        let topic = try existing(name)
        switch action {
        case .info: break
        case .complete:
            guard topic.state.isLive else { throw topic.refusal(charge: 0)! }
            audit(action, on: topic, by: caller)
            topic.finish(.completed, now: now)
        case .fail(let message):
            guard topic.state.isLive else { throw topic.refusal(charge: 0)! }
            audit(action, on: topic, by: caller)
            topic.finish(.failed(message), now: now)
        case .delete:
            // As it was: by now it is nothing but a failure that its subscribers still have to hear of.
            let description = describe(topic, now: now)
            audit(action, on: topic, by: caller)
            delete(topic, now: now)
            return description
        }
        return describe(topic, now: now)
    }

    /// Returns the connection as it was.
    private func cutOff(
        _ id: ConnectionID, of shard: Int, by caller: Caller?, now: Instant
    ) throws(Refusal) -> Description {
        guard shard == index, let connection = find(id) else {
            throw Refusal(.notFound, "There is no connection \(shard)-\(id.index)-\(id.generation).")
        }
        let description = describe(connection, now: now)
        counters.refusals[.cutOff] &+= 1
        audit(closing: connection, by: caller)
        let reason = "An operator closed this connection."
        fatal(connection, RSocketError(code: .connectionClose, message: reason, scope: .connection), now: now)
        return description
    }

    /// Returns the subscription as it was.
    private func cutOff(subscription id: UInt64, by caller: Caller?, now: Instant) throws(Refusal) -> Description {
        guard let subscriber = subscribers[id] else {
            throw Refusal(.notFound, "There is no subscription \(id).")
        }
        let description = describe(subscriber, now: now)
        audit(ending: subscriber, by: caller)
        fail(subscriber, Refusal(.cutOff, "An operator ended this subscription."))
        return description
    }
}

// ControlRequests: REQUEST_RESPONSE on `$SYS.…`, and the unary calls of gRPC's Admin service. The shard that owns a
// topic answers the calls about it.

import Bytes
import ForebayWire
import Replay

/// A control call about a topic, a connection or a subscription, as it is sent to the shard that owns it.
public struct ControlRequest: Sendable {
    /// The bytes that a call on its way to another shard counts towards `Limits.forwarded`.
    static let weight = 1 << 10

    public enum Action: Sendable {
        case info, complete, delete
        case fail(message: String)
    }

    enum Subject: Sendable {
        case topic(String, Action)
        /// A connection to close.
        case connection(shard: Int, ConnectionID)
        case subscription(UInt64)
        /// The last number of the caller's publisher with this id.
        case publisher(String, id: String)
    }

    let subject: Subject
    /// The origin of the call, for the log.
    public var caller: Caller?
    /// Whether the client wants to publish to the topic. The call is refused if the client may not.
    private(set) var isForPublishing = false

    static let longestReason = 1024
    /// The reason of a topic that was failed without a message, or with an empty one.
    public static let defaultReason = "failed by request"

    /// Closes the connection with that id, in the form that lists use: `SHARD-PLACE-GENERATION`.
    init(closeConnection id: String) throws(Refusal) {
        let parts = id.split(separator: "-", omittingEmptySubsequences: false).map { UInt32($0) }
        guard parts.count == 3, let shard = parts[0], let index = parts[1], let generation = parts[2] else {
            throw .invalid("'\(id)' is not a connection id; $SYS.connections lists the ids.")
        }
        subject = .connection(shard: Int(shard), ConnectionID(index: index, generation: generation))
    }

    /// Ends the subscription with that id, in the form that lists use.
    init(closeSubscription id: String) throws(Refusal) {
        guard id.utf8.allSatisfy({ (48...57).contains($0) }), let number = UInt64(id) else {
            throw .invalid("'\(id)' is not a subscription id; $SYS.subscriptions lists the ids.")
        }
        self.init(closeSubscription: number)
    }

    private init(closeSubscription number: UInt64) { subject = .subscription(number) }

    init(publisher id: String, of topic: String) throws(Refusal) {
        if let fault = PublisherNumber.fault(id: id) { throw .invalid(fault) }
        subject = .publisher(topic, id: id)
    }

    package init(_ action: Action, topic: String) throws(Refusal) {
        if !TopicName.isSystem(topic), let fault = TopicName.fault(topic) { throw .invalid(fault) }
        var action = action
        if case .fail(message: "") = action { action = .fail(message: ControlRequest.defaultReason) }
        subject = .topic(topic, action)
        if case .info = action { return }
        guard !TopicName.isSystem(topic) else {
            throw Refusal(.forbidden, "'\(topic)' belongs to the broker; it cannot be ended or deleted.")
        }
        if case .fail(let message) = action, message.utf8.count > ControlRequest.longestReason {
            throw .invalid("The message has more than \(ControlRequest.longestReason) bytes; shorten it.")
        }
    }

    /// What the caller needs permission to control: the topic, or the list that contains the target.
    public var permitted: String {
        switch subject {
        case .topic(let name, _), .publisher(let name, _): name
        case .connection: BrokerList.connections.rawValue
        case .subscription: BrokerList.subscriptions.rawValue
        }
    }

    /// Whether the call changes nothing.
    public var isReading: Bool {
        switch subject {
        case .topic(_, .info), .publisher: true
        case .topic, .connection, .subscription: false
        }
    }

    /// The shard that handles the call.
    public func home(among shards: Int) -> Int {
        switch subject {
        case .topic(let name, _), .publisher(let name, _): Shard.owner(of: name, among: shards)
        // An id with an impossible shard can go to any shard: none finds it.
        case .connection(let shard, _): shard < shards ? shard : 0
        case .subscription(let id): Int(id % UInt64(shards))
        }
    }

    /// Nil for `$SYS.info`, which every shard can answer.
    init?(_ call: ControlCall) throws(Refusal) {
        switch call {
        case .info: return nil
        case .topicInfo(let topic): try self.init(.info, topic: topic)
        case .completeTopic(let topic): try self.init(.complete, topic: topic)
        case .failTopic(let topic, let message):
            try self.init(.fail(message: message ?? ControlRequest.defaultReason), topic: topic)
        case .deleteTopic(let topic): try self.init(.delete, topic: topic)
        case .closeConnection(let id): try self.init(closeConnection: id)
        case .closeSubscription(let id): self.init(closeSubscription: id)
        case .publisherInfo(let topic, let publisher): try self.init(publisher: publisher, of: topic)
        }
    }

    /// Nil for `$SYS.info`.
    static func read(_ route: Route) throws(Refusal) -> ControlRequest? {
        guard let name = ControlCall.Name(rawValue: route.name) else {
            let names = ControlCall.Name.allCases.map(\.rawValue).joined(separator: ", ")
            throw .invalid("'\(route.name)' is not a control call; use one of \(names).")
        }
        switch name {
        case .info:
            try route.expect([], for: route.name)
            return nil
        case .closeConnection: return try ControlRequest(closeConnection: id(route))
        case .closeSubscription: return try ControlRequest(closeSubscription: id(route))
        case .topicInfo:
            var request = try ControlRequest(.info, topic: topic(route, ["for"]))
            request.isForPublishing = try route.choice("for", [("publish", true)]) ?? false
            return request
        case .completeTopic: return try ControlRequest(.complete, topic: topic(route))
        case .failTopic:
            let topic = try topic(route, ["message"])
            return try ControlRequest(.fail(message: route["message"] ?? defaultReason), topic: topic)
        case .deleteTopic: return try ControlRequest(.delete, topic: topic(route))
        case .publisherInfo:
            try route.expect(["topic", "publisher"], for: route.name)
            guard let topic = route["topic"], let id = route["publisher"] else {
                throw .invalid("\(route.name) needs a topic and a publisher; write \(route.name)?topic=…&publisher=….")
            }
            return try ControlRequest(publisher: id, of: topic)
        }
    }

    private static func id(_ route: Route) throws(Refusal) -> String {
        try route.expect(["id"], for: route.name)
        guard let id = route["id"] else {
            throw .invalid("\(route.name) needs an id; write \(route.name)?id=….")
        }
        return id
    }

    /// - Parameter options: options allowed besides the topic's name.
    private static func topic(_ route: Route, _ options: [String] = []) throws(Refusal) -> String {
        try route.expect(["name"] + options, for: route.name)
        guard let topic = route["name"] else {
            throw .invalid("\(route.name) needs the topic's name; write \(route.name)?name=orders.")
        }
        return topic
    }
}

/// The client, or the listener, that made a control call.
enum ReplyTarget {
    case stream(StreamKey)
    /// The admin listener, on its own thread.
    case listener(job: UInt64)
}

/// A call that waits for an answer from the topic's owner.
final class Call: BoundStream {}

final class ControlRequests: ShardPart {
    let auditLog: AuditLog
    let streams: StreamTable
    let connections: ConnectionTable
    let subscriptions: SubscriptionTable
    let authorization: Authorization
    let reading: Reading
    let users: ConnectionUsers
    let ends: StreamEnds
    let ownership: TopicOwnership
    let descriptions: Descriptions
    let connectionEnds: ConnectionEnds

    init(
        _ context: ShardContext, _ auditLog: AuditLog, _ streams: StreamTable, _ connections: ConnectionTable,
        _ subscriptions: SubscriptionTable, _ authorization: Authorization, _ reading: Reading,
        _ users: ConnectionUsers, _ ends: StreamEnds, _ ownership: TopicOwnership, _ descriptions: Descriptions,
        _ connectionEnds: ConnectionEnds
    ) {
        self.auditLog = auditLog
        self.streams = streams
        self.connections = connections
        self.subscriptions = subscriptions
        self.authorization = authorization
        self.reading = reading
        self.users = users
        self.ends = ends
        self.ownership = ownership
        self.descriptions = descriptions
        self.connectionEnds = connectionEnds
        super.init(context)
    }

    public static let version = "0.1.0"

    /// - Parameter request: nil asks for information about the broker.
    func call(_ connection: Connection, stream: UInt32, _ request: ControlRequest?, now: Instant) throws(Refusal) {
        let principal = users.principal(of: connection, stream)
        var request = request
        if let call = request {
            try authorization.expectCall(call, of: principal, at: connection.peer)
            request?.caller = Caller(user: principal.user, peer: connection.peer)
        }
        let bound = streams.insert { Call(kind: .call, connection: connection, stream: stream, handle: $0) }
        connection.attach(bound)
        guard let request else {
            ends.reply(descriptions.describeBroker(for: principal, now: now), to: bound)
            return
        }
        let owner = request.home(among: shards)
        if owner == index {
            perform(request, for: .stream(streams.key(bound)), now: now)
        } else {
            reading.forward(ControlRequest.weight, of: connection)
            send(.call(streams.key(bound), connection.id, request), to: owner)
        }
    }

    func answer(_ target: ReplyTarget, _ result: Result<Description?, Refusal>) {
        switch target {
        case .stream(let key): answer(key, result)
        case .listener(let job):
            let answer: ShardAnswer =
                switch result {
                case .success(let description): .done(description?.json ?? "")
                case .failure(let refusal): .refused(refusal)
                }
            effects.answers.append((job, answer))
        }
    }

    func answer(_ key: StreamKey, _ result: Result<Description?, Refusal>) {
        guard key.shard == index else {
            send(.answer(key, result), to: key.shard)
            return
        }
        guard let bound = streams[key.handle], bound.kind == .call else { return }
        switch result {
        case .success(let description): ends.reply(description, to: bound)
        case .failure(let refusal): ends.fail(bound, refusal)
        }
    }

    /// Carries out a call about something that this shard owns, and answers it. The end of a topic in a store or in
    /// JetStream is answered once it is committed.
    func perform(_ call: ControlRequest, for target: ReplyTarget, now: Instant) {
        do throws(Refusal) {
            if try awaitJoin(call, for: target, now: now) { return }
        } catch {
            return answer(target, .failure(error))
        }
        let result = result(of: call, now: now)
        if case .success(let (description, ended?)) = result, ended.awaitEnd(.call(target, description)) { return }
        answer(target, result.map { $0.0 })
    }

    /// Returns a description, and the topic that the call has ended.
    private func result(of call: ControlRequest, now: Instant) -> Result<(Description, Topic?), Refusal> {
        do throws(Refusal) {
            switch call.subject {
            case .topic(let name, let action): return .success(try perform(action, on: name, by: call.caller, now: now))
            case .connection(let shard, let id):
                return .success((try cutOff(id, of: shard, by: call.caller, now: now), nil))
            case .subscription(let id): return .success((try cutOff(subscription: id, by: call.caller, now: now), nil))
            case .publisher(let topic, let id):
                return .success((describe(PublisherKey(user: call.caller?.user, id: id), of: topic, now: now), nil))
            }
        } catch {
            return .failure(error)
        }
    }

    private func perform(
        _ action: ControlRequest.Action, on name: String, by caller: Caller?, now: Instant
    ) throws(Refusal) -> (Description, Topic?) {
        let topic = try ownership.existing(name, now: now)
        switch action {
        case .info: return (descriptions.describe(topic, now: now), nil)
        case .complete: return (try end(topic, as: .completed, action, by: caller, now: now), topic)
        case .fail(let message): return (try end(topic, as: .failed(message), action, by: caller, now: now), topic)
        case .delete:
            try ownership.expectDeletable(topic)
            // The topic is described as it was: after that, only the failure that its subscribers still have to receive
            // is left.
            let description = descriptions.describe(topic, now: now)
            auditLog.audit(action, on: topic, by: caller)
            ownership.delete(topic, now: now)
            return (description, topic)
        }
    }

    private func end(
        _ topic: Topic, as end: TopicState, _ action: ControlRequest.Action, by caller: Caller?, now: Instant
    ) throws(Refusal) -> Description {
        guard topic.state.isLive else { throw topic.refusal(charge: 0)! }
        try ownership.expectEndable(topic)
        auditLog.audit(action, on: topic, by: caller)
        topic.finish(end, now: now)
        return descriptions.describe(topic, end: end, now: now)
    }

    /// Describes a publisher. One that is not known has number 0, whether or not the topic exists: the next publish
    /// creates both.
    private func describe(_ key: PublisherKey, of name: String, now: Instant) -> Description {
        let topic = ownership.topics[name]
        let last = topic?.publishers.lastCommitted(of: key, now: now) ?? KnownPublisher.Progress()
        // The epoch of a shared topic that does not exist is provisional.
        let epoch = topic?.shared?.state == .absent ? nil : topic?.epoch
        return descriptions.describe(key, last, of: name, epoch: epoch)
    }

    /// Returns the connection's state before it was closed.
    private func cutOff(
        _ id: ConnectionID, of shard: Int, by caller: Caller?, now: Instant
    ) throws(Refusal) -> Description {
        guard shard == index, let connection = connections.find(id) else {
            throw Refusal(.notFound, "There is no connection \(shard)-\(id.index)-\(id.generation).")
        }
        let description = descriptions.describe(connection, now: now)
        counters.refusals[.closedByOperator] &+= 1
        auditLog.audit(closing: connection, by: caller)
        let reason = "An operator closed this connection."
        connectionEnds.fatal(connection, ConnectionFault(.closed, .closedByOperator, reason), now: now)
        return description
    }

    /// Returns the subscription's state before it was ended.
    private func cutOff(subscription id: UInt64, by caller: Caller?, now: Instant) throws(Refusal) -> Description {
        let refusal = Refusal(.closedByOperator, "An operator ended this subscription.")
        if let subscription = subscriptions[pattern: id] {
            let description = descriptions.describe(subscription, now: now)
            auditLog.audit(ending: subscription, by: caller)
            ends.fail(subscription, refusal)
            return description
        }
        guard let subscriber = subscriptions[id] else {
            throw Refusal(.notFound, "There is no subscription \(id).")
        }
        let description = descriptions.describe(subscriber, now: now)
        auditLog.audit(ending: subscriber, by: caller)
        ends.fail(subscriber, refusal)
        return description
    }
}

// Audit: logs what operators do to topics, connections and subscriptions, with the caller and the target, and the
// messages that the broker itself dropped from subscriptions.

/// The origin of a control call.
public struct Caller: Sendable, Equatable {
    /// Nil if the broker requires no credentials.
    public var user: String?
    /// Address and port.
    public var peer: String

    public init(user: String?, peer: String) {
        self.user = user
        self.peer = peer
    }
}

final class AuditLog: ShardPart {
    /// Logs an action; `fields` name its target.
    private func audit(_ deed: String, _ caller: Caller?, _ fields: [LogField]) {
        var line: [LogField] = []
        if let user = caller?.user { line.append(("by", user)) }
        if let caller { line.append(("by-peer", caller.peer)) }
        log(.info, deed, line + fields)
    }

    func audit(_ action: ControlRequest.Action, on topic: Topic, by caller: Caller?) {
        let fields: [LogField] = [("topic", topic.name), ("epoch", String(topic.epoch))]
        switch action {
        case .info: break
        case .complete: audit("topic completed", caller, fields)
        case .delete: audit("topic deleted", caller, fields)
        case .fail(let message): audit("topic failed", caller, fields + [("reason", message)])
        }
    }

    func audit(closing connection: Connection, by caller: Caller?) {
        var fields: [LogField] = [("connection", text(connection.id)), ("peer", connection.peer)]
        if let user = connection.user { fields.append(("user", user)) }
        audit("connection cut off", caller, fields)
    }

    func audit(ending subscriber: Subscriber, by caller: Caller?) {
        audit("subscription cut off", caller, fields(of: subscriber))
    }

    func audit(ending subscription: PatternSubscription, by caller: Caller?) {
        let pattern = subscription.pattern.description
        audit("subscription cut off", caller, fields(of: subscription, id: subscription.id, ("pattern", pattern)))
    }

    private func fields(of subscriber: Subscriber) -> [LogField] {
        fields(of: subscriber, id: subscriber.id, ("topic", subscriber.view.name))
    }

    private func fields(of stream: BoundStream, id: UInt64, _ subject: LogField) -> [LogField] {
        let connection = stream.connection
        var fields: [LogField] = [
            ("subscription", id), subject, ("connection", text(connection.id)), ("peer", connection.peer),
        ]
        if let user = stream.principal.user { fields.append(("user", user)) }
        return fields
    }

    /// Logs that a subscription ended because it held publishers back, and that its waiting messages are dropped.
    func warn(ofBlocking subscriber: Subscriber) {
        effects.log.append(
            LogRecord(
                level: .warning, message: "blocking subscription ended", fields: fields(of: subscriber),
                isFrequent: true))
    }

    /// Logs that waiting messages of a topic were dropped to free memory.
    func warn(ofShedding messages: Int, of topic: String) {
        effects.log.append(
            LogRecord(
                level: .warning, message: "memory is full: waiting messages dropped",
                fields: [("topic", topic), ("messages", messages)], isFrequent: true))
    }
}

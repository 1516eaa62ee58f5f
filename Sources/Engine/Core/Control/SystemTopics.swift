// The broker's own topics: events in `$SYS.events`, and statistics once a second in `$SYS.stats`. They are ordinary
// topics, with a window, replay and every overflow policy except `block`, but only the broker publishes to them.

import ForebayWire
import Replay

enum SystemTopic {
    static let events = "$SYS.events"
    static let stats = "$SYS.stats"
    static let all = [events, stats]

    /// Refuses names under `$SYS.` that cannot be subscribed to, and options that would slow the broker down.
    static func check(_ name: String, _ options: SubscribeOptions) throws(Refusal) {
        guard TopicName.isSystem(name) else { return }
        guard all.contains(name) else {
            throw .invalid(
                "'\(name)' cannot be subscribed to; under $SYS., use \(events), \(stats), "
                    + BrokerList.allCases.map(\.rawValue).joined(separator: ", ") + ".")
        }
        guard options.overflow != .block else {
            throw Refusal(.forbidden, "'\(name)' does not allow overflow=block; subscribers may not block the broker.")
        }
    }
}

final class Events: ShardPart {
    let reports: Reports
    // Above
    unowned(unsafe) var ownership: TopicOwnership!

    init(_ context: ShardContext, _ reports: Reports) {
        self.reports = reports
        super.init(context)
    }

    // Each event is a JSON object with `event`, `time_ns` and its subject.

    func event(_ name: String, topic: String, epoch: UInt64) {
        guard !TopicName.isSystem(topic) else { return }
        var object = eventObject(name)
        object.add("topic", topic)
        object.add("epoch", String(epoch))
        publishEvent(object)
    }

    func event(_ name: String, connection: Connection, reason: String?) {
        var object = eventObject(name)
        object.add("connection", text(connection.id))
        object.add("peer", connection.peer)
        if let reason { object.add("reason", reason) }
        publishEvent(object)
    }

    func event(_ name: String, subscriber: Subscriber, reason: String? = nil) {
        guard !TopicName.isSystem(subscriber.view.name) else { return }
        var object = eventObject(name)
        object.add("subscription", subscriber.id)
        object.add("topic", subscriber.view.name)
        if let subscription = subscriber.match?.subscription {
            object.add("pattern", subscription.pattern.description)
        }
        object.add("connection", text(subscriber.connection.id))
        object.add("policy", subscriber.options.overflow.name)
        if subscriber.hasJoined {
            object.add("delivered", subscriber.cursor.delivered)
            object.add("dropped", subscriber.cursor.dropped)
        }
        if let reason { object.add("reason", reason) }
        publishEvent(object)
    }

    func event(_ name: String, pattern subscription: PatternSubscription, reason: String? = nil) {
        guard !subscription.pattern.isOfBroker else { return }
        var object = eventObject(name)
        object.add("subscription", subscription.id)
        object.add("pattern", subscription.pattern.description)
        object.add("connection", text(subscription.connection.id))
        object.add("policy", subscription.options.overflow.name)
        object.add("delivered", subscription.sums.delivered)
        object.add("dropped", subscription.sums.dropped)
        if let reason { object.add("reason", reason) }
        publishEvent(object)
    }

    func event(_ name: String, server: String, reason: String? = nil) {
        var object = eventObject(name)
        object.add("server", server)
        if let reason { object.add("reason", reason) }
        publishEvent(object)
    }

    private func eventObject(_ name: String) -> JSONObject {
        var object = JSONObject()
        object.add("event", name)
        object.add("time_ns", moment.wall)
        return object
    }

    private func publishEvent(_ object: JSONObject) {
        let owner = owner(of: SystemTopic.events)
        if owner == index {
            publishSystem(SystemTopic.events, object.bytes(), now: moment)
        } else {
            reports.report(event: object.bytes(), to: owner)
        }
    }

    /// Appends to one of the broker's own topics, which this shard must own.
    func publishSystem(_ name: String, _ object: [UInt8], now: Instant) {
        guard let topic = try? ownership.topic(named: name, for: nil, now: now) else { return }
        object.withUnsafeBytes { payload in
            let charge = Log.charge(payload: payload.count, metadata: 0)
            topic.publishers.append(metadata: nil, payload: payload, charge: charge, now: now)
        }
    }
}

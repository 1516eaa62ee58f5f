// TopJSON: one picture of `top`, for programs.

extension TopState {
    var json: JSON {
        .object([
            ("stats", stats ?? .null), ("topic_count", .whole(topicCount)),
            ("subscription_count", .whole(subscriptionCount)), ("slow", .whole(slowCount)),
            ("topics", .array(topics.map(\.json))), ("subscriptions", .array(subscriptions.map(\.json))),
        ])
    }
}

extension TopTopic {
    fileprivate var json: JSON {
        .object([
            ("name", .string(name)), ("state", .string(state)), ("in_per_s", .number(Units.fixed(rateIn, 1))),
            ("out_per_s", .number(Units.fixed(rateOut, 1))), ("subscriptions", .whole(subscriptions)),
            ("publishers", .whole(publishers)), ("publishers_blocked", .whole(blocked)),
            ("retained", .whole(retained)), ("bytes", .whole(bytes)), ("storage", .string(storage)),
            ("uncommitted", .whole(uncommitted)), ("publishers_wait_for", .string(waitsFor)),
            ("dropped", .whole(dropped)),
            ("lost", .whole(lost)),
        ])
    }
}

extension TopSubscription {
    /// A `credit` of null is unbounded.
    fileprivate var json: JSON {
        .object([
            ("id", UInt64(id).map { .whole($0) } ?? .string(id)), ("topic", .string(topic)),
            ("client", .string(client)), ("policy", .string(policy)),
            ("state", .string(words)), ("credit", credit.map { .whole($0) } ?? .null), ("waiting", .whole(waiting)),
            ("buffer", .whole(buffer)), ("dropped", .whole(dropped)), ("behind_ms", .whole(behind)),
            ("cursors", cursors.map { .whole($0) } ?? .null),
            ("skipped", cursors == nil ? .null : .whole(skipped)),
        ])
    }
}

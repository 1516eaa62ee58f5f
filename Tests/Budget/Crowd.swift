// Crowd: the quantities that operations are measured against, and the operations, whose cost must not grow with these
// quantities.

/// What the broker is full of while operations are counted. "The topic" is the one that the operations use.
enum Crowd: String, CaseIterable {
    /// Subscribers of the topic that read, with unlimited credit.
    case subscribers
    /// Subscribers of the topic without credit: messages wait for them until they are dropped.
    case unasked
    /// Subscribers of the topic with overflow=block that read, with unlimited credit.
    case block
    /// Subscribers of the topic with overflow=block, each with one waiting message and a full buffer.
    case full
    /// Subscribers of patterns that match the topic, each with the same pattern, that read with unlimited credit.
    case matching
    /// Subscribers of other patterns, all different.
    case patterns
    /// Other topics, one subscription each.
    case topics
    /// Other topics, with one full subscription each.
    case fullTopics = "full-topics"
    /// Channels of publishers of the topic that publish nothing.
    case channels
    /// Channels of publishers of the topic that belong to one user and wait for its rate limit.
    case waiting
    /// Subscriptions of another topic, on the connection that makes the requests.
    case streams
    /// Subscriptions of another topic over gRPC, 100 per connection.
    case calls
    /// Idle connections.
    case connections
    /// Resumable connections without a socket, each with a subscription of another topic.
    case sessions
    /// Users with one connection each.
    case users
    /// Messages that the topic retains.
    case retained

    var title: String {
        switch self {
        case .subscribers: "subscribers of the topic"
        case .unasked: "subscribers of the topic, without credit"
        case .block: "`block` subscribers of the topic"
        case .full: "`block` subscribers of the topic, all full"
        case .matching: "subscribers of a pattern that matches the topic"
        case .patterns: "subscribers of other patterns"
        case .topics: "topics, one subscription each"
        case .fullTopics: "topics, one full `block` subscription each"
        case .channels: "idle channels of the topic"
        case .waiting: "channels of one user, at its rate limit"
        case .streams: "streams on one connection"
        case .calls: "gRPC calls, 100 per connection"
        case .connections: "idle connections"
        case .sessions: "sessions without a socket"
        case .users: "users, one connection each"
        case .retained: "retained messages of the topic"
        }
    }
}

/// What is counted. Each is one turn of the loop, except ticks.
enum Operation: String, CaseIterable {
    /// REQUEST_STREAM, whether or not the topic has messages.
    case join
    case joinBlock = "join-block"
    /// REQUEST_N of a subscription with a waiting message; for `block`, of the one that holds publishers back.
    case request
    case requestBlock = "request-block"
    /// CANCEL of a subscription.
    case leave
    case leaveBlock = "leave-block"
    /// The end of a subscription by `$SYS.subscription.close`.
    case cut
    /// REQUEST_CHANNEL, and CANCEL of it.
    case open
    case cancel
    /// A fire-and-forget publish, an item of a channel, and an acknowledged publish.
    case publish
    case item
    case acknowledge
    /// A new connection with SETUP, and the end of one with two subscriptions and a channel.
    case connect
    case close
    /// A quarter of a second in which nothing happens; a run counts up to four.
    case tick

    var title: String {
        switch self {
        case .join: "join"
        case .joinBlock: "join, `block`"
        case .request: "request"
        case .requestBlock: "request, `block`"
        case .leave: "leave"
        case .leaveBlock: "leave, `block`"
        case .cut: "cut off by id"
        case .open: "open a channel"
        case .cancel: "cancel a channel"
        case .publish: "publish, fire"
        case .item: "publish, channel"
        case .acknowledge: "publish, acknowledged"
        case .connect: "connect"
        case .close: "close"
        case .tick: "tick"
        }
    }
}

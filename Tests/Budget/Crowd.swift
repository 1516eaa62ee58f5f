// Crowd: what there may be many of beside an operation, and the operations whose cost must not grow with it.

/// What a broker is full of while operations are counted. The topic is the one that they are about.
enum Crowd: String, CaseIterable {
    /// Of the topic: they read, and have all credit.
    case subscribers
    /// Of the topic, without credit: messages wait for them until they are dropped.
    case unasked
    /// Of the topic, with overflow=block: they read, and have all credit.
    case block
    /// Of the topic, with overflow=block: a message waits for each, and there is room for none.
    case full
    /// Other topics, one subscription each.
    case topics
    /// Other topics, with one subscription each that is full.
    case fullTopics = "full-topics"
    /// Of publishers of the topic who publish nothing.
    case channels
    /// Of publishers of the topic, who are one user and wait until it may publish more.
    case waiting
    /// Subscriptions of another topic, on the connection that makes the requests.
    case streams
    /// Subscriptions of another topic over gRPC, 100 on a connection.
    case calls
    /// They have asked for nothing.
    case connections
    /// Connections without a socket that may be resumed, with a subscription of another topic each.
    case sessions
    /// One connection each.
    case users
    /// Messages that the topic retains.
    case retained

    var title: String {
        switch self {
        case .subscribers: "subscribers of the topic"
        case .unasked: "subscribers of the topic, without credit"
        case .block: "`block` subscribers of the topic"
        case .full: "`block` subscribers of the topic, all full"
        case .topics: "topics, one subscription each"
        case .fullTopics: "topics, one full `block` subscription each"
        case .channels: "idle channels of the topic"
        case .waiting: "channels of one user, at its rate limit"
        case .streams: "streams of one connection"
        case .calls: "gRPC calls, 100 on a connection"
        case .connections: "idle connections"
        case .sessions: "sessions without a socket"
        case .users: "users, one connection each"
        case .retained: "retained messages of the topic"
        }
    }
}

/// What is counted. Each is one turn of the loop, but for ticks.
enum Operation: String, CaseIterable {
    /// REQUEST_STREAM, the topic having messages or not.
    case join
    case joinBlock = "join-block"
    /// REQUEST_N of a subscription for which a message waits; of the one that holds publishers back, for `block`.
    case request
    case requestBlock = "request-block"
    /// CANCEL of a subscription.
    case leave
    case leaveBlock = "leave-block"
    /// The same by `$SYS.subscription.close`.
    case cut
    /// REQUEST_CHANNEL, and CANCEL of it.
    case open
    case cancel
    /// A fire publish, an item of a channel, and a publish that is answered.
    case publish
    case item
    case acknowledge
    /// A new connection with SETUP, and the end of one with two subscriptions and a channel.
    case connect
    case close
    /// A quarter of a second in which nothing happens, of one second.
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

// Case: what to run, on which systems, and what to compare.

struct Case {
    var name: String
    /// A description for the table.
    var title: String
    /// The contenders; the others are compared with the first.
    var contenders: [Contender]
    var kind: Kind
    /// The metric whose ratios are reported.
    var compared: Metric
    var goals: [Goal] = []

    enum Kind {
        case throughput(Throughput)
        case latency(Latency)
        /// HTTP/2 requests made by h2load.
        case requests(Requests)
        /// Publishes that are acknowledged one by one.
        case acknowledged(Acknowledged)
        /// Subscribers that join with a window and request everything retained.
        case retained(messages: Int, subscribers: Int, window: Int, payload: Int)
        /// Subscribers that request a long history, and latencies of another topic.
        case joiners(Joiners)
        /// Starting with this many stored topics.
        case start(topics: Int)
        /// A topic full of retained messages, all read by the library in the way that the contender specifies.
        case iteration(messages: Int, payload: Int)
        /// One topic at full speed next to the contender's other topics, compared with the same broker when those are
        /// idle.
        case topics(payload: Int)
        /// One publisher at full speed, which sends to many topics in turn. With the contender's other topics, which
        /// match too, and other patterns.
        case patterns(Patterns)
        /// Subscribers of a pattern with windows, and quiet topics without and with a busy one.
        case fairness(Patterns)
        /// Acknowledged publishes one at a time, next to the contender's connections that subscribe and cancel.
        case churn
        /// Messages published at one node, or server, of a cluster and delivered at another, once they are stored.
        case cluster(Latency)
        /// This many shared topics of one message each, and a node that joins all of them.
        case sharedTopics(Int)
        /// Idle connections with one subscription each.
        case idle(connections: Int)
    }
}

/// Publishers at full speed.
struct Throughput {
    var topics = 1
    /// Per topic.
    var subscribers: Int
    var payload = 128
    /// Whether each subscriber uses a different RSocket stream id.
    var ownStreams = false
    var window: Int?

    /// How far a publisher may be ahead of the slowest subscriber: 1 MiB of payload, but at least 64 and at most 8,192
    /// messages.
    var lag: Int { max(64, min(8192, (1 << 20) / payload)) }

    var subscriptions: [Subscription] {
        (0..<(topics * subscribers)).map { index in
            var subscription = Subscription(topic: index / subscribers, window: window)
            if ownStreams { subscription.stream = 1 + 2 * UInt32(index) }
            return subscription
        }
    }
}

/// Topics, and subscribers that want all of them.
struct Patterns {
    var topics: Int
    var subscribers: Int
    var payload = 128
    var window: Int?
}

/// Acknowledged publishes, a fixed number of them in flight.
struct Acknowledged {
    var inFlight: Int
    /// Published to in turn.
    var topics = 1
    var payload = 128
    /// Whether there is a subscriber, which must receive everything.
    var hasSubscriber = false
}

/// Subscribers that join a topic at once and request all of its messages, next to another topic with one subscriber.
struct Joiners {
    var messages: Int
    var count: Int
    var payload = 128
    /// Messages per second of the other topic.
    var rate = 1000.0
}

/// One topic whose messages carry the time at which they were due.
struct Latency {
    enum Schedule {
        /// Messages per second, each sent when it is due, whatever happened to earlier ones.
        case rate(Double)
        /// Like `rate`, at half the rate that NATS reaches at full speed with as many subscribers in this run.
        case halfOfNATS
        /// The next message is sent once all subscribers have received the previous one.
        case oneInFlight
    }

    var subscribers: Int
    var payload = 128
    var schedule: Schedule
}

// Case: what is run, on which systems, and what of it is compared.

struct Case {
    var name: String
    /// What it is, for the table.
    var title: String
    /// The first is the one that the others are compared with.
    var contenders: [Contender]
    var kind: Kind
    /// The figure whose ratios are told.
    var compared: Metric
    var goals: [Goal] = []

    enum Kind {
        case throughput(Throughput)
        case latency(Latency)
        /// Requests of HTTP/2, made by h2load.
        case requests(Requests)
        /// Publishes that are answered one by one, so many of them in flight.
        case acknowledged(inFlight: Int, payload: Int)
        /// Subscribers that join with a window and want everything retained.
        case retained(messages: Int, subscribers: Int, window: Int, payload: Int)
        /// A topic full of retained messages, all of which the library takes as the contender says.
        case iteration(messages: Int, payload: Int)
        /// One topic at full speed, and its broker at rest, beside the contender's other topics.
        case topics(payload: Int)
        /// Acknowledged publishes one at a time, beside the contender's connections that subscribe and cancel.
        case churn
        /// Connections with one subscription each, on which nothing happens.
        case idle(connections: Int)
    }
}

/// Publishers at full speed.
struct Throughput {
    var topics = 1
    /// Of each topic.
    var subscribers: Int
    var payload = 128
    /// Each subscriber on an RSocket stream id of its own.
    var ownStreams = false
    var window: Int?

    /// How far a publisher may be ahead of the slowest subscriber: 1 MiB of payload, and 64 to 8,192 messages.
    var lag: Int { max(64, min(8192, (1 << 20) / payload)) }

    var subscriptions: [Subscription] {
        (0..<(topics * subscribers)).map { index in
            var subscription = Subscription(topic: index / subscribers, window: window)
            if ownStreams { subscription.stream = 1 + 2 * UInt32(index) }
            return subscription
        }
    }
}

/// One topic whose messages carry the time at which they were to be sent.
struct Latency {
    enum Schedule {
        /// Messages per second, sent when they are due, whatever has become of those before.
        case rate(Double)
        /// The same at half of the rate that NATS carries at full speed with as many subscribers, in this run.
        case halfOfNATS
        /// The next once all have received the one before.
        case oneInFlight
    }

    var subscribers: Int
    var payload = 128
    var schedule: Schedule
}

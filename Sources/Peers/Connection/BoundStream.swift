// BoundStream: what a stream of a connection is bound to in the engine: a subscriber, a publisher, a control call or a
// list. It is owned by the connection's shard.

class BoundStream {
    enum Kind { case subscriber, pattern, publisher, call, listStream }

    let kind: Kind
    let connection: Connection
    let stream: UInt32
    let handle: Handle
    /// On an HTTP connection, the exchange that the stream belongs to, while the two are bound to each other.
    var exchange: Exchange?
    /// The user that opened the stream.
    var principal = Principal.nobody
    /// The meter of the stream's user.
    var rateLimit: UserRateLimit?
    /// Whether the stream is a subscription or a channel. Other streams end with their response.
    var isLasting: Bool {
        isSubscription || kind == .publisher && asPublisher.isChannel
    }
    /// Whether the stream is a subscription to a topic or to a pattern.
    var isSubscription: Bool { kind == .subscriber || kind == .pattern }
    /// The stream's index in `connection.streams`.
    var place = 0

    // The stream as its concrete type, according to `kind`.
    var asSubscriber: Subscriber {
        assert(kind == .subscriber)
        return unsafeDowncast(self, to: Subscriber.self)
    }
    var asPattern: PatternSubscription {
        assert(kind == .pattern)
        return unsafeDowncast(self, to: PatternSubscription.self)
    }
    var asPublisher: Publisher {
        assert(kind == .publisher)
        return unsafeDowncast(self, to: Publisher.self)
    }
    var asListStream: ListStream {
        assert(kind == .listStream)
        return unsafeDowncast(self, to: ListStream.self)
    }

    init(kind: Kind, connection: Connection, stream: UInt32, handle: Handle) {
        self.kind = kind
        self.connection = connection
        self.stream = stream
        self.handle = handle
    }

    /// Whether a message for the stream will be encoded when a turn has time for that.
    var isAwaitingForm: Bool {
        switch kind {
        case .subscriber: asSubscriber.awaitsForm
        case .pattern: asPattern.awaitsForm
        case .publisher, .call, .listStream: false
        }
    }

    /// The user of the stream's requests now: permissions may have changed since the stream was opened.
    var currentPrincipal: Principal { exchange?.principal ?? connection.principal ?? .nobody }
    /// Whether the stream has its own body. Over RSocket, all responses are in the connection's output.
    var hasBody: Bool { exchange != nil }
    /// Bytes of responses and messages waiting in the stream's own body.
    var bodyCount: Int { exchange?.body.count ?? 0 }
    /// Bytes of responses that the peer has not read yet.
    var unreadAnswers: Int { exchange?.body.count ?? connection.output.controlCount }
    /// Whether the peer reads nothing, or has to read the stream's body first.
    var isHeldUp: Bool { exchange.map { $0.isStalled || !$0.body.isEmpty } ?? false }
}

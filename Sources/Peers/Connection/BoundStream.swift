// BoundStream: what stands behind a stream of a connection in the engine – a subscriber, a publisher, a control call or
// a list. Owned by the connection's shard.

class BoundStream {
    enum Kind { case subscriber, publisher, call, listing }

    let kind: Kind
    let connection: Connection
    let stream: UInt32
    let handle: Handle
    /// Of an HTTP connection: the request that it stands behind, as long as it does.
    var exchange: Exchange?
    /// Who opened it.
    var principal = Principal.nobody
    /// Where its user is counted.
    var meter: Meter?
    /// A subscription or a channel; the others end with their answer.
    var isLasting: Bool {
        kind == .subscriber || kind == .publisher && asPublisher.isChannel
    }
    /// Its place in `connection.streams`.
    var place = 0

    // It, as what its kind says that it is.
    var asSubscriber: Subscriber {
        assert(kind == .subscriber)
        return unsafeDowncast(self, to: Subscriber.self)
    }
    var asPublisher: Publisher {
        assert(kind == .publisher)
        return unsafeDowncast(self, to: Publisher.self)
    }
    var asListing: Listing {
        assert(kind == .listing)
        return unsafeDowncast(self, to: Listing.self)
    }

    init(kind: Kind, connection: Connection, stream: UInt32, handle: Handle) {
        self.kind = kind
        self.connection = connection
        self.stream = stream
        self.handle = handle
    }

    /// Who asks on it now: permissions may have changed since it was opened.
    var currentPrincipal: Principal { exchange?.principal ?? connection.principal ?? .nobody }
    /// It has a body of its own; answers over RSocket all stand in the connection's output.
    var hasBody: Bool { exchange != nil }
    /// Bytes of answers and messages that wait in the stream's own body.
    var bodyCount: Int { exchange?.body.count ?? 0 }
    /// Bytes of answers that its peer has not read yet.
    var unreadAnswers: Int { exchange?.body.count ?? connection.output.controlCount }
    /// Its peer takes nothing, or has to take its body first.
    var isHeldUp: Bool { exchange.map { $0.isStalled || !$0.body.isEmpty } ?? false }
}

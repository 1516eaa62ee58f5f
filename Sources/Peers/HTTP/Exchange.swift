// Exchange: a request over HTTP and its response, on one stream.

import HTTP2

/// A request and its response on one stream.
final class Exchange {
    /// The kind of client: gRPC, or any other.
    enum Form {
        case call(GRPCMethod)
        case plain(PlainExchange)
    }

    /// What must be known about a call in addition to its method, once its first message has arrived.
    enum Role: Equatable {
        case other
        /// A publishing stream whose end is also the topic's.
        case completesTopic
        /// Health's Watch, and the last status sent.
        case watch(HealthStatus)
        /// One of the connection's `reflections`.
        case reflection
    }

    /// The state of the response.
    ///
    ///     pending ──head──▶ begun ──end──▶ finished
    ///                         └──response complete before the request──▶ lingering ──▶ finished
    enum ResponsePhase {
        /// Nothing has been sent.
        case pending
        /// The head has been sent.
        case begun
        /// Like `finished`, but the end is held back until the client has sent everything, or for a while.
        case lingering
        /// Complete except for what is in `body`.
        case finished
    }

    let stream: UInt32
    let handle: Handle
    unowned(unsafe) let connection: Connection
    let form: Form
    var request: ExchangeRequest
    private(set) var response = ResponsePhase.pending
    /// The unsent part of the response.
    var body = BodyQueue()
    /// What the connection has counted of `body`.
    var counted = BodyAccount.Share()
    /// Whether the peer's windows are closed; the session reports when they open.
    var isStalled = false
    var role = Role.other
    /// The engine's stream for the request, once it has been accepted. Removed when that stream ends.
    var bound: BoundStream?
    /// The user of the request, once known.
    var principal: Principal?
    var rateLimit: UserRateLimit?
    /// When the exchange is refused because it took too long, on the monotonic clock.
    var deadline: UInt64?

    init(stream: UInt32, handle: Handle, connection: Connection, form: Form, limit: Int) {
        self.stream = stream
        self.handle = handle
        self.connection = connection
        self.form = form
        request = ExchangeRequest(limit: limit)
    }

    /// The method of a gRPC call; nil for other exchanges.
    var method: GRPCMethod? { if case .call(let method) = form { method } else { nil } }
    /// The plain HTTP part; nil for a gRPC call.
    var plain: PlainExchange? { if case .plain(let plain) = form { plain } else { nil } }

    // The response

    /// Whether the response is complete except for what is in `body`.
    var isFinished: Bool { response == .finished || response == .lingering }
    /// Bytes of `body` that the peer's windows did not allow, as counted in the connection's total.
    var beyond: Int { counted.beyond }

    /// Notes that the head is sent.
    func begin() {
        assert(response == .pending)
        response = .begun
    }

    /// Withdraws a head that was not fetched yet.
    func takeBack() {
        assert(response == .begun)
        body.removeAll()
        response = .pending
    }

    /// Ends the response: nothing more is added to `body`. Further calls have no effect.
    func finish(lingering: Bool = false) {
        guard !isFinished else { return }
        response = lingering ? .lingering : .finished
        connection.http?.exchanges.noteFinished()
    }

    func endLingering() {
        assert(response == .lingering)
        response = .finished
    }

    // The request

    /// Whether a message from the client has arrived.
    var hasMessage: Bool { request.deframer.count > 0 }

    /// Bytes of unprocessed messages that the exchange holds.
    var unfinished: HeldBytes {
        let content = plain?.content.capacity ?? 0
        return HeldBytes(
            bytes: request.deframer.heldBytes + request.backlog.count + content,
            memory: request.deframer.heldMemory + request.backlog.capacity + content)
    }

    /// How many messages the exchange's subscription has lost since the last one delivered; 0 if there is no
    /// subscription.
    var dropped: UInt64 {
        if let bound, bound.kind == .pattern { return bound.asPattern.sums.droppedSinceDelivery }
        return subscriber?.known { $0.droppedSinceDelivery } ?? 0
    }

    /// Nil if the exchange is not bound to a subscription to one topic.
    var subscriber: Subscriber? {
        guard let bound, bound.kind == .subscriber else { return nil }
        return bound.asSubscriber
    }
}

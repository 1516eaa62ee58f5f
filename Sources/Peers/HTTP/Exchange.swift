// Exchange: a request over HTTP and its response, on one stream.

import HTTP2

/// A request and its response on one stream.
final class Exchange {
    /// Whom it is with: a client of gRPC, or any other.
    enum Form {
        case call(GRPCMethod)
        case plain(PlainExchange)
    }

    /// What has to be known of a call beside its method, once its first message has come.
    enum Role: Equatable {
        case other
        /// A publishing stream whose end is the topic's.
        case completesTopic
        /// Health's Watch, and its last answer.
        case watch(HealthStatus)
        /// One of the connection's `reflections`.
        case reflection
    }

    /// How far the response is.
    ///
    ///     pending ──head──▶ begun ──end──▶ finished
    ///                         └──answered before the client has sent all──▶ lingering ──▶ finished
    enum ResponsePhase {
        /// Nothing of it was sent.
        case pending
        /// Its head is sent.
        case begun
        /// As `finished`, but the end is kept back until the client has sent all, or for a while.
        case lingering
        /// Complete but for what `body` holds.
        case finished
    }

    let stream: UInt32
    let handle: Handle
    unowned(unsafe) let connection: Connection
    let form: Form
    var request: ExchangeRequest
    private(set) var response = ResponsePhase.pending
    /// What is still to be sent of the response.
    var body = BodyQueue()
    /// What the connection has counted of `body`.
    var counted = BodyAccount.Share()
    /// The peer's windows are closed; the session tells when they open.
    var isStalled = false
    var role = Role.other
    /// What stands behind it in the engine, once the request has been understood. Dropped when that ends.
    var bound: BoundStream?
    /// Who makes the request, once that is known.
    var principal: Principal?
    var meter: Meter?
    /// When it is refused for having taken too long, on the monotonic clock.
    var deadline: UInt64?

    init(stream: UInt32, handle: Handle, connection: Connection, form: Form, limit: Int) {
        self.stream = stream
        self.handle = handle
        self.connection = connection
        self.form = form
        request = ExchangeRequest(limit: limit)
    }

    /// The method of a gRPC call, nil if it is none.
    var method: GRPCMethod? { if case .call(let method) = form { method } else { nil } }
    /// Nil if it is a gRPC call.
    var plain: PlainExchange? { if case .plain(let plain) = form { plain } else { nil } }

    // The response

    /// The response is complete but for what `body` holds.
    var isFinished: Bool { response == .finished || response == .lingering }
    /// Bytes of `body` that the peer's windows did not allow, as they are counted with the connection's.
    var beyond: Int { counted.beyond }

    /// The head goes out.
    func begin() {
        assert(response == .pending)
        response = .begun
    }

    /// The head was not fetched yet, and is not to be it.
    func takeBack() {
        assert(response == .begun)
        body.removeAll()
        response = .pending
    }

    /// Nothing more is put into `body`. Done more than once it does nothing.
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

    /// A message of the client's has come.
    var hasMessage: Bool { request.deframer.count > 0 }

    /// What it holds of messages that are not dealt with.
    var unfinished: HeldBytes {
        let content = plain?.content.capacity ?? 0
        return HeldBytes(
            bytes: request.deframer.heldBytes + request.backlog.count + content,
            memory: request.deframer.heldMemory + request.backlog.capacity + content)
    }

    /// How many messages its subscription lost since the last one delivered; 0 where there is none.
    var dropped: UInt64 { subscriber?.known { $0.droppedSinceDelivery } ?? 0 }

    /// Nil where it is none's.
    var subscriber: Subscriber? {
        guard let bound, bound.kind == .subscriber else { return nil }
        return bound.asSubscriber
    }
}

// HTTPResponses: what the engine sends to a gRPC peer, on one exchange. PlainResponses does this for other clients.

import Bytes
import ForebayWire
import HTTP2
import Replay

extension HTTPTransport {
    /// Sends an entire response in its head; `:status` is among the fields.
    func answer(_ stream: UInt32, _ fields: [(name: String, value: String)]) {
        let status = fields.first { $0.name == ":status" }.flatMap { Int($0.value) } ?? 200
        respond(stream, status: status, fields: HTTPFields(fields), complete: true)
    }
}

extension HTTPFields {
    /// Without `:status`.
    fileprivate init(_ list: [(name: String, value: String)]) {
        self.init()
        for (name, value) in list where name != ":status" { add(name, value) }
    }

    fileprivate static let response = HTTPFields(GRPCHeads.response)
}

final class HTTPResponses: ShardPart {
    let connections: ConnectionTable
    let subscriptions: SubscriptionTable
    let relief: MemoryRelief
    let peers: PeerState

    init(
        _ context: ShardContext, _ connections: ConnectionTable, _ subscriptions: SubscriptionTable,
        _ relief: MemoryRelief, _ peers: PeerState
    ) {
        self.connections = connections
        self.subscriptions = subscriptions
        self.relief = relief
        self.peers = peers
        super.init(context)
    }

    /// Sends the head of the response to an accepted call, which clients wait for.
    func begin(_ exchange: Exchange) {
        guard exchange.response == .pending, let http = exchange.connection.http else { return }
        exchange.begin()
        http.transport.respond(exchange.stream, status: 200, fields: HTTPFields.response, complete: false)
        connections.flush(exchange.connection)
    }

    /// Sends a message, which `write` appends after its prefix.
    func sendMessage(_ exchange: Exchange, _ write: (inout ByteBuffer) -> Void) {
        guard !exchange.isFinished, let http = exchange.connection.http else { return }
        begin(exchange)
        exchange.body.append(write)
        http.weigh(exchange)
        http.transport.bodyAvailable(exchange)
        connections.flush(exchange.connection)
    }

    /// Ends a call, after what is still to be sent.
    func finish(
        _ exchange: Exchange, _ status: GRPCStatus, _ message: String = "", end: SubscriptionEnd? = nil,
        dropped: UInt64 = 0
    ) {
        guard !exchange.isFinished, let http = exchange.connection.http else { return }
        // Messages may have been handed over before the response began.
        if !exchange.body.isEmpty { begin(exchange) }
        let isBegun = exchange.response == .begun
        exchange.finish()
        http.release(exchange)
        if isBegun {
            let trailers = GRPCHeads.trailers(status, message, end: end, dropped: dropped)
            http.transport.finish(exchange, trailers: HTTPFields(trailers))
        } else {
            http.transport.answer(exchange.stream, GRPCHeads.trailersOnly(status, message, end: end, dropped: dropped))
        }
        connections.flush(exchange.connection)
    }

    func finish(_ exchange: Exchange, _ refusal: Refusal) {
        if let plain = exchange.plain { return finish(exchange, plain, refusal) }
        var end: SubscriptionEnd?
        if refusal.word == .topicFailed { end = .failed }
        if refusal.word == .overflow { end = .overflow }
        finish(exchange, refusal.status, refusal.message, end: end, dropped: exchange.dropped)
        count(refusal.word)
    }

    func tooLarge(_ count: Int) -> GRPCError {
        reached(.payload)
        return GRPCError(
            .resourceExhausted, "The payload has \(count) bytes; at most \(limits.payload) are allowed.")
    }

    /// An id for a stream that is known only to the client that receives it.
    func newStreamID() -> SubscriptionID {
        SubscriptionID(high: random(), low: random() & ~SubscriptionID.shardBits | UInt64(index))
    }

    /// Whether memory is full and the connection has more requests in progress than it needs to make progress.
    func hasManyRequests(_ http: HTTPConnection) -> Bool {
        http.requests > Limits.unwrittenAnswers && relief.isPendingFull
    }

    // Health

    /// Notifies the clients that watch the broker's health that it begins to drain.
    func notifyWatchers(_ http: HTTPConnection) {
        for exchange in http.exchanges.all where exchange.role == .watch(.serving) {
            exchange.role = .watch(.notServing)
            sendMessage(exchange) { Health.append(.notServing, to: &$0) }
        }
    }
}

// PlainResponses: what the engine sends to a plain HTTP client, on one exchange: a response, or a stream's head and its
// end.

import Bytes
import ForebayWire
import HTTP2
import Replay

extension PlainExchange {
    /// The format of the exchange's stream.
    var format: StreamFormat { subscribed?.format ?? .eventStream }

    func dropContent() {
        content.removeAll()
        content.shrink()
    }
}

extension HTTPResponses {
    // Responses

    /// Sends an entire response, which ends the exchange.
    func answer(_ exchange: Exchange, _ answer: PlainAnswer) {
        guard exchange.response == .pending, let http = exchange.connection.http else { return }
        exchange.begin()
        let isAwaited = http.transport.isAwaited(exchange)
        exchange.deadline = nil
        http.release(exchange)
        var answer = answer
        // Requests for credit are always executed, because they release waiting messages.
        if hasManyRequests(http), exchange.plain?.request.isOfSubscription == true { answer.body = [] }
        let hasBody = !answer.body.isEmpty && !answer.omitsBody
        // Over HTTP/1.1 a response without a body is also written later.
        let endsLater = hasBody || http.http1 != nil
        http.transport.respond(exchange, answer, heads: &peers.answerHeads, complete: !hasBody, now: moment)
        if hasBody { send(exchange) { $0.append(answer.body) } }
        if isAwaited, endsLater {
            linger(exchange, http)
        } else if endsLater {
            end(exchange)
        } else {
            exchange.finish()
            connections.flush(exchange.connection)
        }
    }

    func refuse(_ exchange: Exchange, _ plain: PlainExchange, _ problem: Problem) {
        if problem.kind == .tooLarge { reached(.payload) }
        if problem.kind == .headersTooLarge { reached(plain.call == nil ? .headers : .metadata) }
        answer(exchange, peers.plainProtocol.answer(problem, to: plain.request))
        count(problem.word)
    }

    /// Fails a request or a stream.
    func finish(_ exchange: Exchange, _ plain: PlainExchange, _ refusal: Refusal) {
        guard !exchange.isFinished else { return }
        guard exchange.response == .begun else { return refuse(exchange, plain, refusal.problem) }
        count(refusal.word)
        if refusal.endsConnection || refusal.word == .draining || refusal.word == .unavailable {
            // The subscription has not ended: it can be resumed elsewhere or later.
            if draining { send(exchange) { plain.format.appendDraining(into: &$0) } }
        } else {
            let loss = StreamLoss(dropped: exchange.dropped, restarts: exchange.subscriber?.hasUnreportedGap ?? false)
            send(exchange) {
                plain.format.appendFailed(after: plain.last, message: refusal.message, loss, into: &$0)
            }
        }
        end(exchange)
    }

    /// Finishes a response, and holds back its end until the request ends, or until the client has had time to read the
    /// response. A response that ends before its request resets the stream, and clients such as curl then discard what
    /// they received. HTTP/1.1 has no streams to reset, only the connection: there the entire response is held back.
    private func linger(_ exchange: Exchange, _ http: HTTPConnection) {
        exchange.finish(lingering: true)
        http.limitTime(of: exchange, to: limits.closeTime, now: moment.monotonic)
    }

    func endLingering(_ exchange: Exchange) {
        exchange.endLingering()
        exchange.deadline = nil
        end(exchange)
    }

    // Streams

    /// Sends the head of a subscription's stream.
    func begin(_ exchange: Exchange, _ plain: PlainExchange, of subscriber: Subscriber) {
        guard exchange.response == .pending else { return }
        let id = newStreamID()
        subscriptions.name(subscriber, id)
        plain.last.epoch = subscriber.view.epoch
        let position = subscriber.options.opening ? subscriber.opening : nil
        begin(exchange, plain, id, at: position, resumesThere: position != nil && subscriber.beginsWithoutLoss)
    }

    /// The same for a subscription to a pattern.
    func begin(_ exchange: Exchange, _ plain: PlainExchange, of subscription: PatternSubscription) {
        guard exchange.response == .pending else { return }
        let id = newStreamID()
        subscriptions.name(subscription, id)
        begin(exchange, plain, id, at: nil, resumesThere: false)
    }

    private func begin(
        _ exchange: Exchange, _ plain: PlainExchange, _ id: SubscriptionID, at position: OpeningPosition?,
        resumesThere: Bool
    ) {
        guard let http = exchange.connection.http else { return }
        exchange.begin()
        plain.lastSign = moment.monotonic
        let head = peers.plainProtocol.streamHead(plain.format, id: id, to: plain.request)
        http.transport.respond(exchange, head, heads: &peers.answerHeads, complete: false, now: moment)
        if plain.format == .eventStream {
            http.heartbeats.note(moment.monotonic + limits.heartbeat)
        }
        send(exchange) { plain.format.appendOpening(id, at: position, resumesThere: resumesThere, into: &$0) }
    }

    /// Ends a stream whose topic has completed, after all messages are written.
    func complete(_ exchange: Exchange, _ plain: PlainExchange, _ loss: StreamLoss) {
        send(exchange) { plain.format.appendComplete(after: plain.last, loss, into: &$0) }
        end(exchange)
    }

    /// Notifies the client of a pattern that a topic has ended.
    func report(_ end: EndNotice, _ exchange: Exchange, _ plain: PlainExchange) {
        plain.lastSign = moment.monotonic
        send(exchange) { plain.format.append(end, into: &$0) }
    }

    /// Sends keepalives on streams that have been silent for long. A stream with something left to send needs none.
    func sendHeartbeats(_ http: HTTPConnection, now: Instant) {
        guard http.heartbeats.take(now: now.monotonic) else { return }
        for exchange in http.exchanges.all where exchange.response == .begun {
            guard let plain = exchange.plain, plain.format == .eventStream else { continue }
            if now.monotonic - plain.lastSign >= limits.heartbeat {
                plain.lastSign = now.monotonic
                work.spent += Work.event
                if exchange.body.isEmpty { send(exchange) { plain.format.appendHeartbeat(into: &$0) } }
            }
            http.heartbeats.note(plain.lastSign + limits.heartbeat)
        }
    }

    // Bodies

    /// Appends to the body what `write` writes.
    private func send(_ exchange: Exchange, _ write: (inout ByteBuffer) -> Void) {
        exchange.body.append(write)
        exchange.connection.http?.weigh(exchange)
        exchange.connection.http?.transport.bodyAvailable(exchange)
        connections.flush(exchange.connection)
    }

    /// Ends the body after what is queued.
    private func end(_ exchange: Exchange) {
        exchange.finish()
        exchange.connection.http?.transport.finish(exchange, now: moment)
        connections.flush(exchange.connection)
    }
}

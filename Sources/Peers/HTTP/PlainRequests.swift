// PlainRequests: turns plain HTTP requests into calls to the engine. PlainProtocol parses a request; here it becomes a
// subscription, a publish, or a grant of credit.

import Bytes
import ForebayWire
import HTTP2
import Replay
import RSocket

extension SubscriptionID {
    /// The low bits of a subscription's id, which name its shard; the others cannot be guessed.
    static let shardBits: UInt64 = 0xFFFF
}

final class PlainRequests: ShardPart {
    let streams: StreamTable
    let connections: ConnectionTable
    let relief: MemoryRelief
    let peers: PeerState
    let authorization: Authorization
    let reading: Reading
    let httpResponses: HTTPResponses
    let subscribing: Subscribing
    let publishing: Publishing
    let calls: ControlRequests
    let httpLogins: HTTPLogins
    let httpCalls: HTTPCalls

    init(
        _ context: ShardContext, _ streams: StreamTable, _ connections: ConnectionTable, _ relief: MemoryRelief,
        _ peers: PeerState, _ authorization: Authorization, _ reading: Reading, _ httpResponses: HTTPResponses,
        _ subscribing: Subscribing, _ publishing: Publishing, _ calls: ControlRequests, _ httpLogins: HTTPLogins,
        _ httpCalls: HTTPCalls
    ) {
        self.streams = streams
        self.connections = connections
        self.relief = relief
        self.peers = peers
        self.authorization = authorization
        self.reading = reading
        self.httpResponses = httpResponses
        self.subscribing = subscribing
        self.publishing = publishing
        self.calls = calls
        self.httpLogins = httpLogins
        self.httpCalls = httpCalls
        super.init(context)
    }

    func plainRequest(
        _ connection: Connection, _ http: HTTPConnection, _ stream: UInt32, _ request: consuming PlainRequest,
        refusedFor problem: Problem? = nil, complete: Bool, now: Instant
    ) {
        // Parsed first, so that the request, a dozen strings, is moved into its exchange without a copy.
        let call = problem.map { .failure($0) } ?? call(request)
        let plain = PlainExchange(request)
        let exchange = http.open(stream, connection, .plain(plain), timeout: nil, now: now.monotonic, limit: 1)
        exchange.request.isHalfClosed = complete
        do throws(Problem) {
            let call = try call.get()
            plain.call = call
            guard try isKnown(exchange, plain, call, http) else { return }
            try perform(call, exchange, plain, http, now: now)
        } catch {
            httpResponses.refuse(exchange, plain, error)
        }
    }

    /// Whether the request's user is known or not needed. Browsers send OPTIONS without credentials.
    private func isKnown(
        _ exchange: Exchange, _ plain: PlainExchange, _ call: PlainCall, _ http: HTTPConnection
    ) throws(Problem) -> Bool {
        if case .options = call { return true }
        do throws(Refusal) {
            return try httpLogins.identify(exchange, plain.request.authorization, http)
        } catch {
            throw error.problem
        }
    }

    /// Continues a request that waited for its login.
    func admit(_ exchange: Exchange, _ plain: PlainExchange, _ http: HTTPConnection, now: Instant) {
        guard let call = plain.call else { return }
        do throws(Problem) {
            try perform(call, exchange, plain, http, now: now)
        } catch {
            httpResponses.refuse(exchange, plain, error)
        }
    }

    private func call(_ request: PlainRequest) -> Result<PlainCall, Problem> {
        do throws(Problem) {
            return .success(try peers.plainProtocol.call(request))
        } catch {
            return .failure(error)
        }
    }

    private func perform(
        _ call: PlainCall, _ exchange: Exchange, _ plain: PlainExchange, _ http: HTTPConnection, now: Instant
    ) throws(Problem) {
        switch call {
        case .options(let allow):
            httpResponses.answer(exchange, peers.plainProtocol.answerOptions(allow: allow, to: plain.request))
        case .ended:
            httpResponses.answer(exchange, peers.plainProtocol.answerEmpty(to: plain.request))
        case .subscribe(let call):
            try asProblem { () throws(Refusal) in
                guard call.hasPositions else { return try subscribe(exchange, plain, call, now: now) }
                let options = try options(of: call)
                try subscribing.patterns.check(
                    call.topic, options, of: exchange.principal ?? .nobody, at: exchange.connection.peer)
                awaitBody(exchange, plain, http, now: now)
            }
        case .publish(let call):
            try asProblem { () throws(Refusal) in
                if draining { throw Refusal.draining }
                try authorization.checkPublish(to: call.topic)
                try authorization.expect(
                    .publish, call.topic, of: exchange.principal ?? .nobody, at: exchange.connection.peer)
            }
            try checkMetadata(of: call)
            awaitBody(exchange, plain, http, now: now)
        case .request(let id, let n):
            credit(exchange, n, to: id, now: now)
        case .publisher(let topic, let id):
            try asProblem { () throws(Refusal) in
                try calls.call(
                    exchange.connection, stream: exchange.stream, ControlRequest(publisher: id, of: topic), now: now)
            }
        }
    }

    /// Continues with `bodyEnded`.
    private func awaitBody(_ exchange: Exchange, _ plain: PlainExchange, _ http: HTTPConnection, now: Instant) {
        if exchange.request.isHalfClosed { return bodyEnded(exchange, plain, now: now) }
        http.limitTime(of: exchange, to: limits.reassemblyTime, now: now.monotonic)
        guard plain.request.expectsContinue else { return }
        http.transport.wantBody(exchange)
        connections.flush(exchange.connection)
    }

    private func asProblem(_ body: () throws(Refusal) -> Void) throws(Problem) {
        do throws(Refusal) { try body() } catch { throw error.problem }
    }

    // Subscribing

    private func options(of call: SubscribeCall) throws(Refusal) -> SubscribeOptions {
        if draining { throw Refusal.draining }
        if BrokerList(rawValue: call.topic) != nil {
            throw .invalid("'\(call.topic)' is a list, which HTTP does not offer; use RSocket or gRPC.")
        }
        let route = Route(name: call.topic, options: call.options.map { ($0.name, $0.value) })
        // Credit over HTTP always accumulates, so there is no option for how it counts.
        try route.expect(SubscribeOptions.names.filter { $0 != "demand" } + ["request"], for: "a subscription")
        return try SubscribeOptions(route)
    }

    private func subscribe(
        _ exchange: Exchange, _ plain: PlainExchange, _ call: SubscribeCall, from positions: [ResumePosition] = [],
        now: Instant
    ) throws(Refusal) {
        let options = try options(of: call)
        if call.isHead, TopicName.isPattern(call.topic) {
            try subscribing.patterns.check(
                call.topic, options, of: exchange.principal ?? .nobody, at: exchange.connection.peer)
            httpResponses.answer(exchange, peers.plainProtocol.streamHead(call.format, id: nil, to: plain.request))
            return
        }
        if call.isHead {
            try SystemTopic.check(call.topic, options)
            if !TopicName.isSystem(call.topic), let fault = TopicName.fault(call.topic) { throw .invalid(fault) }
            try authorization.expectSubscribe(
                to: call.topic, options, of: exchange.principal ?? .nobody, at: exchange.connection.peer)
            httpResponses.answer(exchange, peers.plainProtocol.streamHead(call.format, id: nil, to: plain.request))
            return
        }
        // Clients that subscribe and leave at once must cost little.
        if exchange.connection.http?.http1?.hasEnded == true {
            throw .invalid(
                "The client has closed its side of the connection, which ends a subscription; keep it open while you "
                    + "want messages.")
        }
        plain.subscribed = call
        try subscribing.subscribe(
            exchange.connection, stream: exchange.stream, initialN: call.demand, to: call.topic, options,
            from: positions, now: now)
    }

    // Credit

    private func credit(_ exchange: Exchange, _ n: UInt32, to id: SubscriptionID, now: Instant) {
        let connection = exchange.connection
        let bound = streams.insert {
            Call(kind: .call, connection: connection, stream: exchange.stream, handle: $0)
        }
        connection.attach(bound)
        let shard = Int(id.low & SubscriptionID.shardBits)
        if shard == index || shard >= shards {
            calls.answer(streams.key(bound), subscribing.give(n, to: id, of: bound.principal.user, now: now))
        } else {
            send(.credit(streams.key(bound), id, n, user: bound.principal.user), to: shard)
        }
    }

    // Publishing

    private func checkMetadata(of call: PublishCall) throws(Problem) {
        peers.carriedMetadata.removeAll()
        call.appendMetadata(into: &peers.carriedMetadata)
        guard peers.carriedMetadata.count <= limits.metadata else {
            throw Problem(
                .headersTooLarge,
                "The message's content type and headers have \(peers.carriedMetadata.count) bytes; at most "
                    + "\(limits.metadata) are allowed.")
        }
    }

    /// Whether a request needs its body.
    private func needsBody(_ plain: PlainExchange) -> Bool {
        switch plain.call {
        case .publish: true
        case .subscribe(let call): call.hasPositions
        case .options, .ended, .request, .publisher, nil: false
        }
    }

    /// Takes more of a body, if it is needed.
    func take(_ bytes: UnsafeRawBufferPointer, for exchange: Exchange, _ plain: PlainExchange, _ http: HTTPConnection) {
        guard needsBody(plain) else { return }
        do throws(Problem) {
            try PlainBody.check(UInt64(plain.content.count + bytes.count), peers.plainProtocol.limits)
            let held = http.held.bytes + bytes.count
            guard held <= relief.shortReassembly ?? limits.reassembly else {
                throw reading.refuseUnfinished().problem
            }
            plain.content.append(bytes)
            http.count(exchange)
        } catch {
            httpResponses.refuse(exchange, plain, error)
        }
    }

    /// Handles the end of a request, which is now complete.
    func bodyEnded(_ exchange: Exchange, _ plain: PlainExchange, now: Instant) {
        if exchange.response == .lingering { return httpResponses.endLingering(exchange) }
        guard !exchange.isFinished, exchange.request.ticket == nil else { return }
        exchange.deadline = nil
        switch plain.call {
        case .publish(let call): publish(exchange, plain, call, now: now)
        case .subscribe(let call) where call.hasPositions: resume(exchange, plain, call, now: now)
        case .subscribe, .options, .ended, .request, .publisher, nil: break
        }
    }

    /// Subscribes from the positions in the body.
    private func resume(_ exchange: Exchange, _ plain: PlainExchange, _ call: SubscribeCall, now: Instant) {
        do throws(Refusal) {
            let positions = try parsePositions(plain.content.readable)
            try subscribe(exchange, plain, call, from: positions, now: now)
        } catch {
            httpResponses.finish(exchange, plain, error)
        }
        exchange.connection.http?.release(exchange)
    }

    private func publish(_ exchange: Exchange, _ plain: PlainExchange, _ call: PublishCall, now: Instant) {
        peers.carriedMetadata.removeAll()
        call.appendMetadata(into: &peers.carriedMetadata)
        exchange.request.isTaking = true
        do throws(Refusal) {
            try publishing.publish(
                exchange.connection, stream: exchange.stream,
                to: peers.target(named: call.topic, of: exchange.connection),
                call.isNumbered ? try? plain.request.publisherNumber() : nil,
                metadata: peers.carriedMetadata.isEmpty ? nil : peers.carriedMetadata.readable,
                payload: plain.content.readable,
                now: now)
        } catch {
            httpResponses.finish(exchange, plain, error)
        }
        // The message is in the topic, or waits there.
        exchange.request.isTaking = false
        exchange.connection.http?.release(exchange)
    }

    /// Handles a request that was not complete in time.
    func bodyLate(_ exchange: Exchange, now: Instant) {
        if exchange.response == .lingering { return httpResponses.endLingering(exchange) }
        // Over HTTP/1.1 the response is not held back any longer, as the connection ends after it.
        if let http = exchange.connection.http, let http1 = http.http1 {
            exchange.request.isHalfClosed = true
            // The exchange is a stream that was to begin after the body.
            if http1.takeBack() {
                httpCalls.leave(exchange, .cancelled, now: now)
                exchange.takeBack()
                http.weigh(exchange)
            }
        }
        let seconds = limits.reassemblyTime / Limits.second
        reached(.reassemblyTime)
        httpResponses.finish(
            exchange, Refusal(.timeout, "The message was not completed within \(seconds) s; send it faster."))
    }
}

// HTTPCalls: turns gRPC calls into calls to the engine, on the exchanges found by HTTPInputs. A call begins with its
// head; its messages contain the requests.

import Bytes
import ForebayWire
import HTTP2
import RSocket

final class HTTPCalls: ShardPart {
    let streams: StreamTable
    let relief: MemoryRelief
    let peers: PeerState
    let authorization: Authorization
    let reading: Reading
    let httpResponses: HTTPResponses
    let sender: MessageSender
    let ends: StreamEnds
    let subscribing: Subscribing
    let publishing: Publishing
    // Above
    unowned(unsafe) var httpAdmin: HTTPAdmin!

    init(
        _ context: ShardContext, _ streams: StreamTable, _ relief: MemoryRelief, _ peers: PeerState,
        _ authorization: Authorization, _ reading: Reading, _ httpResponses: HTTPResponses, _ sender: MessageSender,
        _ ends: StreamEnds, _ subscribing: Subscribing, _ publishing: Publishing
    ) {
        self.streams = streams
        self.relief = relief
        self.peers = peers
        self.authorization = authorization
        self.reading = reading
        self.httpResponses = httpResponses
        self.sender = sender
        self.ends = ends
        self.subscribing = subscribing
        self.publishing = publishing
        super.init(context)
    }

    /// Processes more bytes of a call's messages.
    func takeCall(_ bytes: UnsafeRawBufferPointer, for exchange: Exchange, _ http: HTTPConnection, now: Instant) {
        var rest = bytes
        exchange.request.isTaking = true
        defer {
            exchange.request.isTaking = false
            if exchange.isFinished { http.release(exchange) }
        }
        do throws(GRPCError) {
            if exchange.method?.takesOneMessage == true {
                try takeOnly(&rest, for: exchange, http, now: now)
            } else {
                while !exchange.isFinished, let message = try exchange.request.deframer.next(&rest) {
                    try receive(message, for: exchange, now: now)
                }
            }
            try checkHeld(exchange, http)
        } catch {
            refuse(exchange, error, now: now)
        }
    }

    /// Keeps bytes of a waiting call until it continues.
    func keep(_ bytes: UnsafeRawBufferPointer, of exchange: Exchange, _ http: HTTPConnection, now: Instant) {
        guard !exchange.isFinished else { return }
        exchange.request.keep(bytes)
        do throws(GRPCError) {
            try checkHeld(exchange, http)
        } catch {
            refuse(exchange, error, now: now)
        }
    }

    /// Updates and checks what an exchange holds of unprocessed messages.
    func checkHeld(_ exchange: Exchange, _ http: HTTPConnection) throws(GRPCError) {
        guard !exchange.isFinished else { return }
        http.count(exchange)
        if let due = exchange.request.limitMessage(to: limits.reassemblyTime, now: moment.monotonic) {
            http.deadlines.note(due)
        }
        // The message of PublishOne has been passed to its topic, which responds to it.
        if let publisher = exchange.bound as? Publisher, !publisher.isChannel { return }
        if http.held.bytes <= relief.shortReassembly ?? limits.reassembly { return }
        let refusal = reading.refuseUnfinished()
        throw refusal.grpcError
    }

    func halfClosed(_ exchange: Exchange, now: Instant) {
        guard !exchange.isFinished else { return }
        switch exchange.request.wait {
        case .login, .answer: return
        case .end, nil: break
        }
        do throws(GRPCError) {
            try exchange.request.deframer.finish()
            guard exchange.hasMessage else {
                throw GRPCError(.invalidArgument, "The call has no message; send one.")
            }
            if exchange.request.awaitsEnd { try receiveOnly(for: exchange, now: now) }
        } catch {
            return refuse(exchange, error, now: now)
        }
        guard let bound = exchange.bound else {
            if exchange.method?.isReflection == true { httpResponses.finish(exchange, .ok) }
            return
        }
        switch bound.kind {
        case .subscriber: sender.endIfSpent(bound.asSubscriber)
        case .pattern: sender.endIfSpent(bound.asPattern)
        case .publisher where exchange.method == .publish:
            publishing.ended(bound.asPublisher, .completed, now: now)
        case .publisher, .call, .listStream: break
        }
    }

    func receive(
        _ message: UnsafeRawBufferPointer, for exchange: Exchange, now: Instant
    ) throws(GRPCError) {
        guard let method = exchange.method else { return }
        let isFirst = exchange.request.deframer.count == 1
        switch method {
        case .subscribe: try receiveSubscribe(message, for: exchange, isFirst: isFirst, now: now)
        case .publish: try receivePublish(message, for: exchange, isFirst: isFirst, now: now)
        case .publishOne: try publishOne(message, for: exchange, now: now)
        case .healthCheck:
            let status = try Health.check(try Health.parse(message), isServing: !draining)
            httpResponses.sendMessage(exchange) { Health.append(status, to: &$0) }
            httpResponses.finish(exchange, .ok)
        case .healthWatch:
            let service = try Health.parse(message)
            let status = Health.watch(service, isServing: !draining)
            exchange.role = .watch(status)
            httpResponses.sendMessage(exchange) { Health.append(status, to: &$0) }
        case .healthList:
            httpResponses.sendMessage(exchange) { Health.appendList(isServing: !draining, to: &$0) }
            httpResponses.finish(exchange, .ok)
        case .reflection, .reflectionAlpha: try httpAdmin.reflect(message, for: exchange)
        case .info, .topicInfo, .completeTopic, .failTopic, .deleteTopic, .closeConnection, .closeSubscription,
            .publisherInfo, .listTopics, .listSubscriptions, .listConnections:
            try httpAdmin.administer(message, for: exchange, now: now)
        }
    }

    private func receiveSubscribe(
        _ message: UnsafeRawBufferPointer, for exchange: Exchange, isFirst: Bool, now: Instant
    ) throws(GRPCError) {
        switch try SubscribeAction.parse(message) {
        case .open(let open):
            guard isFirst else {
                throw GRPCError(.invalidArgument, "The subscription is already open; send only request_n now.")
            }
            do throws(Refusal) {
                guard BrokerList(rawValue: open.topic) == nil else {
                    throw .invalid("'\(open.topic)' is a list; use forebay.v1.Admin to read it.")
                }
                try subscribing.subscribe(
                    exchange.connection, stream: exchange.stream, initialN: open.requestN, to: open.topic,
                    SubscribeOptions(open), from: open.positions, now: now)
            } catch {
                httpResponses.finish(exchange, error)
            }
        case .request(let n):
            guard let bound = exchange.bound else {
                throw GRPCError(.invalidArgument, "The first message of Subscribe must be open; send it first.")
            }
            if bound.kind == .pattern {
                subscribing.patterns.request(n, of: bound.asPattern, now: now)
            } else {
                subscribing.request(n, of: bound.asSubscriber, now: now)
            }
        }
    }

    private func receivePublish(
        _ bytes: UnsafeRawBufferPointer, for exchange: Exchange, isFirst: Bool, now: Instant
    ) throws(GRPCError) {
        let action = try PublishAction.parse(bytes, message: &peers.published)
        if case .open(let topic, let completesTopic, let number) = action {
            guard isFirst else {
                throw GRPCError(.invalidArgument, "The channel is already open; send only messages now.")
            }
            do throws(Refusal) {
                try publishing.openChannel(
                    exchange.connection, stream: exchange.stream, to: topic,
                    PublishOptions(completesTopic: completesTopic), number, initialN: Wire.maxU31,
                    complete: false,
                    metadata: nil, payload: nil, now: now)
                if completesTopic { exchange.role = .completesTopic }
                httpResponses.begin(exchange)
            } catch {
                httpResponses.finish(exchange, error)
            }
            return
        }
        guard let bound = exchange.bound else {
            throw GRPCError(.invalidArgument, "The first message of Publish must be open; send it first.")
        }
        if case .failTopic(let reason) = action {
            try failTopic(exchange, reason, now: now)
        } else {
            let metadata = try carriedMetadata(of: peers.published)
            guard peers.published.payload.count <= limits.payload else {
                throw httpResponses.tooLarge(peers.published.payload.count)
            }
            let publisher = bound.asPublisher
            publishing.item(publisher, metadata: metadata, payload: peers.published.payload, now: now)
        }
    }

    private func failTopic(_ exchange: Exchange, _ reason: String, now: Instant) throws(GRPCError) {
        guard exchange.role == .completesTopic else {
            throw GRPCError(
                .invalidArgument,
                "fail_topic requires a stream opened with complete_topic; call FailTopic instead.")
        }
        guard reason.utf8.count <= ControlRequest.longestReason else {
            throw GRPCError(
                .invalidArgument, "The reason has more than \(ControlRequest.longestReason) bytes; shorten it.")
        }
        leave(exchange, .failed(reason), now: now)
        httpResponses.finish(exchange, .ok)
    }

    private func publishOne(_ bytes: UnsafeRawBufferPointer, for exchange: Exchange, now: Instant) throws(GRPCError) {
        let (topic, number) = try PublishOneRequest.parse(bytes, message: &peers.published)
        let metadata = try carriedMetadata(of: peers.published)
        guard peers.published.payload.count <= limits.payload else {
            throw httpResponses.tooLarge(peers.published.payload.count)
        }
        do throws(Refusal) {
            try authorization.checkPublish(to: topic)
            try authorization.expect(.publish, topic, of: exchange.principal ?? .nobody, at: exchange.connection.peer)
            try publishing.publish(
                exchange.connection, stream: exchange.stream, to: peers.target(named: topic, of: exchange.connection),
                number, metadata: metadata, payload: peers.published.payload, now: now)
        } catch {
            httpResponses.finish(exchange, error)
        }
    }

    /// Content type and headers in the log's form; nil if there are none.
    private func carriedMetadata(of message: PublishedMessage) throws(GRPCError) -> UnsafeRawBufferPointer? {
        guard try MessageHeaders.metadataCount(of: message, limit: limits.metadata) > 0 else { return nil }
        peers.carriedMetadata.removeAll()
        MessageHeaders.appendMetadata(of: message, into: &peers.carriedMetadata)
        return peers.carriedMetadata.readable
    }

    // End of a call

    /// Ends what the exchange is bound to: the peer has canceled the exchange, or it is refused.
    /// - Parameter reason: why, if the client did not ask for the end.
    func leave(_ exchange: Exchange, _ end: PublisherEnd, reason: String? = nil, now: Instant) {
        guard let bound = exchange.bound else { return }
        if let reason, bound.isSubscription { subscribing.noteEnd(of: bound, reason) }
        if bound.kind == .publisher { publishing.ended(bound.asPublisher, end, now: now) }
        if streams[bound.handle] === bound { ends.drop(bound) }
    }

    func refuse(_ exchange: Exchange, _ error: GRPCError, now: Instant) {
        leave(exchange, .cancelled, reason: error.message, now: now)
        httpResponses.finish(exchange, error.status, error.message)
        count(error.word)
    }
}

// HTTPRequests: what a peer's HTTP/2 asks of the engine: which exchange it is about, and what a gRPC call asks for. A
// call begins with its head; what it asks for comes in its messages.

import Bytes
import ForebayWire
import HTTP2
import RSocket

extension Shard {
    func handle(_ event: HTTPEvent, on connection: Connection, _ http: HTTPFace, now: Instant) {
        switch event {
        case .request(let stream, let head, let complete):
            request(connection, http, stream, head, complete: complete, now: now)
        case .data(let stream, let handle, let bytes):
            if let exchange = http.exchange(at: handle) {
                if exchange.ticket != nil, exchange.plain == nil {
                    keep(bytes, of: exchange, http, now: now)
                } else if exchange.method?.isReflection == true {
                    return takeReflection(bytes, for: exchange, http, now: now)
                } else {
                    take(bytes, for: exchange, http, now: now)
                }
            }
            // What the engine takes is bounded by credits, so the windows need not do that.
            http.consume(stream, bytes.count)
        case .complete(_, let handle, _):
            guard let exchange = http.exchange(at: handle) else { return }
            exchange.isHalfClosed = true
            if let plain = exchange.plain { return bodyEnded(exchange, plain, now: now) }
            halfClosed(exchange, now: now)
        case .reset(_, let handle, _):
            guard let exchange = http.exchange(at: handle) else { return }
            exchange.isFinished = true
            leave(exchange, .cancelled, now: now)
            http.forget(exchange)
            noteRoom(connection)
        case .closed(_, let handle):
            guard let exchange = http.exchange(at: handle) else { return }
            http.forget(exchange)
            noteRoom(connection)
        case .writable(_, let handle):
            guard let exchange = http.exchange(at: handle) else { return }
            exchange.isStalled = false
            if let bound = exchange.bound, bound.kind == .subscriber {
                let subscriber = unsafeDowncast(bound, to: Subscriber.self)
                if subscriber.hasJoined { deliver(subscriber, now: now) }
            }
            flush(connection)
        // The latter are told to clients alone.
        case .pong, .response, .closing, .worked:
            break
        case .fatal(let error):
            lose(connection, reason: error.message, now: now)
        case .closedByPeer(let error):
            close(connection, reason: "the peer ended it: \(error.message)", now: now)
        }
    }

    /// The session has ended; what it still has to say is written, and the connection closed.
    private func lose(_ connection: Connection, reason: String, now: Instant) {
        connection.phase = .closing(deadline: now.monotonic + limits.closeTime)
        connection.end = reason
        dropStreams(of: connection, now: now)
        counters.protocolErrors += 1
        log(.debug, "connection refused", [("peer", connection.peer), ("reason", reason)])
        updateReading(connection)
        // What it has to say may have gone already: some errors are told once their GOAWAY is written.
        if connection.isWritten {
            close(connection, reason: "closed after an error", now: now)
        } else {
            flush(connection)
        }
    }

    /// By its content type: all of gRPC's begin alike. Where plain HTTP has its paths that is but a message's type.
    private static func isCall(_ head: RequestHead) -> Bool {
        guard let type = head.fields.first("content-type") else { return false }
        return GRPCCall.isMeant([("content-type", String(decoding: type, as: UTF8.self))])
            && !head.path.starts(with: PlainRequest.root)
    }

    private func request(
        _ connection: Connection, _ http: HTTPFace, _ stream: UInt32, _ head: RequestHead, complete: Bool, now: Instant
    ) {
        // Its windows hold answers back, or it waits for them: to read it no more would help neither.
        if hasManyRequests(http), !head.path.starts(with: PlainRequest.subscriptions) {
            return refuse(stream, isCall: Shard.isCall(head), http, connection)
        }
        guard Shard.isCall(head) else {
            let request = plainRequest(head)
            return plainRequest(connection, http, stream, request, complete: complete, now: now)
        }
        var fields: [(name: String, value: String)] = []
        for index in 0..<head.fields.count {
            let (name, value) = head.fields[index]
            fields.append((String(decoding: name, as: UTF8.self), String(decoding: value, as: UTF8.self)))
        }
        let call: GRPCCall
        do throws(GRPCHeadRefusal) {
            call = try GRPCCall.parse(
                method: String(decoding: head.method, as: UTF8.self), path: String(decoding: head.path, as: UTF8.self),
                headers: fields)
        } catch {
            http.answer(stream, error.headers)
            flush(connection)
            return
        }
        let exchange = http.open(
            stream, connection, .call(call.method), timeout: call.timeout, now: now.monotonic,
            limit: call.method.isReflection ? Reflection.longestRequest : limits.messageFrame)
        if draining, !call.method.isHealth {
            finish(exchange, Shard.drainingRefusal)
        } else if call.timeout == 0 {
            refuse(exchange, GRPCError(.deadlineExceeded, "The call's grpc-timeout is 0: give it time."), now: now)
        } else {
            exchange.isHalfClosed = complete
            begin(call, exchange, http, fields, now: now)
        }
    }

    /// Memory is full, and the connection has more requests under way than it needs to go on.
    func hasManyRequests(_ http: HTTPFace) -> Bool { http.requests > Limits.unwrittenAnswers && relief.isPendingFull }

    /// Refuses a request with a head alone, which needs no window, and of which nothing is kept.
    private func refuse(_ stream: UInt32, isCall: Bool, _ http: HTTPFace, _ connection: Connection) {
        reached(.memory)
        let refusal = Refusal.rejected(
            "The broker's memory is full, and the connection has \(http.requests) requests that are not done: make "
                + "fewer at a time.")
        count(refusal.kind)
        if isCall {
            http.answer(stream, GRPCHeads.trailersOnly(GRPCError(refusal.status, refusal.message)))
        } else {
            http.respond(stream, status: refusal.problem.status, fields: HTTPFields(), complete: true)
        }
        flush(connection)
    }

    private func plainRequest(_ head: RequestHead) -> PlainRequest {
        var request = PlainRequest(
            method: String(decoding: head.method, as: UTF8.self), target: String(decoding: head.path, as: UTF8.self),
            authority: head.authority.isEmpty ? nil : String(decoding: head.authority, as: UTF8.self),
            limits: peers.plainFace.limits)
        for index in 0..<head.fields.count { request.add(head.fields[index].name, head.fields[index].value) }
        return request
    }

    private func take(_ bytes: UnsafeRawBufferPointer, for exchange: Exchange, _ http: HTTPFace, now: Instant) {
        guard !exchange.isFinished else { return }
        if let plain = exchange.plain { return take(bytes, for: exchange, plain, http) }
        takeCall(bytes, for: exchange, http, now: now)
    }

    /// More of a call's messages.
    func takeCall(_ bytes: UnsafeRawBufferPointer, for exchange: Exchange, _ http: HTTPFace, now: Instant) {
        var rest = bytes
        exchange.isTaking = true
        defer {
            exchange.isTaking = false
            if exchange.isFinished { http.release(exchange) }
        }
        do throws(GRPCError) {
            if exchange.method?.takesOneMessage == true {
                try takeOnly(&rest, for: exchange, http, now: now)
            } else {
                while !exchange.isFinished, let message = try exchange.deframer.next(&rest) {
                    try receive(message, for: exchange, now: now)
                }
            }
            try checkHeld(exchange, http)
        } catch {
            refuse(exchange, error, now: now)
        }
    }

    /// What an exchange holds of messages that are not dealt with has changed.
    func checkHeld(_ exchange: Exchange, _ http: HTTPFace) throws(GRPCError) {
        guard !exchange.isFinished else { return }
        http.count(exchange)
        http.limitMessage(of: exchange, to: limits.reassemblyTime, now: moment.monotonic)
        // The message of PublishOne is on its way to its topic, and is answered from there.
        if let publisher = exchange.bound as? Publisher, !publisher.isChannel { return }
        if http.held <= relief.shortReassembly ?? limits.reassembly { return }
        let refusal = unfinishedRefusal
        throw GRPCError(refusal.status, refusal.message)
    }

    func halfClosed(_ exchange: Exchange, now: Instant) {
        guard !exchange.isFinished, exchange.ticket == nil, exchange.awaitsEnd || exchange.backlog.isEmpty else {
            return
        }
        do throws(GRPCError) {
            try exchange.deframer.finish()
            guard exchange.hasMessage else {
                throw GRPCError(.invalidArgument, "The call has no message: send one.")
            }
            if exchange.awaitsEnd { try receiveOnly(for: exchange, now: now) }
        } catch {
            return refuse(exchange, error, now: now)
        }
        guard let bound = exchange.bound else {
            if exchange.method?.isReflection == true { finish(exchange, .ok) }
            return
        }
        switch bound.kind {
        case .subscriber: endIfSpent(unsafeDowncast(bound, to: Subscriber.self))
        case .publisher where exchange.method == .publish:
            ended(unsafeDowncast(bound, to: Publisher.self), .completed, now: now)
        case .publisher, .call, .listing: break
        }
    }

    func receive(
        _ message: UnsafeRawBufferPointer, for exchange: Exchange, now: Instant
    ) throws(GRPCError) {
        guard let method = exchange.method else { return }
        let isFirst = !exchange.hasMessage
        exchange.hasMessage = true
        switch method {
        case .subscribe: try receiveSubscribe(message, for: exchange, isFirst: isFirst, now: now)
        case .publish: try receivePublish(message, for: exchange, isFirst: isFirst, now: now)
        case .publishOne: try publishOne(message, for: exchange, now: now)
        case .healthCheck:
            let status = try Health.check(try Health.parse(message), isServing: !draining)
            say(exchange) { Health.append(status, to: &$0) }
            finish(exchange, .ok)
        case .healthWatch:
            let service = try Health.parse(message)
            let status = Health.watch(service, isServing: !draining)
            exchange.watched = status
            say(exchange) { Health.append(status, to: &$0) }
        case .healthList:
            say(exchange) { Health.appendList(isServing: !draining, to: &$0) }
            finish(exchange, .ok)
        case .reflection, .reflectionAlpha: try reflect(message, for: exchange)
        case .info, .topicInfo, .completeTopic, .failTopic, .deleteTopic, .closeConnection, .closeSubscription,
            .listTopics, .listSubscriptions, .listConnections:
            try administer(message, for: exchange, now: now)
        }
    }

    private func receiveSubscribe(
        _ message: UnsafeRawBufferPointer, for exchange: Exchange, isFirst: Bool, now: Instant
    ) throws(GRPCError) {
        switch try SubscribeAction.parse(message) {
        case .open(let open):
            guard isFirst else {
                throw GRPCError(.invalidArgument, "The subscription is open already: send request_n from now on.")
            }
            do throws(Refusal) {
                guard BrokerList(rawValue: open.topic) == nil else {
                    throw .invalid("'\(open.topic)' is a list: call forebay.v1.Admin for it.")
                }
                try subscribe(
                    exchange.connection, stream: exchange.stream, initialN: open.requestN, to: open.topic,
                    SubscribeOptions(open), now: now)
            } catch {
                finish(exchange, error)
            }
        case .request(let n):
            guard let bound = exchange.bound else {
                throw GRPCError(.invalidArgument, "The first message of Subscribe is open: send that first.")
            }
            request(n, of: unsafeDowncast(bound, to: Subscriber.self), now: now)
        }
    }

    private func receivePublish(
        _ bytes: UnsafeRawBufferPointer, for exchange: Exchange, isFirst: Bool, now: Instant
    ) throws(GRPCError) {
        let action = try PublishAction.parse(bytes, message: &peers.published)
        if case .open(let topic, let completesTopic) = action {
            guard isFirst else { throw GRPCError(.invalidArgument, "The channel is open already: send messages.") }
            do throws(Refusal) {
                try openChannel(
                    exchange.connection, stream: exchange.stream, to: topic,
                    PublishOptions(completesTopic: completesTopic), initialN: Wire.maxU31, complete: false,
                    metadata: nil, payload: nil, now: now)
                exchange.completesTopic = completesTopic
                begin(exchange)
            } catch {
                finish(exchange, error)
            }
            return
        }
        guard let bound = exchange.bound else {
            throw GRPCError(.invalidArgument, "The first message of Publish is open: send that first.")
        }
        if case .failTopic(let reason) = action {
            try failTopic(exchange, reason, now: now)
        } else {
            let metadata = try carriedMetadata(of: peers.published)
            guard peers.published.payload.count <= limits.payload else { throw tooLarge(peers.published.payload.count) }
            let publisher = unsafeDowncast(bound, to: Publisher.self)
            item(publisher, metadata: metadata, payload: peers.published.payload, now: now)
        }
    }

    private func failTopic(_ exchange: Exchange, _ reason: String, now: Instant) throws(GRPCError) {
        guard exchange.completesTopic else {
            throw GRPCError(
                .invalidArgument,
                "The stream was not opened with complete_topic, so its end is not the topic's: call FailTopic.")
        }
        guard reason.utf8.count <= ControlRequest.longestReason else {
            throw GRPCError(
                .invalidArgument, "The reason has more than \(ControlRequest.longestReason) bytes; shorten it.")
        }
        leave(exchange, .failed(reason), now: now)
        finish(exchange, .ok)
    }

    private func publishOne(_ bytes: UnsafeRawBufferPointer, for exchange: Exchange, now: Instant) throws(GRPCError) {
        let topic = try PublishOneRequest.parse(bytes, message: &peers.published)
        let metadata = try carriedMetadata(of: peers.published)
        guard peers.published.payload.count <= limits.payload else { throw tooLarge(peers.published.payload.count) }
        do throws(Refusal) {
            try checkPublish(to: topic)
            try expect(.publish, topic, of: exchange.principal ?? .nobody, at: exchange.connection.peer)
            try publish(
                exchange.connection, stream: exchange.stream, to: target(named: topic, of: exchange.connection),
                metadata: metadata, payload: peers.published.payload, now: now)
        } catch {
            finish(exchange, error)
        }
    }

    /// Content type and headers as the log keeps them; nil if there are none.
    private func carriedMetadata(of message: PublishedMessage) throws(GRPCError) -> UnsafeRawBufferPointer? {
        guard try MessageHeaders.metadataCount(of: message, limit: limits.metadata) > 0 else { return nil }
        peers.carriedMetadata.removeAll()
        MessageHeaders.appendMetadata(of: message, into: &peers.carriedMetadata)
        return peers.carriedMetadata.readable
    }

    // A call's end

    /// The peer gave up, or is given up: what stands behind the exchange goes.
    /// - Parameter reason: why, where it was not the client that wanted it.
    func leave(_ exchange: Exchange, _ end: PublisherEnd, reason: String? = nil, now: Instant) {
        guard let bound = exchange.bound else { return }
        if let reason, bound.kind == .subscriber { unsafeDowncast(bound, to: Subscriber.self).end = reason }
        if bound.kind == .publisher { ended(unsafeDowncast(bound, to: Publisher.self), end, now: now) }
        if streams[bound.handle] === bound { drop(bound) }
    }

    func refuse(_ exchange: Exchange, _ error: GRPCError, now: Instant) {
        leave(exchange, .cancelled, reason: error.message, now: now)
        finish(exchange, error.status, error.message)
        count(RefusalReason(error.status))
    }

    /// The client half-closed, so that its credit is all there will be: once that is spent the subscription is over.
    func endIfSpent(_ subscriber: Subscriber) {
        guard let exchange = subscriber.exchange, exchange.method != nil, exchange.isHalfClosed, !exchange.isFinished,
            subscriber.hasJoined, subscriber.cursor.credit.available == 0
        else { return }
        finish(exchange, .ok, end: .creditSpent, dropped: subscriber.cursor.droppedSinceDelivery)
        subscriber.end = "its credit was spent, and no more could come"
        drop(subscriber)
    }

    /// Calls whose time is over.
    func expire(_ http: HTTPFace, now: Instant) {
        guard let next = http.nextDeadline, next <= now.monotonic else { return }
        http.nextDeadline = nil
        for exchange in http.all where !exchange.isFinished || exchange.isLingering {
            let deadline = exchange.deadline ?? .max
            let messageDue = exchange.messageDue?.time ?? .max
            if deadline <= now.monotonic {
                expire(exchange, http, now: now)
            } else if messageDue <= now.monotonic {
                let seconds = limits.reassemblyTime / Limits.second
                reached(.reassemblyTime)
                let reason =
                    exchange.awaitsEnd
                    ? "The call's end did not come within \(seconds) s of its message: half-close behind it."
                    : "A message that had begun was not complete within \(seconds) s: send messages whole."
                refuse(exchange, GRPCError(.deadlineExceeded, reason), now: now)
            } else if Swift.min(deadline, messageDue) < .max {
                http.nextDeadline = Swift.min(http.nextDeadline ?? .max, deadline, messageDue)
            }
        }
    }

    private func expire(_ exchange: Exchange, _ http: HTTPFace, now: Instant) {
        if exchange.plain != nil {
            bodyLate(exchange, now: now)
        } else if exchange.bound?.kind == .listing, !exchange.body.isEmpty {
            // A status would stand behind rows that the peer may never take, and lists are counted no more then.
            leave(exchange, .cancelled, now: now)
            http.cancel(exchange)
            http.forget(exchange)
            noteRoom(exchange.connection)
            flush(exchange.connection)
        } else {
            refuse(exchange, GRPCError(.deadlineExceeded, "The call's grpc-timeout went by."), now: now)
        }
    }
}

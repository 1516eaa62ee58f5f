// Publishing: takes a publish from a request on a connection to the topic's owner.

import Bytes
import ForebayWire
import Replay

final class Publishing: ShardPart {
    let streams: StreamTable
    let topics: TopicTable
    let rateLimiter: RateLimiter
    let relief: MemoryRelief
    let forwarding: Forwarding
    let losses: PublishLosses
    let authorization: Authorization
    let reading: Reading
    let users: ConnectionUsers
    let responses: Responses
    let ends: StreamEnds
    let notices: PublisherNotices
    let ownership: TopicOwnership
    let intake: PublishIntake

    init(
        _ context: ShardContext, _ streams: StreamTable, _ topics: TopicTable, _ rateLimiter: RateLimiter,
        _ relief: MemoryRelief, _ forwarding: Forwarding, _ losses: PublishLosses, _ authorization: Authorization,
        _ reading: Reading, _ users: ConnectionUsers, _ responses: Responses, _ ends: StreamEnds,
        _ notices: PublisherNotices, _ ownership: TopicOwnership, _ intake: PublishIntake
    ) {
        self.streams = streams
        self.topics = topics
        self.rateLimiter = rateLimiter
        self.relief = relief
        self.forwarding = forwarding
        self.losses = losses
        self.authorization = authorization
        self.reading = reading
        self.users = users
        self.responses = responses
        self.ends = ends
        self.notices = notices
        self.ownership = ownership
        self.intake = intake
        super.init(context)
    }

    /// A fire-and-forget publish, which is never answered.
    func fireAndForget(
        _ connection: Connection, to target: PublishTarget, metadata: UnsafeRawBufferPointer?,
        payload: UnsafeRawBufferPointer, now: Instant
    ) throws(Refusal) {
        let size = Swift.max(1, payload.count + (metadata?.count ?? 0))
        if rateLimiter.isLimited, let rateLimit = connection.rateLimit, !rateLimiter.take(size, rateLimit, now: now) {
            return losses.dropped(.rate, of: target)
        }
        if target.owner == index {
            try ownership.topic(of: target, for: connection.rateLimit?.account, now: now).publishers.fireAndForget(
                metadata: metadata, payload: payload, now: now)
        } else {
            if let refusal = relief.forwardRefusal(to: target.name) { throw refusal }
            var message = MessageBatch()
            message.append(metadata: metadata, payload: payload)
            reading.forward(message.weight, of: connection)
            send(
                .fireAndForget(name: target.name, connection.id, shard: index, message, connection.rateLimit?.account),
                to: target.owner)
        }
    }

    /// An acknowledged publish. If it cannot be appended at once, it becomes a publisher that waits for its answer.
    func publish(
        _ connection: Connection, stream: UInt32, to target: PublishTarget, _ number: PublisherNumber? = nil,
        metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer, now: Instant
    ) throws(Refusal) {
        try countingRefusals(of: target.name) { () throws(Refusal) in
            let size = payload.count + (metadata?.count ?? 0)
            try checkParked(size, of: connection)
            let isPaid =
                !rateLimiter.isLimited
                || users.rateLimit(connection, stream).map { rateLimiter.take(Swift.max(1, size), $0, now: now) }
                    ?? true
            let numbered = number.map { withinUser($0, connection, stream) }
            if isPaid, target.owner == index {
                let topic = try ownership.topic(of: target, for: users.rateLimit(connection, stream)?.account, now: now)
                if topic.commitsAtOnce,
                    let placed = try place(numbered, in: topic, metadata: metadata, payload: payload, now: now)
                {
                    responses.sendPublished(
                        placed.sequence, epoch: topic.epoch, isDuplicate: placed.isDuplicate, on: connection,
                        stream: stream)
                    connection.close(stream: stream)
                    return
                }
            }
            if !isPaid, let refusal = relief.parkRefusal(of: target.name) { throw refusal }
            if target.owner != index, let refusal = relief.forwardRefusal(to: target.name) { throw refusal }
            openPublisher(
                connection, stream: stream, name: target.name, owner: target.owner, options: nil, numbered: numbered,
                initialN: 1, complete: true, metadata: metadata, payload: payload, isPaid: isPaid, now: now)
        }
    }

    @inline(__always)
    private func place(
        _ numbered: NumberedPublish?, in topic: Topic, metadata: UnsafeRawBufferPointer?,
        payload: UnsafeRawBufferPointer, now: Instant
    ) throws(Refusal) -> TopicPublishers.Placed? {
        if let numbered {
            return try topic.publishers.place(numbered, metadata: metadata, payload: payload, now: now)
        }
        return try topic.publishers.place(metadata: metadata, payload: payload, now: now).map { ($0, false) }
    }

    /// A publisher's number within its user.
    private func withinUser(_ number: PublisherNumber, _ connection: Connection, _ stream: UInt32) -> NumberedPublish {
        let user = users.principal(of: connection, stream).user
        return NumberedPublish(publisher: PublisherKey(user: user, id: number.publisher), number: number.number)
    }

    /// Counts what `body` refuses as lost.
    private func countingRefusals(of topic: String, _ body: () throws(Refusal) -> Void) throws(Refusal) {
        do throws(Refusal) {
            try body()
        } catch {
            losses.refusedPublish(error, of: topic)
            throw error
        }
    }

    /// A channel, with its first message if that has arrived.
    /// - Parameter number: of the first message, if messages are numbered.
    func openChannel(
        _ connection: Connection, stream: UInt32, to name: String, _ options: PublishOptions,
        _ number: PublisherNumber?, initialN: UInt32,
        complete: Bool, metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer?, now: Instant
    ) throws(Refusal) {
        try countingRefusals(of: name) { () throws(Refusal) in
            try authorization.checkPublish(to: name)
            try authorization.expect(.publish, name, of: users.principal(of: connection, stream), at: connection.peer)
            try checkParked((payload?.count ?? 0) + (metadata?.count ?? 0), of: connection)
            // The first message needs no credit, so it is paid for like a single publish.
            let size = payload.map { Swift.max(1, $0.count + (metadata?.count ?? 0)) } ?? Prepaid.unknownSize
            let isPaid =
                !rateLimiter.isLimited
                || users.rateLimit(connection, stream).map { rateLimiter.take(size, $0, now: now) } ?? true
            if !isPaid, let refusal = relief.parkRefusal(of: name) { throw refusal }
            openPublisher(
                connection, stream: stream, name: name, owner: owner(of: name), options: options,
                numbered: number.map { withinUser($0, connection, stream) }, initialN: initialN,
                complete: complete, metadata: metadata, payload: payload, isPaid: isPaid, now: now)
        }
    }

    /// Throws if another publish of `size` bytes could not be parked.
    func checkParked(_ size: Int, of connection: Connection) throws(Refusal) {
        guard connection.input.parkedBytes + size <= limits.parked, connection.input.parkedCount < limits.parkedCount
        else {
            reached(.parked)
            throw .limit(
                "The connection already has \(counted(connection.input.parkedCount, "publish", "publishes")) waiting "
                    + "for acknowledgements; wait for some before sending more.")
        }
    }

    /// Opens a stream that waits for the topic owner's response to its message: a channel, or without options an
    /// acknowledged publish.
    /// - Parameter isPaid: false makes it wait until its user may publish more.
    private func openPublisher(
        _ connection: Connection, stream: UInt32, name: String, owner: Int, options: PublishOptions?,
        numbered: NumberedPublish?, initialN: UInt32, complete: Bool, metadata: UnsafeRawBufferPointer?,
        payload: UnsafeRawBufferPointer?, isPaid: Bool, now: Instant
    ) {
        let size = (payload?.count ?? 0) + (metadata?.count ?? 0)
        var credit = Credit(mode: .outstanding)
        _ = credit.add(initialN)
        var message = MessageBatch()
        if let payload { message.append(metadata: metadata, payload: payload) }
        let bound = streams.insert { handle in
            Publisher(
                name: name, owner: owner, isChannel: options != nil, parkedBytes: size, credit: credit,
                connection: connection, stream: stream, handle: handle)
        }
        let publisher = bound.asPublisher
        connection.attach(publisher)
        connection.input.parkedBytes += size
        connection.input.parkedCount += 1
        if publisher.isChannel { connection.add(channel: publisher) }
        let request = PublishRequest(
            name: name, options: options ?? PublishOptions(), isChannel: publisher.isChannel,
            connection: connection.id, message: message, complete: complete, account: publisher.rateLimit?.account,
            numbered: numbered)
        guard isPaid else {
            if let rateLimit = publisher.rateLimit { park(publisher, request, rateLimit, now: now) }
            return
        }
        if payload == nil, rateLimiter.isLimited { publisher.prepaid.addFirst() }
        submit(publisher, request, now: now)
    }

    /// Sends the request to the topic's owner.
    func submit(_ publisher: Publisher, _ request: PublishRequest, now: Instant) {
        if publisher.owner == index {
            intake.open(streams.key(publisher), request, now: now)
        } else {
            reading.forward(request.message.weight, of: publisher.connection)
            send(.publish(streams.key(publisher), request), to: publisher.owner)
        }
    }

    /// A further message of a channel.
    func item(
        _ publisher: Publisher, metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer,
        now: Instant
    ) {
        if publisher.pending != nil { return takeEarly(publisher, metadata: metadata, payload: payload, now: now) }
        rateLimiter.charge(1, payload.count + (metadata?.count ?? 0), to: publisher, now: now)
        if publisher.owner != index {
            forwarding.gather(publisher, metadata: metadata, payload: payload)
        } else if let channel = publisher.channel {
            channel.topic.publishers.item(channel, metadata: metadata, payload: payload, now: now)
        }
    }

    /// Further messages of a channel, framed as received.
    func items(_ publisher: Publisher, _ run: FramedRun, now: Instant) {
        if publisher.pending != nil {
            run.forEach {
                takeEarly(publisher, metadata: nil, payload: $0, now: now)
                return streams[publisher.handle] === publisher
            }
            return
        }
        rateLimiter.charge(run.count, run.data, to: publisher, now: now)
        if publisher.owner != index {
            // Messages that were queued singly come first.
            sendOutgoing(publisher)
            let batch = FrameBatch(run)
            reading.forward(batch.weight, of: publisher.connection)
            send(.frames(streams.key(publisher), publisher.connection.id, batch), to: publisher.owner)
        } else if let channel = publisher.channel {
            channel.topic.publishers.items(channel, run, now: now)
        }
    }

    /// The publisher's half has ended in any way. A parked acknowledged publish is withdrawn.
    func ended(_ publisher: Publisher, _ end: PublisherEnd, now: Instant) {
        guard endedPending(publisher, end, now: now) else { return }
        sendOutgoing(publisher)
        if publisher.owner == index {
            if let channel = publisher.channel {
                channel.topic.publishers.ended(channel, end, now: now)
            } else {
                topics[publisher.name]?.publishers.withdraw(streams.key(publisher), now: now)
            }
        } else {
            send(.publisherEnded(streams.key(publisher), name: publisher.name, end), to: publisher.owner)
        }
    }

    /// The peer requests more acknowledgements.
    func request(_ n: UInt32, of publisher: Publisher) {
        guard publisher.credit.add(n) else {
            return ends.revoke(publisher, .requestOfZero, now: moment)
        }
        notices.sendUnsent(publisher)
    }

    /// Sends the messages that were queued for other shards in this turn.
    func sendOutgoing() {
        forwarding.takeOutgoing { sendOutgoing($0) }
    }

    private func sendOutgoing(_ publisher: Publisher) {
        guard publisher.outgoing.count > 0 else { return }
        reading.forward(publisher.outgoing.weight, of: publisher.connection)
        send(.items(streams.key(publisher), publisher.connection.id, publisher.outgoing), to: publisher.owner)
        publisher.outgoing.removeAll()
    }

    /// The publisher's stream has ended.
    func discard(_ publisher: Publisher) {
        notices.finishParking(publisher)
        leaveTokens(publisher)
        if publisher.isChannel { publisher.connection.remove(channel: publisher) }
        publisher.channel = nil
    }
}

// Publishing: from a request on a connection to the topic's owner.

import Bytes
import ForebayWire
import Replay

extension Shard {
    // From the peer

    /// Refuses names that no client may publish to.
    func checkPublish(to name: String) throws(Refusal) {
        if TopicName.isSystem(name) {
            throw Refusal(.forbidden, "'\(name)' is the broker's own; clients cannot publish there.")
        }
        if let fault = TopicName.fault(name) { throw .invalid(fault) }
    }

    /// A fire publish, which is never answered.
    func fire(
        _ connection: Connection, to target: PublishTarget, metadata: UnsafeRawBufferPointer?,
        payload: UnsafeRawBufferPointer, now: Instant
    ) throws(Refusal) {
        let size = Swift.max(1, payload.count + (metadata?.count ?? 0))
        if rateLimiter.isLimited, let meter = connection.meter, !rateLimiter.take(size, meter, now: now) {
            return dropped(.rate, of: target)
        }
        if target.owner == index {
            try topic(of: target, for: connection.meter?.account, now: now).fire(
                metadata: metadata, payload: payload, now: now)
        } else {
            if let refusal = relief.forwardRefusal(to: target.name) { throw refusal }
            var message = MessageBatch()
            message.append(metadata: metadata, payload: payload)
            forward(message.weight, of: connection)
            send(
                .fire(name: target.name, connection.id, shard: index, message, connection.meter?.account),
                to: target.owner)
        }
    }

    /// An acknowledged publish. One that finds no place at once becomes a publisher, which waits for its answer.
    func publish(
        _ connection: Connection, stream: UInt32, to target: PublishTarget, metadata: UnsafeRawBufferPointer?,
        payload: UnsafeRawBufferPointer, now: Instant
    ) throws(Refusal) {
        try countingRefusals(of: target.name) { () throws(Refusal) in
            let size = payload.count + (metadata?.count ?? 0)
            try checkParked(size, of: connection)
            let isPaid =
                !rateLimiter.isLimited
                || meter(connection, stream).map { rateLimiter.take(Swift.max(1, size), $0, now: now) } ?? true
            if isPaid, target.owner == index {
                let topic = try topic(of: target, for: meter(connection, stream)?.account, now: now)
                if topic.commits == nil,
                    let sequence = try topic.place(metadata: metadata, payload: payload, now: now)
                {
                    sayPublished(sequence, epoch: topic.epoch, on: connection, stream: stream)
                    connection.close(stream: stream)
                    return
                }
            }
            if !isPaid, let refusal = relief.parkRefusal(of: target.name) { throw refusal }
            if target.owner != index, let refusal = relief.forwardRefusal(to: target.name) { throw refusal }
            openPublisher(
                connection, stream: stream, name: target.name, owner: target.owner, options: nil, initialN: 1,
                complete: true, metadata: metadata, payload: payload, isPaid: isPaid, now: now)
        }
    }

    /// What `body` refuses counts as lost.
    private func countingRefusals(of topic: String, _ body: () throws(Refusal) -> Void) throws(Refusal) {
        do throws(Refusal) {
            try body()
        } catch {
            refusedPublish(error, of: topic)
            throw error
        }
    }

    /// A channel, with its first message if that has come.
    func openChannel(
        _ connection: Connection, stream: UInt32, to name: String, _ options: PublishOptions, initialN: UInt32,
        complete: Bool, metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer?, now: Instant
    ) throws(Refusal) {
        try countingRefusals(of: name) { () throws(Refusal) in
            try checkPublish(to: name)
            try expect(.publish, name, of: principal(of: connection, stream), at: connection.peer)
            try checkParked((payload?.count ?? 0) + (metadata?.count ?? 0), of: connection)
            // The first message needs no credit, so it is paid for as a single one is.
            let size = payload.map { Swift.max(1, $0.count + (metadata?.count ?? 0)) } ?? Publisher.unknownSize
            let isPaid =
                !rateLimiter.isLimited
                || meter(connection, stream).map { rateLimiter.take(size, $0, now: now) } ?? true
            if !isPaid, let refusal = relief.parkRefusal(of: name) { throw refusal }
            openPublisher(
                connection, stream: stream, name: name, owner: owner(of: name), options: options, initialN: initialN,
                complete: complete, metadata: metadata, payload: payload, isPaid: isPaid, now: now)
        }
    }

    /// The topic of a target that lives here, made if there is none.
    private func topic(
        of target: PublishTarget, for account: @autoclosure () -> Account?, now: Instant
    ) throws(Refusal) -> Topic {
        if let place = target.place, let topic = topics[place] { return topic }
        let topic = try topic(named: target.name, for: account(), now: now)
        target.place = topic.place
        return topic
    }

    /// Whether one more publish of `size` bytes might be parked.
    func checkParked(_ size: Int, of connection: Connection) throws(Refusal) {
        guard connection.parkedBytes + size <= limits.parked, connection.parkedCount < limits.parkedCount else {
            reached(.parked)
            throw .rejected(
                "This connection has \(counted(connection.parkedCount, "publish", "publishes")) waiting for an "
                    + "acknowledgement already; wait for some before sending more.")
        }
    }

    /// A stream that waits for what the topic's owner says to its message: a channel, or without options an
    /// acknowledged publish.
    /// - Parameter isPaid: false has it wait until its user may publish more.
    private func openPublisher(
        _ connection: Connection, stream: UInt32, name: String, owner: Int, options: PublishOptions?, initialN: UInt32,
        complete: Bool, metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer?, isPaid: Bool, now: Instant
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
        let publisher = unsafeDowncast(bound, to: Publisher.self)
        connection.attach(publisher)
        connection.parkedBytes += size
        connection.parkedCount += 1
        if publisher.isChannel { connection.add(channel: publisher) }
        let request = PublishRequest(
            name: name, options: options ?? PublishOptions(), isChannel: publisher.isChannel,
            connection: connection.id, message: message, complete: complete, account: publisher.meter?.account)
        guard isPaid else {
            if let meter = publisher.meter { park(publisher, request, meter, now: now) }
            return
        }
        if payload == nil, rateLimiter.isLimited { publisher.prepay() }
        submit(publisher, request, now: now)
    }

    /// Asks the topic's owner.
    func submit(_ publisher: Publisher, _ request: PublishRequest, now: Instant) {
        if publisher.owner == index {
            open(key(publisher), request, now: now)
        } else {
            forward(request.message.weight, of: publisher.connection)
            send(.publish(key(publisher), request), to: publisher.owner)
        }
    }

    /// A later message of a channel.
    func item(
        _ publisher: Publisher, metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer,
        now: Instant
    ) {
        if publisher.pending != nil { return takeEarly(publisher, metadata: metadata, payload: payload, now: now) }
        rateLimiter.charge(1, payload.count + (metadata?.count ?? 0), to: publisher, now: now)
        if publisher.owner != index {
            forwarding.gather(publisher, metadata: metadata, payload: payload)
        } else if let channel = publisher.channel {
            _ = channel.topic.item(channel, metadata: metadata, payload: payload, now: now)
        }
    }

    /// Later messages of a channel, as they came.
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
            // Those that were gathered singly came before.
            sendOutgoing(publisher)
            let batch = FrameBatch(run)
            forward(batch.weight, of: publisher.connection)
            send(.frames(key(publisher), publisher.connection.id, batch), to: publisher.owner)
        } else if let channel = publisher.channel {
            channel.topic.items(channel, run, now: now)
        }
    }

    /// The publisher's half is over, one way or another. A parked acknowledged publish is withdrawn.
    func ended(_ publisher: Publisher, _ end: PublisherEnd, now: Instant) {
        guard endedPending(publisher, end, now: now) else { return }
        sendOutgoing(publisher)
        if publisher.owner == index {
            if let channel = publisher.channel {
                channel.topic.ended(channel, end, now: now)
            } else {
                topics[publisher.name]?.withdraw(key(publisher), now: now)
            }
        } else {
            send(.publisherEnded(key(publisher), name: publisher.name, end), to: publisher.owner)
        }
    }

    /// The peer asks for more acknowledgements.
    func request(_ n: UInt32, of publisher: Publisher) {
        guard publisher.credit.add(n) else {
            return revoke(publisher, .invalid("REQUEST_N of 0 is not allowed; ask for 1 or more."), now: moment)
        }
        tellUntold(publisher)
    }

    /// Messages that were gathered for other shards in this turn.
    func sendOutgoing() {
        forwarding.takeOutgoing { sendOutgoing($0) }
    }

    private func sendOutgoing(_ publisher: Publisher) {
        guard publisher.outgoing.count > 0 else { return }
        forward(publisher.outgoing.weight, of: publisher.connection)
        send(.items(key(publisher), publisher.connection.id, publisher.outgoing), to: publisher.owner)
        publisher.outgoing.removeAll()
    }

    func key(_ stream: BoundStream) -> StreamKey { StreamKey(shard: index, handle: stream.handle) }

    // At the owner

    /// Opens a channel, or takes an acknowledged publish.
    func open(_ key: StreamKey, _ request: PublishRequest, now: Instant) {
        do throws(Refusal) {
            let topic = try topic(named: request.name, for: request.account, now: now)
            topic.publish(key, request, now: now)
            if request.isChannel, let channel = topic.channels[key] { bind(channel, now: now) }
        } catch {
            refusedPublish(error, of: request.name)
            tell(key, .refused(error))
        }
    }

    /// Remembers a channel where its later messages will look for it.
    private func bind(_ channel: Channel, now: Instant) {
        if channel.key.shard == index {
            (streams[channel.key.handle] as? Publisher)?.channel = channel
        } else {
            remoteChannels[channel.key] = channel
        }
    }

    func take(_ batch: MessageBatch, from key: StreamKey, now: Instant) {
        guard let channel = remoteChannels[key] else { return }
        batch.forEach { metadata, payload in
            channel.topic.item(channel, metadata: metadata, payload: payload, now: now)
        }
    }

    func take(_ batch: FrameBatch, from key: StreamKey, now: Instant) {
        guard let channel = remoteChannels[key] else { return }
        batch.withRun { channel.topic.items(channel, $0, now: now) }
    }

    func takeFire(_ batch: MessageBatch, name: String, _ account: Account?, now: Instant) {
        let topic: Topic
        do throws(Refusal) {
            topic = try self.topic(named: name, for: account, now: now)
        } catch {
            return dropped(PublishLoss(error), of: name, count: batch.count)
        }
        batch.forEach { metadata, payload in
            topic.fire(metadata: metadata, payload: payload, now: now)
            return true
        }
    }

    /// Its stream is over.
    func forget(_ publisher: Publisher) {
        settleParked(publisher)
        leaveTokens(publisher)
        if publisher.isChannel { publisher.connection.remove(channel: publisher) }
        publisher.channel = nil
    }
}

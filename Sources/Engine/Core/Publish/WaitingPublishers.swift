// WaitingPublishers: publishers that wait until their user may publish more, and how they continue.

import Bytes
import Replay

extension Publishing: RateLimitedPublishers {
    /// Makes an acknowledged publish, or the opening of a channel, wait for tokens.
    func park(_ publisher: Publisher, _ request: PublishRequest, _ rateLimit: UserRateLimit, now: Instant) {
        var pending = request
        pending.message = MessageBatch()
        publisher.pending = pending
        rateLimiter.wait(streams.key(publisher), request.message, rateLimit, now: now)
    }

    /// A channel's first message has arrived while its opening still waits.
    func takeEarly(
        _ publisher: Publisher, metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer, now: Instant
    ) {
        let size = payload.count + (metadata?.count ?? 0)
        do throws(Refusal) {
            try checkParked(size, of: publisher.connection)
            if let refusal = relief.parkRefusal(of: publisher.name) { throw refusal }
        } catch {
            losses.refusedPublish(error, of: publisher.name)
            return ends.revoke(publisher, error, now: now)
        }
        guard publisher.early.count == 0, publisher.parkedBytes == 0 else {
            let sent = "The channel sent a message beyond its credit; wait for more credit before sending more."
            return ends.revoke(publisher, Refusal(.credit, sent), now: now)
        }
        publisher.early.append(metadata: metadata, payload: payload)
        memory.addPending(publisher.early.bytes.count)
        publisher.parkedBytes += size
        publisher.connection.input.parkedBytes += size
    }

    func dropEarly(_ publisher: Publisher) {
        memory.addPending(-publisher.early.bytes.count)
        publisher.early.removeAll()
    }

    /// A publisher that waits for tokens ends. Returns whether the caller still has to report this to its topic.
    func endedPending(_ publisher: Publisher, _ end: PublisherEnd, now: Instant) -> Bool {
        guard var request = publisher.pending else { return true }
        if case .completed = end {
            publisher.pending?.complete = true
            return false
        }
        publisher.pending = nil
        publisher.rateLimit?.parked.withdraw(streams.key(publisher))
        dropEarly(publisher)
        // The end may still affect the topic.
        guard request.options.completesTopic || request.options.lossFailsTopic else { return false }
        request.message = MessageBatch()
        submit(publisher, request, now: now)
        return true
    }

    /// A publisher is gone and no longer waits for anything.
    func leaveTokens(_ publisher: Publisher) {
        if publisher.pending != nil {
            publisher.pending = nil
            publisher.rateLimit?.parked.withdraw(streams.key(publisher))
        }
        if publisher.early.count > 0 { dropEarly(publisher) }
        rateLimiter.end(publisher)
    }

    // RateLimitedPublishers

    func hasUnread(_ publisher: Publisher) -> Bool { notices.hasUnread(publisher) }

    func proceed(_ key: StreamKey, _ message: MessageBatch, now: Instant) {
        guard let stream = streams[key.handle], stream.kind == .publisher else { return }
        proceed(stream.asPublisher, message, now: now)
    }

    /// A publisher that waited for tokens has received them.
    private func proceed(_ publisher: Publisher, _ message: MessageBatch, now: Instant) {
        guard var request = publisher.pending else { return }
        publisher.pending = nil
        request.message = message
        let isComplete = request.complete
        if publisher.early.count > 0 { request.complete = false }
        if message.count == 0 { publisher.prepaid.addFirst() }
        submit(publisher, request, now: now)
        let early = publisher.early
        guard early.count > 0 else { return }
        dropEarly(publisher)
        early.forEach { metadata, payload in
            item(publisher, metadata: metadata, payload: payload, now: now)
            return false
        }
        if isComplete, streams[publisher.handle] === publisher { ended(publisher, .completed, now: now) }
    }

    func grant(_ count: Int, to publisher: Publisher) {
        publisher.unsentCredit -= UInt64(count)
        responses.sendCredit(UInt64(count), to: publisher)
    }

    func refuse(_ key: StreamKey, _ refusal: Refusal, _ loss: PublishLoss, now: Instant) {
        guard let stream = streams[key.handle], stream.kind == .publisher else { return }
        let publisher = stream.asPublisher
        losses.refusedPublish(loss, of: publisher.name)
        ends.revoke(publisher, refusal, now: now)
    }
}

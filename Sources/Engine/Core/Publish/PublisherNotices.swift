// PublisherNotices: what the owner of a topic says back to those who publish.

import Replay

final class PublisherNotices: ShardPart {
    let streams: StreamTable
    let rateLimiter: RateLimiter
    let responses: Responses
    let ends: StreamEnds
    // Above
    unowned(unsafe) var intake: PublishIntake!

    init(
        _ context: ShardContext, _ streams: StreamTable, _ rateLimiter: RateLimiter, _ responses: Responses,
        _ ends: StreamEnds
    ) {
        self.streams = streams
        self.rateLimiter = rateLimiter
        self.responses = responses
        self.ends = ends
        super.init(context)
    }

    /// What a topic tells one of its publishers, wherever that is.
    func tell(_ key: StreamKey, _ notice: PublisherNotice) {
        if key.shard == index {
            hear(notice, key.handle)
        } else {
            if case .refused = notice { intake.remove(key) }
            if case .finished = notice { intake.remove(key) }
            effects.lateMail[key.shard].append(ShardMessage(content: .notice(key, notice)))
        }
    }

    func hear(_ notice: PublisherNotice, _ handle: Handle) {
        guard let stream = streams[handle], stream.kind == .publisher else { return }
        let publisher = stream.asPublisher
        switch notice {
        case .granted(let n):
            settleParked(publisher)
            publisher.untoldCredit += UInt64(n)
            tellGranted(publisher)
        case .acknowledged(let sequence, let epoch, let accepted):
            settleParked(publisher)
            if publisher.isChannel {
                publisher.untold = (sequence, accepted)
                publisher.known = (sequence, accepted)
                tellUntold(publisher)
            } else {
                responses.sayPublished(sequence, epoch: epoch, on: publisher.connection, stream: publisher.stream)
                ends.drop(publisher)
            }
        case .finished:
            finish(publisher)
        case .refused(let refusal):
            // The last chance to say how far the channel came.
            tellUntold(publisher, atOnce: true)
            ends.fail(publisher, refusal)
        }
    }

    /// Tells the latest acknowledgement, if there is credit for it. While earlier answers are unread it waits, and a
    /// later one takes its place.
    func tellUntold(_ publisher: Publisher, atOnce: Bool = false) {
        guard let news = publisher.untold, publisher.credit.available > 0 else { return }
        guard atOnce || publisher.unreadAnswers < limits.acknowledgementBacklog else {
            publisher.connection.waiters.hasUntold = true
            return
        }
        publisher.untold = nil
        publisher.credit.spend(1)
        responses.sayAcknowledged(news.sequence, accepted: news.accepted, to: publisher, complete: false)
    }

    /// Tells credit. That of a call whose answers are unread adds up: a peer that sends without ever reading would have
    /// grants pile up for it. With RSocket the connection is read no more then.
    private func tellGranted(_ publisher: Publisher) {
        guard publisher.untoldCredit > 0 else { return }
        guard !hasUnread(publisher) else { return }
        let n = UInt64(rateLimiter.affordable(publisher, Int(clamping: publisher.untoldCredit), now: moment))
        guard n > 0 else { return }
        publisher.untoldCredit -= n
        responses.sayGranted(n, to: publisher)
    }

    /// Whether a call's peer has to read earlier answers first; it is told its credit then.
    func hasUnread(_ publisher: Publisher) -> Bool {
        guard publisher.hasBody, publisher.unreadAnswers >= limits.acknowledgementBacklog else {
            return false
        }
        publisher.connection.waiters.hasUntold = true
        return true
    }

    /// The peer has read on: acknowledgements that waited for it are told.
    func tellUntold(on connection: Connection) {
        guard connection.waiters.hasUntold, connection.output.controlCount < limits.acknowledgementBacklog else {
            return
        }
        connection.waiters.hasUntold = false
        for stream in connection.streams where stream.kind == .publisher {
            tellGranted(stream.asPublisher)
            tellUntold(stream.asPublisher)
        }
    }

    /// All of a channel is acknowledged; the broker's half completes, with the last acknowledgement if there is credit.
    private func finish(_ publisher: Publisher) {
        if let news = publisher.untold, publisher.credit.available > 0 {
            responses.sayAcknowledged(news.sequence, accepted: news.accepted, to: publisher, complete: true)
        } else {
            responses.sayFinished(to: publisher)
        }
        ends.drop(publisher)
    }

    /// The message that may have been parked has found its place.
    func settleParked(_ publisher: Publisher) {
        guard !publisher.isSettled else { return }
        publisher.isSettled = true
        publisher.connection.input.parkedBytes -= publisher.parkedBytes
        publisher.connection.input.parkedCount -= 1
    }
}

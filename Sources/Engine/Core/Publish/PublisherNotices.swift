// PublisherNotices: notices from a topic's owner to its publishers.

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

    /// Notifies a publisher of a topic, on any shard.
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
            // The last chance to report the channel's progress.
            tellUntold(publisher, atOnce: true)
            ends.fail(publisher, refusal)
        }
    }

    /// Sends the latest acknowledgement if there is credit for it. While earlier answers are unread it waits, and a
    /// later one replaces it.
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

    /// Sends credit. For a call whose answers are unread it accumulates: grants would pile up for a peer that sends
    /// without ever reading. With RSocket, the broker stops reading the connection instead.
    private func tellGranted(_ publisher: Publisher) {
        guard publisher.untoldCredit > 0 else { return }
        guard !hasUnread(publisher) else { return }
        let n = UInt64(rateLimiter.affordable(publisher, Int(clamping: publisher.untoldCredit), now: moment))
        guard n > 0 else { return }
        publisher.untoldCredit -= n
        responses.sayGranted(n, to: publisher)
    }

    /// Whether a call's peer must first read earlier answers. Its credit is sent after that.
    func hasUnread(_ publisher: Publisher) -> Bool {
        guard publisher.hasBody, publisher.unreadAnswers >= limits.acknowledgementBacklog else {
            return false
        }
        publisher.connection.waiters.hasUntold = true
        return true
    }

    /// The peer has read more: sends the acknowledgements that waited for it.
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

    /// The whole channel is acknowledged. The broker's half completes, with the last acknowledgement if there is
    /// credit.
    private func finish(_ publisher: Publisher) {
        if let news = publisher.untold, publisher.credit.available > 0 {
            responses.sayAcknowledged(news.sequence, accepted: news.accepted, to: publisher, complete: true)
        } else {
            responses.sayFinished(to: publisher)
        }
        ends.drop(publisher)
    }

    /// The publish that may have been parked has been appended or has failed.
    func settleParked(_ publisher: Publisher) {
        guard !publisher.isSettled else { return }
        publisher.isSettled = true
        publisher.connection.input.parkedBytes -= publisher.parkedBytes
        publisher.connection.input.parkedCount -= 1
    }
}

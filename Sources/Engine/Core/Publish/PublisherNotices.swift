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
    func notify(_ key: StreamKey, _ notice: PublisherNotice) {
        if key.shard == index {
            receive(notice, key.handle)
        } else {
            if case .refused = notice { intake.remove(key) }
            if case .finished = notice { intake.remove(key) }
            effects.deferredMessages[key.shard].append(ShardMessage(content: .notice(key, notice)))
        }
    }

    func receive(_ notice: PublisherNotice, _ handle: Handle) {
        guard let stream = streams[handle], stream.kind == .publisher else { return }
        let publisher = stream.asPublisher
        switch notice {
        case .granted(let n):
            finishParking(publisher)
            publisher.unsentCredit += UInt64(n)
            sendUnsentCredit(publisher)
        case .acknowledged(let sequence, let epoch, let accepted, let isDuplicate):
            finishParking(publisher)
            if publisher.isChannel {
                publisher.unsent = (sequence, accepted, isDuplicate || publisher.unsent?.isDuplicate ?? false)
                publisher.known = (sequence, accepted)
                sendUnsent(publisher)
            } else {
                responses.sendPublished(
                    sequence, epoch: epoch, isDuplicate: isDuplicate, on: publisher.connection,
                    stream: publisher.stream)
                ends.drop(publisher)
            }
        case .finished:
            finish(publisher)
        case .refused(let refusal):
            // The last chance to report the channel's progress.
            sendUnsent(publisher, atOnce: true)
            ends.fail(publisher, refusal)
        }
    }

    /// Sends the latest acknowledgement if there is credit for it. While earlier answers are unread it waits, and a
    /// later one replaces it.
    func sendUnsent(_ publisher: Publisher, atOnce: Bool = false) {
        guard let pending = publisher.unsent, publisher.credit.available > 0 else { return }
        guard atOnce || publisher.unreadAnswers < limits.acknowledgementBacklog else {
            publisher.connection.waiters.hasUnsent = true
            return
        }
        publisher.unsent = nil
        publisher.credit.spend(1)
        responses.sendAcknowledgement(
            pending.sequence, accepted: pending.accepted, isDuplicate: pending.isDuplicate, to: publisher,
            complete: false)
    }

    /// Sends credit. For a call whose answers are unread it accumulates: grants would pile up for a peer that sends
    /// without ever reading. Over RSocket, the broker stops reading the connection instead.
    private func sendUnsentCredit(_ publisher: Publisher) {
        guard publisher.unsentCredit > 0 else { return }
        guard !hasUnread(publisher) else { return }
        let n = UInt64(rateLimiter.affordable(publisher, Int(clamping: publisher.unsentCredit), now: moment))
        guard n > 0 else { return }
        publisher.unsentCredit -= n
        responses.sendCredit(n, to: publisher)
    }

    /// Whether a call's peer must first read earlier answers. Its credit is sent after that.
    func hasUnread(_ publisher: Publisher) -> Bool {
        guard publisher.hasBody, publisher.unreadAnswers >= limits.acknowledgementBacklog else {
            return false
        }
        publisher.connection.waiters.hasUnsent = true
        return true
    }

    /// The peer has read more: sends the acknowledgements that waited for it.
    func sendUnsent(on connection: Connection) {
        guard connection.waiters.hasUnsent, connection.output.controlCount < limits.acknowledgementBacklog else {
            return
        }
        connection.waiters.hasUnsent = false
        for stream in connection.streams where stream.kind == .publisher {
            sendUnsentCredit(stream.asPublisher)
            sendUnsent(stream.asPublisher)
        }
    }

    /// The whole channel is acknowledged. The broker's half completes, with the last acknowledgement if there is
    /// credit.
    private func finish(_ publisher: Publisher) {
        if let pending = publisher.unsent, publisher.credit.available > 0 {
            responses.sendAcknowledgement(
                pending.sequence, accepted: pending.accepted, isDuplicate: pending.isDuplicate, to: publisher,
                complete: true)
        } else {
            responses.sendFinished(to: publisher)
        }
        ends.drop(publisher)
    }

    /// The publish that may have been parked has been appended or has failed.
    func finishParking(_ publisher: Publisher) {
        guard !publisher.isPlaced else { return }
        publisher.isPlaced = true
        publisher.connection.input.parkedBytes -= publisher.parkedBytes
        publisher.connection.input.parkedCount -= 1
    }
}

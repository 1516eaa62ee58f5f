// Upstream+Link: what the upstream does when its link is ready or lost, and with what arrives on it.

import Bytes
import Core
import JetStream
import NATS
import Replay

extension Upstream: UpstreamLinkDelegate {
    func linkBecameReady(now: UInt64) {
        notes.counts.connections += 1
        _ = link.subscribe("\(inbox).>", FeedRoutes.inbox)
        check.begin(now: now)
        checkJetStream(now: now)
        for feed in feeds.all {
            feed.publishing.restart()
            feed.start(now: now)
        }
        discovery.start()
    }

    func linkWasLost(_ error: NATSError, now: UInt64) {
        lost(error.sentence, since: now)
        check.stop()
        discovery.stop()
        calls.removeAll()
        routes.removeAll()
        for feed in feeds.all { feed.stop() }
    }

    func flushed(_ number: UInt64, now: UInt64) { routes.take(flush: number)?.flushed(now: now) }

    func refused(_ error: NATSServerError, now: UInt64) {
        // Whatever waits for it is not answered, and is refused in time.
        log.refused(error.sentence, topic: nil)
        if case .publishDenied(JetStreamRequest.accountInfo.subject) = error { jetStreamFailed(error.sentence) }
    }

    func received(_ message: NATSMessage, now: UInt64) {
        guard message.subscription == FeedRoutes.inbox else {
            guard let feed = routes.feed(subscription: message.subscription) else {
                return discovery.heard(message)
            }
            guard let live = try? JetStreamMessage(message) else { return }
            check.noteWork()
            return feed.heard(live, now: now)
        }
        // After the inbox: .a.CHECK, .l.LIST, .c.CALL, or .p.TICKET.TOPIC.
        let start = inbox.utf8.count + 3
        guard message.subject.count > start else { return }
        let tail = message.subject.slice(start..<message.subject.count)
        if message.subject[start - 2] == UInt8(ascii: "c") {
            if let number = tail.decimal, let call = calls[number] { answered(call, number, message) }
        } else if message.subject[start - 2] == UInt8(ascii: "a") {
            if let number = tail.decimal { answeredCheck(number, message) }
        } else if message.subject[start - 2] == UInt8(ascii: "l") {
            if let number = tail.decimal { discovery.answered(number, message) }
        } else if let dot = tail.firstIndex(of: UInt8(ascii: ".")), let value = tail.slice(0..<dot).decimal,
            let feed = feeds[tail.slice(dot + 1..<tail.count).text]
        {
            feed.publishing.acknowledged(PublishTicket(value), message, now: now)
        }
    }

    private func answered(_ call: Calls.Call, _ number: UInt64, _ message: NATSMessage) {
        let feed = call.feed
        switch call.purpose {
        case .number(let ticket), .publisher(let ticket):
            calls.remove(number)
            return answered(lookup: ticket, call, message)
        default: break
        }
        guard call.round == feed.round else { return calls.remove(number) }
        if case .read = call.purpose { return answeredRead(feed, number, message) }
        calls.remove(number)
        do throws(JetStreamError) {
            switch call.purpose {
            case .find: feed.found(try StreamNames(message).names, now: now)
            case .create(let epoch):
                _ = try StreamInfo(message)
                feed.noteCreated(epoch, now: now)
            case .inspect: feed.inspected(try StreamInfo(message), now: now)
            case .ask: feed.answered(try JetStream.StoredMessage(message), now: now)
            case .record:
                try JetStreamAnswer.expectSuccess(message)
                feed.recorded(now: now)
            case .probe: feed.probed(at: SequenceNumber(try PublishAnswer(message).sequence), now: now)
            case .verify: feed.verified(try JetStream.StoredMessage(message), now: now)
            case .retire:
                try JetStreamAnswer.expectSuccess(message)
                feed.retired(now: now)
            case .read, .number, .publisher: break
            }
        } catch {
            failed(call, error)
        }
    }

    /// A publisher's last message was looked up.
    private func answered(lookup ticket: PublishTicket, _ call: Calls.Call, _ message: NATSMessage) {
        let publishing = call.feed.publishing
        let last: JetStream.StoredMessage?
        do throws(JetStreamError) {
            last = try JetStream.StoredMessage(message)
        } catch {
            guard error.kind == .messageNotFound else {
                if !error.isTemporary { log.refused(error.sentence, topic: call.feed.topic) }
                // The next check asks again.
                return publishing.lookupFailed(ticket, now: now)
            }
            last = nil
        }
        if case .number = call.purpose {
            publishing.found(last, for: ticket, now: now)
        } else {
            publishing.found(last, forLookup: ticket)
        }
    }

    private func failed(_ call: Calls.Call, _ error: JetStreamError) {
        switch (call.purpose, error.kind) {
        case (.create, .subjectsOverlap): call.feed.noteCreated(nil, now: now)
        case (.create, _) where !error.isTemporary:
            log.refused(error.sentence, topic: call.feed.topic)
            call.feed.notCreated(Refusal.upstream(error), now: now)
        case (.ask, .messageNotFound): call.feed.answered(nil, now: now)
        case (.verify, .messageNotFound): call.feed.verified(nil, now: now)
        case (.probe, .sealed): call.feed.inspect(now: now)
        case (.retire, .streamNotFound): call.feed.retired(now: now)
        case (.inspect, .streamNotFound):
            log.gone(call.feed.topic, stream: call.feed.stream ?? "")
            call.feed.deleted()
        case (.record, .streamNotFound): call.feed.recorded(now: now)
        default:
            if !error.isTemporary { log.refused(error.sentence, topic: call.feed.topic) }
            call.feed.callFailed(now: now)
        }
    }

    private func answeredRead(_ feed: TopicFeed, _ number: UInt64, _ message: NATSMessage) {
        guard let item = try? DirectGetItem(message) else {
            calls.remove(number)
            return feed.callFailed(now: now)
        }
        switch item {
        case .message(let message):
            check.noteWork()
            return feed.read(message, now: now)
        case .end: feed.readEnded(now: now)
        case .notFound: feed.readNothing(now: now)
        case .failed: feed.callFailed(now: now)
        }
        calls.remove(number)
    }
}

// FeedPublishing: how this node publishes to one shared topic: messages, those with numbers, and the topic's end.
//
// A numbered message goes to a subject of its publisher, and names the sequence of the publisher's last message. If the
// subject's last message is another one, JetStream refuses it: two nodes cannot both append. The node then looks up the
// last message, and judges the number again.

import Core
import JetStream
import NATS
import Replay

final class FeedPublishing {
    /// An end that this node has requested. It is sent once the messages before it are in the stream.
    private struct Ending {
        let ticket: PublishTicket
        let end: SharedEnd
        let since: UInt64
        /// When it was last sent; nil if it has to be sent.
        var sentAt: UInt64?
        var wasSent = false
    }

    /// A look-up of a publisher, for a client.
    private struct Lookup {
        let publisher: [UInt8]
        let since: UInt64
        var isAsked = false
    }

    /// How long a publish waits for its acknowledgement before it is sent again.
    private static let publishTime = 2 * TopicFeed.second
    /// Publishers whose last message is remembered. Others are looked up.
    private static let mostKnown = 1024

    unowned(unsafe) var feed: TopicFeed!
    unowned(unsafe) let upstream: Upstream
    private var outbox = Outbox()
    private var ending: Ending?
    private var lookups: [PublishTicket: Lookup] = [:]
    /// The last message of publishers; nil for those that the stream does not know.
    private var known: [[UInt8]: SharedProgress?] = [:]
    /// Messages that wait for the answer to a look-up.
    private var held: Set<PublishTicket> = []
    /// Messages for which the answer has come and that are judged next.
    private var fresh: Set<PublishTicket> = []
    /// When messages were last skipped because the stream does not have them any longer. Messages of this node may have
    /// been among them.
    private var skippedAt: UInt64?
    /// Whether some look-ups have to be asked.
    private var hasUnasked = false

    init(_ upstream: Upstream) { self.upstream = upstream }

    /// Whether nothing has to be published.
    var isEmpty: Bool { outbox.isEmpty && ending == nil }
    /// Messages that are not in the stream yet, and when the oldest was handed over.
    var count: Int { outbox.count }
    var oldest: UInt64? { outbox.oldest()?.since }

    // From the shard

    func add(_ publish: SharedPublish, now: UInt64) { outbox.add(publish, now: now) }

    func add(_ end: SharedEnd, _ ticket: PublishTicket, now: UInt64) {
        ending = Ending(ticket: ticket, end: end, since: now)
    }

    func addLookup(_ ticket: PublishTicket, of publisher: [UInt8], now: UInt64) {
        lookups[ticket] = Lookup(publisher: publisher, since: now)
        hasUnasked = true
    }

    // Sending

    /// Sends what can be sent, as far as the connection has room.
    func send(now: UInt64) {
        guard upstream.link.isReady, let stream = feed.stream else { return }
        askLookups(stream, now: now)
        guard feed.mayPublish || feed.isOver else { return }
        while let message = outbox.nextReady() {
            let ticket = message.publish.ticket
            do throws(NATSError) {
                switch try send(message.publish, to: stream, now: now) {
                case .sent:
                    if message.wasSent { upstream.notes.counts.resent += 1 }
                    outbox.sent(ticket, now: now)
                case .held: outbox.hold()
                case .removed: break
                case .noRoom: return upstream.noteStalled(feed)
                }
            } catch {
                refuse(ticket, Refusal.upstream(error))
            }
        }
        if feed.isOver { sendDeletion(now: now) } else if outbox.isEmpty { sendEnd(to: stream, now: now) }
    }

    private enum Outcome {
        case sent
        case held
        case removed
        case noRoom
    }

    private func send(_ publish: SharedPublish, to stream: String, now: UInt64) throws(NATSError) -> Outcome {
        guard let publisher = publish.publisher else {
            if let end = feed.end {
                refuse(publish.ticket, end.end.refusal(of: feed.topic))
                return .removed
            }
            return try upstream.send(publish, to: stream, SharedNames.unnumbered, expected: nil) ? .sent : .noRoom
        }
        let token = SharedNames.token(of: publisher)
        guard let last = known[publisher] else { return hold(publish, token, stream, now: now) }
        if let end = feed.end, last.map({ $0.number < publish.number ?? 0 || $0.sequence > end.sequence }) ?? true {
            let isUnknown = outbox[publish.ticket].map(mayHaveBeenSkipped) ?? false
            refuse(publish.ticket, isUnknown ? .upstreamOutcomeUnknown : end.end.refusal(of: feed.topic))
            return .removed
        }
        switch publish.verdict(after: last) {
        case .next:
            let expected = last?.sequence ?? SequenceNumber(0)
            return try upstream.send(publish, to: stream, token, expected: expected) ? .sent : .noRoom
        case .duplicate:
            guard let last else { return .removed }
            outbox.remove(publish.ticket, now: now)
            upstream.flush(feed)
            upstream.report(.duplicate(feed.use, publish.ticket, last: last.sequence), to: feed.shard)
        // Other nodes may have published further messages.
        case .refused where !fresh.contains(publish.ticket): return hold(publish, token, stream, now: now)
        case .refused(let refusal): refuse(publish.ticket, refusal)
        }
        return .removed
    }

    /// Looks up the last message of a message's publisher.
    private func hold(_ publish: SharedPublish, _ token: String, _ stream: String, now: UInt64) -> Outcome {
        let request = JetStreamRequest.lastMessage(SharedNames.publish(feed.topic, token: token), stream)
        guard upstream.call(request, feed, .number(publish.ticket), now: now) else { return .noRoom }
        held.insert(publish.ticket)
        return .held
    }

    private func sendEnd(to stream: String, now: UInt64) {
        guard let ending, ending.sentAt == nil else { return }
        do throws(NATSError) {
            guard try upstream.send(ending.end, ending.ticket, of: feed.topic, to: stream) else {
                return upstream.noteStalled(feed)
            }
            self.ending?.sentAt = now
            self.ending?.wasSent = true
        } catch {
            refuse(ending.ticket, Refusal.upstream(error))
        }
    }

    /// A topic that has ended takes no control messages either.
    private func sendDeletion(now: UInt64) {
        guard let ending, ending.end == .deleted, ending.sentAt == nil else { return }
        self.ending?.sentAt = now
        self.ending?.wasSent = true
        feed.delete(now: now)
    }

    /// In order, so that the simulator repeats each run.
    private var lookupTickets: [PublishTicket] { lookups.keys.sorted { $0.value < $1.value } }

    private func askLookups(_ stream: String, now: UInt64) {
        guard hasUnasked else { return }
        hasUnasked = false
        for ticket in lookupTickets {
            guard let lookup = lookups[ticket], !lookup.isAsked else { continue }
            let subject = SharedNames.publish(feed.topic, token: SharedNames.token(of: lookup.publisher))
            lookups[ticket]?.isAsked = upstream.call(
                .lastMessage(subject, stream), feed, .publisher(ticket), now: now)
            if lookups[ticket]?.isAsked == false { hasUnasked = true }
        }
    }

    // Answers

    /// The link is ready again. What was sent and not acknowledged is sent again.
    func restart() {
        outbox.resend(sentBefore: .max)
        ending?.sentAt = nil
        for ticket in held { outbox.release(ticket) }
        held = []
        for ticket in lookups.keys { lookups[ticket]?.isAsked = false }
        hasUnasked = true
    }

    func acknowledged(_ ticket: PublishTicket, _ answer: NATSMessage, now: UInt64) {
        do throws(JetStreamError) {
            let answer = try PublishAnswer(answer)
            let sequence = SequenceNumber(answer.sequence)
            upstream.check.noteWork()
            guard outbox[ticket] != nil, let next = feed.next, sequence < next else {
                return outbox.acknowledged(ticket, at: sequence)
            }
            // It was among the messages that were skipped, or another message with that sequence was read.
            refuseUnknown(ticket)
            if !answer.isDuplicate { feed.suspectLoss(now: now) }
        } catch {
            // It is sent again in time. While two nodes have created the topic's stream, the one that is given up
            // answers, too.
            if error.isTemporary || error.kind == .wrongStream { return }
            if error.kind == .sealed { return feed.recheck(now: now) }
            if error.kind == .wrongLastSequence, let publisher = outbox[ticket]?.publish.publisher {
                known[publisher] = nil
                outbox.release(ticket)
                return send(now: now)
            }
            refuse(ticket, Refusal.upstream(error))
        }
    }

    /// The last message of the publisher of a message that is held; nil if the stream has none.
    func found(_ last: JetStream.StoredMessage?, for ticket: PublishTicket, now: UInt64) {
        guard held.remove(ticket) != nil, let publisher = outbox[ticket]?.publish.publisher else { return }
        let progress = last.flatMap { FeedPublishing.progress($0) }
        remember(progress, of: publisher)
        if let last, upstream.ticket(of: last) == ticket {
            // It was stored, and is still to be read.
            outbox.acknowledged(ticket, at: SequenceNumber(last.sequence))
        } else {
            outbox.release(ticket)
            fresh.insert(ticket)
        }
        send(now: now)
        fresh.remove(ticket)
    }

    func found(_ last: JetStream.StoredMessage?, forLookup ticket: PublishTicket) {
        guard lookups.removeValue(forKey: ticket) != nil else { return }
        let progress = last.flatMap { FeedPublishing.progress($0) }
        upstream.report(.found(feed.use, ticket, progress), to: feed.shard)
    }

    /// A look-up was not answered. It is asked again.
    func lookupFailed(_ ticket: PublishTicket, now: UInt64) {
        if held.remove(ticket) != nil { outbox.release(ticket) }
        lookups[ticket]?.isAsked = false
        hasUnasked = true
    }

    private static func progress(_ message: JetStream.StoredMessage) -> SharedProgress? {
        message.withMessage { message in
            message.headers.flatMap(Envelope.init)?.number.map {
                SharedProgress(number: $0, sequence: SequenceNumber(message.sequence))
            }
        }
    }

    private func remember(_ last: SharedProgress?, of publisher: [UInt8]) {
        if known.count >= FeedPublishing.mostKnown { known.removeAll() }
        known[publisher] = .some(last)
    }

    /// The stream does not have some messages any longer, and they were not read.
    func skipped(to next: SequenceNumber, now: UInt64) {
        skippedAt = now
        for ticket in outbox.tickets(before: next) { refuseUnknown(ticket) }
    }

    /// Whether a message may have been in the stream without this node having read it.
    private func mayHaveBeenSkipped(_ message: Outbox.Message) -> Bool {
        message.wasSent && message.since <= skippedAt ?? 0
    }

    /// A message of this node was read from the stream.
    func read(_ ticket: PublishTicket, at sequence: SequenceNumber, now: UInt64) {
        guard let message = outbox.remove(ticket, now: now) else { return }
        upstream.notes.counts.published += 1
        if let publisher = message.publish.publisher, let number = message.publish.number {
            remember(SharedProgress(number: number, sequence: sequence), of: publisher)
        }
        send(now: now)
    }

    // Refusing

    /// Sends again what was not acknowledged, and refuses what has waited too long.
    func check(now: UInt64) {
        if isEmpty, lookups.isEmpty { return }
        if now >= FeedPublishing.publishTime {
            let time = now - FeedPublishing.publishTime
            outbox.resend(sentBefore: time)
            if let sentAt = ending?.sentAt, sentAt < time { ending?.sentAt = nil }
        }
        if now >= upstream.options.time { refuseOverdue(since: now - upstream.options.time) }
        send(now: now)
    }

    private func refuseOverdue(since time: UInt64) {
        while let message = outbox.overdue(since: time) { refuseUnknown(message.publish.ticket) }
        if let ending, ending.since < time {
            refuse(ending.ticket, ending.wasSent ? .upstreamOutcomeUnknown : .upstreamUnavailable)
        }
        for ticket in lookupTickets where lookups[ticket]?.since ?? time < time {
            refuse(ticket, .upstreamUnavailable)
        }
    }

    /// Refuses a message of which it is not known whether it was stored, and those after it in its chain.
    private func refuseUnknown(_ ticket: PublishTicket) {
        guard let message = outbox[ticket] else { return }
        if let publisher = message.publish.publisher { known[publisher] = nil }
        // What follows in its chain was not sent.
        var refusal = message.wasSent ? Refusal.upstreamOutcomeUnknown : .upstreamUnavailable
        for ticket in outbox.refuseChain(ticket) {
            upstream.report(.refused(feed.use, ticket, refusal), to: feed.shard)
            refusal = .upstreamUnavailable
        }
    }

    /// Refuses a message, and those after it on its channel; an end, or a look-up.
    func refuse(_ ticket: PublishTicket, _ refusal: Refusal) {
        if ending?.ticket == ticket {
            ending = nil
            upstream.report(.refused(feed.use, ticket, refusal), to: feed.shard)
        } else if lookups.removeValue(forKey: ticket) != nil {
            upstream.report(.refused(feed.use, ticket, refusal), to: feed.shard)
        }
        for each in outbox.refuse(ticket, now: upstream.now) {
            upstream.report(.refused(feed.use, each, refusal), to: feed.shard)
        }
    }

    /// Refuses everything. What became of messages that were sent is not known.
    func refuseAll(_ refusal: Refusal) {
        func refuse(_ ticket: PublishTicket, wasSent: Bool = false) {
            upstream.report(
                .refused(feed.use, ticket, wasSent ? .upstreamOutcomeUnknown : refusal), to: feed.shard)
        }
        for message in outbox.removeAllMessages() { refuse(message.publish.ticket, wasSent: message.wasSent) }
        if let ending { refuse(ending.ticket, wasSent: ending.wasSent) }
        for ticket in lookupTickets { refuse(ticket) }
        ending = nil
        lookups = [:]
        held = []
    }

    /// The topic has ended: messages are refused, except for numbered ones that its stream has. An end that this node
    /// has requested is answered with that.
    /// - Parameter isInOrder: whether all messages before the end were read. If not, the stream may have had messages
    ///   that were sent.
    func ended(_ end: SharedEnd, isInOrder: Bool) {
        let (messages, refusal) = (outbox.removeAllMessages(), end.refusal(of: feed.topic))
        (held, known) = ([], [:])
        for message in messages {
            if message.publish.number != nil, message.sequence == nil, end != .deleted {
                outbox.add(message.publish, now: message.since, wasSent: message.wasSent)
            } else {
                let isUnknown = message.wasSent && !isInOrder || mayHaveBeenSkipped(message)
                let why = isUnknown ? Refusal.upstreamOutcomeUnknown : refusal
                upstream.report(.refused(feed.use, message.publish.ticket, why), to: feed.shard)
            }
        }
        if end == .deleted {
            for ticket in lookupTickets { upstream.report(.refused(feed.use, ticket, refusal), to: feed.shard) }
            lookups = [:]
        }
        // A deletion follows another end.
        if end == .deleted || ending?.end != .deleted { ending = nil } else { ending?.sentAt = nil }
    }
}

// TopicFeed: how this node follows one shared topic. It subscribes to the messages that JetStream republishes, reads
// those that it lacks from the stream, and publishes this node's messages.
//
//     waiting for the link ─▶ subscribing ─▶ finding ──no stream──▶ absent ──first publish──▶ creating
//                                               │  ▲                   │ probe                    │
//                                               ▼  └───────────────────┘                          │
//                                           inspecting ─▶ reading ◀── a jump, silence ── live ◀───┘
//                                                         │  ▲  └──── all read ────────▶
//                                                         ▼  │
//                                                        asking the stream's leader for a message that is missing
//
// The subscription comes first, so that no message is missed between what is read and what follows live. Whatever goes
// wrong leads back to `subscribing` or `finding`; `next` says what the topic's owner has.

import Bytes
import Core
import JetStream
import NATS
import Replay

final class TopicFeed {
    enum State {
        case waiting
        /// The server confirms the subscription with this flush.
        case subscribing(flush: UInt64)
        case finding
        case absent
        case creating
        /// Other nodes may create the stream, too.
        case awaitingOthers
        case inspecting
        /// Messages before `end` are read.
        case reading(end: SequenceNumber)
        /// `from`: the next message that the stream has, according to the server that was asked.
        case asking(from: SequenceNumber, end: SequenceNumber)
        case live
    }

    static let second: UInt64 = 1_000_000_000
    /// Messages and bytes that one request reads.
    private static let readCount = 256
    private static let readBytes = 1 << 20
    /// How long after a stream was created others may appear that were created at the same time: a server that creates
    /// two streams at once does not notice that they have the same subjects.
    private static let othersTime = second / 2
    /// Between probes of a silent or absent stream, at first and at most.
    private static let probeTimes = second...5 * second

    let use: TopicUse
    var topic: String { use.topic }
    /// The shard that owns the topic.
    let shard: Int
    /// The limits of a stream that this node creates, and how many of the newest messages are read at first.
    let retention: Retention
    unowned(unsafe) let upstream: Upstream
    private(set) var state = State.waiting
    /// Counts restarts: answers to what was asked before are ignored.
    private(set) var round: UInt32 = 0
    private(set) var stream: String?
    /// The stream that this node has created.
    private var created: String?
    private var hasWaited = false
    private(set) var epoch: UInt64 = 0
    /// The next message that the owner lacks; nil before the stream is known.
    private(set) var next: SequenceNumber?
    private var isCurrent = false
    /// Whether the stream did not exist when it was looked for.
    private var wasEmpty = false
    private var subscription: UInt64?
    private var held = HeldMessages()
    var outbox = Outbox()
    /// Messages to report with the next flush.
    private var fresh = FeedBatch()
    /// When to probe or to try again.
    private(set) var wakeAt = UInt64.max
    private var probeWait = TopicFeed.probeTimes.lowerBound

    init(_ use: TopicUse, shard: Int, _ retention: Retention, _ upstream: Upstream) {
        self.use = use
        self.shard = shard
        self.retention = retention
        self.upstream = upstream
    }

    var isLive: Bool { if case .live = state { true } else { false } }
    /// Whether the stream is known, so that messages can be published to it.
    var mayPublish: Bool {
        switch state {
        case .reading, .asking, .live: true
        case .waiting, .subscribing, .finding, .absent, .creating, .awaitingOthers, .inspecting: false
        }
    }

    // The link

    /// Begins, or begins again, at the subscription.
    func start(now: UInt64) {
        restart()
        guard upstream.link.isReady else { return }
        if let subscription { upstream.unsubscribe(subscription) }
        subscription = upstream.subscribe(SharedNames.live(topic), for: self)
        guard subscription != nil, let flush = upstream.flush(for: self) else { return tryAgain(now: now) }
        state = .subscribing(flush: flush)
        wakeAt = now + 5 * TopicFeed.second
    }

    /// The link is lost.
    func stop() {
        restart()
        subscription = nil
    }

    /// The topic is not followed any longer.
    func end() {
        if let subscription { upstream.unsubscribe(subscription) }
        stop()
    }

    private func restart() {
        round &+= 1
        state = .waiting
        held.removeAll()
        wakeAt = .max
    }

    private func tryAgain(now: UInt64) {
        restart()
        wakeAt = now + TopicFeed.second
    }

    func flushed(now: UInt64) {
        guard case .subscribing = state else { return }
        find(now: now)
    }

    /// `wakeAt` has come.
    func wake(now: UInt64) {
        wakeAt = .max
        switch state {
        case .waiting, .subscribing: start(now: now)
        case .absent, .awaitingOthers: find(now: now)
        case .live:
            probeWait = Swift.min(probeWait * 2, TopicFeed.probeTimes.upperBound)
            inspect(now: now)
        case .finding, .creating, .inspecting, .reading, .asking: break
        }
    }

    private func call(_ request: JetStreamRequest, _ purpose: Calls.Purpose, now: UInt64) {
        if !upstream.call(request, Calls.Call(feed: self, round: round, purpose: purpose), now: now) {
            tryAgain(now: now)
        }
    }

    /// A call was not answered, or JetStream could not do it now.
    func callFailed(now: UInt64) { tryAgain(now: now) }

    // The stream

    private func find(now: UInt64) {
        state = .finding
        call(.findStream(bySubject: SharedNames.publish(topic)), .find, now: now)
    }

    /// The streams that have the topic's subjects.
    func found(_ names: [String], now: UInt64) {
        if let other = names.first(where: { SharedNames.epoch(ofStream: $0) == nil }) {
            return leave(
                Refusal.upstream(
                    "The NATS stream '\(other)' has the subjects of the topic '\(topic)'; take fb.> off that stream."))
        }
        guard let epoch = names.compactMap({ SharedNames.epoch(ofStream: $0) }).min() else {
            return foundNone(now: now)
        }
        if wasEmpty, !hasWaited { return awaitOthers(now: now) }
        let name = SharedNames.stream(epoch)
        if let created, created != name, names.contains(created) { upstream.delete(created) }
        created = nil
        guard stream == nil || stream == name else {
            return leave(Refusal.upstream("The topic '\(topic)' has begun again with another epoch; subscribe again."))
        }
        stream = name
        self.epoch = epoch
        inspect(now: now)
    }

    /// The stream is gone, or there is none yet.
    func foundNone(now: UInt64) {
        guard stream == nil else { return leave(Refusal.sharedTopicDeleted) }
        wasEmpty = true
        guard outbox.isEmpty else { return create(now: now) }
        state = .absent
        wakeAt = now + probeWait
        probeWait = Swift.min(probeWait * 2, TopicFeed.probeTimes.upperBound)
    }

    private func create(now: UInt64) {
        state = .creating
        let epoch = upstream.newEpoch()
        call(
            .create(upstream.configuration(of: topic, epoch: epoch, retention)), .create(epoch: epoch), now: now)
    }

    /// - Parameter epoch: nil if another node was first.
    func noteCreated(_ epoch: UInt64?, now: UInt64) {
        created = epoch.map { SharedNames.stream($0) }
        awaitOthers(now: now)
    }

    private func awaitOthers(now: UInt64) {
        state = .awaitingOthers
        hasWaited = true
        wakeAt = now + TopicFeed.othersTime
    }

    /// The stream cannot be created.
    func notCreated(_ refusal: Refusal, now: UInt64) {
        refuseAll(refusal)
        state = .absent
        wakeAt = now + probeWait
    }

    private func inspect(now: UInt64) {
        guard let stream else { return find(now: now) }
        state = .inspecting
        call(.info(stream), .inspect, now: now)
    }

    /// The stream's messages, according to its leader: the sequence of the oldest, and the one after the newest.
    func inspected(_ first: SequenceNumber, _ end: SequenceNumber, now: UInt64) {
        if next == nil {
            let begin = Swift.max(first, end.advanced(by: -Swift.min(retention.messages, end - first)))
            next = begin
            upstream.report(.joined(use, epoch: epoch, next: begin), to: shard)
        }
        read(upTo: end, now: now)
        upstream.send(outbox: self, now: now)
    }

    // Reading

    private func read(upTo end: SequenceNumber, now: UInt64) {
        guard let next, let stream else { return find(now: now) }
        guard next < end else { return readAll(now: now) }
        state = .reading(end: end)
        call(
            .directGet(stream, from: next.value, count: TopicFeed.readCount, maxBytes: TopicFeed.readBytes), .read,
            now: now)
    }

    /// Everything that was to be read has been.
    private func readAll(now: UInt64) {
        guard let next else { return }
        let known = Swift.max(held.first ?? next, held.missed)
        if known > next { return read(upTo: known, now: now) }
        state = .live
        let batch = held.take()
        batch.forEach { item, metadata, payload in
            if item.sequence == self.next { take(item, metadata: metadata, payload: payload) }
        }
        if !isCurrent {
            isCurrent = true
            upstream.flush(self)
            upstream.report(.current(use, wasEmpty: wasEmpty), to: shard)
        }
        wakeAt = now + probeWait
    }

    /// A message that was read from the stream.
    func read(_ message: JetStreamMessage, now: UInt64) {
        guard case .reading(let end) = state, let next else { return }
        let sequence = SequenceNumber(message.sequence)
        guard sequence >= next else { return }
        if sequence > next {
            // The server that answered may lack messages; the stream's leader knows.
            round &+= 1
            state = .asking(from: sequence, end: end)
            guard let stream else { return }
            return call(.message(next.value, stream), .ask, now: now)
        }
        take(message)
    }

    /// The answer to a read is complete.
    func readEnded(now: UInt64) {
        guard case .reading(let end) = state else { return }
        read(upTo: end, now: now)
    }

    /// The server that answered has no more messages, although the leader does.
    func readNothing(now: UInt64) {
        guard case .reading = state else { return }
        tryAgain(now: now)
    }

    /// The leader's answer about the message at `next`; nil if it does not have it.
    func answered(_ message: JetStream.StoredMessage?, now: UInt64) {
        guard case .asking(let from, let end) = state else { return }
        if let message {
            message.withMessage { take($0) }
        } else {
            self.next = from
            fresh.lose(upTo: from)
            upstream.noteFresh(self)
        }
        read(upTo: end, now: now)
    }

    /// A live message.
    func heard(_ message: JetStreamMessage, now: UInt64) {
        guard let stream, message.stream.elementsEqual(stream.utf8), let next else {
            if case .absent = state { find(now: now) }
            return
        }
        probeWait = TopicFeed.probeTimes.lowerBound
        let sequence = SequenceNumber(message.sequence)
        guard sequence >= next else { return }
        if isLive, sequence == next {
            wakeAt = now + probeWait
            return take(message)
        }
        item(of: message) { item, metadata, payload in held.append(item, metadata: metadata, payload: payload) }
        if isLive { read(upTo: sequence, now: now) }
    }

    // Messages

    private func take(_ message: JetStreamMessage) {
        item(of: message) { item, metadata, payload in take(item, metadata: metadata, payload: payload) }
        // A control message has no item.
        let end = SequenceNumber(message.sequence).advanced(by: 1)
        if let next, next < end { self.next = end }
    }

    private func take(
        _ item: FeedBatch.Item, metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer
    ) {
        fresh.append(item, metadata: metadata, payload: payload)
        next = item.sequence.advanced(by: 1)
        if let ticket = item.ticket, outbox.remove(ticket) { upstream.send(outbox: self, now: upstream.now) }
        upstream.noteFresh(self)
    }

    /// Calls `body` with a message's parts, unless it is a control message.
    private func item(
        of message: JetStreamMessage,
        _ body: (FeedBatch.Item, _ metadata: UnsafeRawBufferPointer?, _ payload: UnsafeRawBufferPointer) -> Void
    ) {
        guard let headers = message.headers, let envelope = Envelope(headers) else { return }
        let item = FeedBatch.Item(
            sequence: SequenceNumber(message.sequence), timestamp: message.time,
            ticket: envelope.id.flatMap { upstream.ticket(ofID: $0) })
        guard let encoded = envelope.metadata else { return body(item, nil, message.payload) }
        // Metadata that cannot be decoded is not this node's.
        guard let metadata = Base64.decode(encoded, .standard) else { return body(item, nil, message.payload) }
        metadata.withUnsafeBytes { body(item, $0, message.payload) }
    }

    /// The messages that have not been reported to the owner.
    func takeFresh() -> FeedBatch {
        defer { fresh = FeedBatch() }
        return fresh
    }

    // Refusing

    /// Refuses a message, and those after it in its chain.
    func refuse(_ ticket: PublishTicket, _ refusal: Refusal) {
        for each in outbox.refuse(ticket) { upstream.report(.refused(use, each, refusal), to: shard) }
    }

    private func refuseAll(_ refusal: Refusal) {
        for each in outbox.removeAll() { upstream.report(.refused(use, each, refusal), to: shard) }
    }

    /// Ends the topic on this node.
    func leave(_ refusal: Refusal) {
        refuseAll(refusal)
        upstream.flush(self)
        upstream.report(.left(use, refusal), to: shard)
        upstream.remove(self)
    }
}

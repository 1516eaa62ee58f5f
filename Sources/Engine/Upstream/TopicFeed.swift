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
//     reading, live ──control message──▶ inspecting ─▶ recording the end ─▶ ended
//
// The subscription comes first, so that no message is missed between what is read and what follows live. Whatever goes
// wrong leads back to `subscribing` or `finding`; `next` says what the topic's owner has.

import Bytes
import Core
import JetStream
import NATS
import Replay

final class TopicFeed {
    static let second: UInt64 = 1_000_000_000
    /// Messages and bytes that one request reads.
    private static let readCount = 256
    private static let readBytes = 1 << 20
    /// How long after a stream was created others may appear that were created at the same time: a server that creates
    /// two streams at once does not notice that they have the same subjects.
    private static let othersTime = second / 2
    /// Between probes of a silent or absent stream, at first and at most.
    static let probeTimes = second...5 * second

    let use: TopicUse
    var topic: String { use.topic }
    /// The shard that owns the topic.
    let shard: Int
    /// The limits of a stream that this node creates, and how many of the newest messages are read at first.
    let retention: Retention
    unowned(unsafe) let upstream: Upstream
    var state = State.waiting
    /// Counts restarts: answers to what was asked before are ignored.
    private(set) var round: UInt32 = 0
    private var search = StreamSearch()
    /// Nil before the stream is known.
    private(set) var epoch: UInt64? {
        didSet {
            stream = epoch.map { SharedNames.stream($0) }
            streamName = stream.map { Array($0.utf8) } ?? []
        }
    }
    /// The stream's name, as a text and in bytes, which are compared with each message's.
    private(set) var stream: String?
    private var streamName: [UInt8] = []
    /// The next message that the owner lacks; nil before the stream is known.
    private(set) var next: SequenceNumber?
    /// The message that the stream's leader does not have, if it was asked for `next`.
    private var missing: SequenceNumber?
    private(set) var isCurrent = false
    /// The topic's end, once it is known, and whether it was reported.
    private(set) var end: StreamEnd?
    var isOver = false
    private var subscription: UInt64?
    private(set) var held = HeldMessages()
    let publishing: FeedPublishing
    /// The end of what was reported, without control messages.
    private(set) var itemsEnd = SequenceNumber.first
    /// Messages to report with the next flush.
    private var fresh = FeedBatch()
    var loss = LossCheck()
    /// When to probe or to try again.
    var wakeAt = UInt64.max
    private var probeWait = TopicFeed.probeTimes.lowerBound

    init(_ use: TopicUse, shard: Int, _ retention: Retention, _ upstream: Upstream) {
        self.use = use
        self.shard = shard
        self.retention = retention
        self.upstream = upstream
        publishing = FeedPublishing(upstream)
        publishing.feed = self
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
        loss.suspect()
    }

    /// The topic is not followed any longer.
    func close() {
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
        case .ended: inspect(now: now)
        case .finding, .creating, .inspecting, .verifying, .reading, .asking, .recording: break
        }
    }

    func call(_ request: JetStreamRequest, _ purpose: Calls.Purpose, now: UInt64) {
        if !upstream.call(request, self, purpose, now: now) { tryAgain(now: now) }
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
        switch search.found(names, of: topic, known: epoch) {
        case .found(let epoch, let unwanted):
            if let unwanted { upstream.delete(unwanted) }
            self.epoch = epoch
            inspect(now: now)
        case .none: foundNone(now: now)
        case .awaitOthers: awaitOthers(now: now)
        case .refuse(let refusal): leave(refusal)
        }
    }

    /// No stream has the topic's subjects.
    private func foundNone(now: UInt64) {
        // It is deleted, or was taken off them.
        guard epoch == nil else { return inspect(now: now) }
        guard publishing.isEmpty else { return create(now: now) }
        if case .absent = state {} else { upstream.report(.absent(use), to: shard) }
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
        search.noteCreated(epoch)
        awaitOthers(now: now)
    }

    private func awaitOthers(now: UInt64) {
        state = .awaitingOthers
        wakeAt = now + TopicFeed.othersTime
    }

    /// The stream cannot be created.
    func notCreated(_ refusal: Refusal, now: UInt64) {
        publishing.refuseAll(refusal)
        state = .absent
        wakeAt = now + probeWait
    }

    func inspect(now: UInt64) {
        guard let stream else { return find(now: now) }
        state = .inspecting
        call(.info(stream), .inspect, now: now)
    }

    /// JetStream takes no more messages: the topic may have ended.
    func recheck(now: UInt64) { if isLive { inspect(now: now) } }

    /// The stream, according to its leader.
    func inspected(_ stream: StreamInfo, now: UInt64) {
        guard stream.subjects.contains(SharedNames.published(topic)) else { return leave(.anotherEpoch(topic)) }
        if stream.isSealed == false, mustVerify(stream, now: now) { return }
        let recorded = StreamEnd(metadata: stream.metadata)
        if let recorded { end = recorded }
        skipRemoved(before: SequenceNumber(stream.firstSequence))
        let last = SequenceNumber(stream.lastSequence + 1)
        let end = Swift.min(last, end?.sequence ?? last)
        if next == nil { join(Swift.min(SequenceNumber(stream.firstSequence), end), end) }
        if let known = self.end, let next, next >= known.sequence {
            if recorded == nil { record(known, in: stream, now: now) } else { conclude(now: now) }
        } else {
            // What is held need not be read. If it were, a topic that retains little would never be current.
            read(upTo: Swift.max(next ?? end, Swift.min(end, held.first ?? end)), now: now)
            publishing.send(now: now)
        }
    }

    /// Begins with the newest messages.
    private func join(_ first: SequenceNumber, _ end: SequenceNumber) {
        guard let epoch else { return }
        let begin = Swift.max(first, end.advanced(by: -Swift.min(retention.messages, end - first)))
        next = begin
        upstream.report(.joined(use, epoch: epoch, next: begin), to: shard)
        upstream.discovery.joined(self)
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
        if let end {
            guard next < end.sequence, let stream else { return inspect(now: now) }
            // A sealed stream that has lost its last messages.
            state = .asking(from: end.sequence, end: end.sequence)
            return call(.message(next.value, stream), .ask, now: now)
        }
        let known = Swift.max(held.first ?? next, held.missed)
        if known > next { return read(upTo: known, now: now) }
        state = .live
        let batch = held.take()
        batch.forEach(lost: { _ in }) { item, metadata, payload in
            if item.sequence == self.next { take(item, metadata: metadata, payload: payload) }
        }
        becomeCurrent()
        wakeAt = now + probeWait
    }

    func becomeCurrent() {
        upstream.flush(self)
        if isCurrent { return }
        isCurrent = true
        upstream.report(.current(use, wasEmpty: search.wasEmpty), to: shard)
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
        take(message, now: now)
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
            // Nothing but what was asked for is of use.
            guard let next, message.sequence == next.value else { return callFailed(now: now) }
            message.withMessage { take($0, now: now) }
        } else if missing == next {
            if let next { upstream.notes.counts.lost += UInt64(from - next) }
            skip(to: from)
        } else {
            // The stream's limits may have removed it.
            missing = next
            return inspect(now: now)
        }
        // A control message leads elsewhere.
        if case .asking = state { read(upTo: end, now: now) }
    }

    /// The stream's limits have removed the messages before `first`.
    private func skipRemoved(before first: SequenceNumber) {
        let first = Swift.min(first, end?.sequence ?? first)
        if let next, next < first { skip(to: first) }
    }

    /// Continues at `sequence`. The messages before it cannot be read.
    private func skip(to sequence: SequenceNumber) {
        next = sequence
        publishing.skipped(to: sequence, now: upstream.now)
        fresh.lose(upTo: sequence)
        upstream.noteFresh(self)
    }

    /// A live message.
    func heard(_ message: JetStreamMessage, now: UInt64) {
        guard message.stream.isEqual(to: streamName), let next else {
            if case .absent = state { find(now: now) }
            return
        }
        probeWait = TopicFeed.probeTimes.lowerBound
        let sequence = SequenceNumber(message.sequence)
        guard sequence >= next, end == nil else {
            if isLive, loss.heardAgain(message) { inspect(now: now) }
            return
        }
        if isLive, sequence == next {
            wakeAt = now + probeWait
            return take(message, now: now)
        }
        upstream.item(of: message) { held.append($0, metadata: $1, payload: $2) }
        if isLive { read(upTo: sequence, now: now) }
    }

    // Messages

    private func take(_ message: JetStreamMessage, now: UInt64) {
        upstream.item(of: message) { take($0, metadata: $1, payload: $2) }
        // A control message has no item.
        let after = SequenceNumber(message.sequence).advanced(by: 1)
        guard let next, next < after else { return }
        self.next = after
        loss.note(message)
        guard let end = StreamEnd(message) else { return }
        self.end = end
        held.removeAll()
        // What else was asked does not matter any longer.
        round &+= 1
        inspect(now: now)
    }

    private func take(
        _ item: FeedBatch.Item, metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer
    ) {
        fresh.append(item, metadata: metadata, payload: payload)
        itemsEnd = item.sequence.advanced(by: 1)
        next = itemsEnd
        loss.note(item)
        upstream.noteFresh(self)
        if let ticket = item.ticket { publishing.read(ticket, at: item.sequence, now: upstream.now) }
    }

    /// The messages that have not been reported to the owner.
    func takeFresh() -> FeedBatch {
        defer { fresh = FeedBatch() }
        return fresh
    }

    /// Ends the topic on this node.
    func leave(_ refusal: Refusal) {
        publishing.refuseAll(refusal)
        upstream.flush(self)
        upstream.report(.left(use, refusal), to: shard)
        upstream.remove(self, at: isCurrent ? itemsEnd : nil)
    }
}

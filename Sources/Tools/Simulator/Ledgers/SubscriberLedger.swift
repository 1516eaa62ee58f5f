// SubscriberLedger: a subscription from both sides. After each input, the engine's state is compared with the naive
// cursor; what the client receives is compared with what the cursor handed over.

import Core
import ForebayWire
import Replay

class SubscriberLedger: StreamLedger {
    static let everything = 0x7FFF_FFFF

    /// How the subscription left the engine, and what may still reach the client.
    enum Leaving {
        /// Cancelled by the client: nothing published from `barrier` on, and at most `most` messages.
        case cancelled(barrier: UInt64?, most: Int?)
        /// Ended: exactly these messages if nothing but the end happened at that moment; otherwise some of them, in
        /// order.
        case ended(rest: [UInt64], isExact: Bool)
        case unknown
    }

    let request: SubscribeRequest
    let journal: Journal
    /// How much the client has requested, and how much of that the broker has read.
    private(set) var asked = 0
    var askedFed: UInt64 = 0
    private(set) var isUnbounded = false
    /// Whether the client has ended its requests.
    var isHalfClosed = false
    var isUnboundedFed = false
    var isFed = false
    /// An acknowledged message of the topic. The subscription was requested later, so it must not begin before that
    /// message.
    var known: Place?
    private(set) var cursor: NaiveCursor?
    private(set) var epoch: UInt64 = 0
    /// Requested messages that were gone before the subscription joined.
    private(set) var missed = 0
    /// Handed over, and not received by the client yet.
    private var owed: [Lot] = []
    private(set) var handed = 0
    /// Messages that may have been handed over or dropped without being observed, at the moment the subscription left.
    private(set) var unseen = 0
    var leaving: Leaving?
    var seen: Inspection.Subscription?
    /// How many bytes the connection had room for at the last inspection.
    private var room = 0
    /// What the client has received.
    private(set) var received = 0
    private(set) var last: Place?
    private var restFirst = 0
    /// Whether the broker has been restarted since.
    var isEarlier = false
    /// Marks the subscription as found by an inspection.
    var stamp = 0

    init(_ client: any VirtualClient, _ request: SubscribeRequest, _ journal: Journal, _ referee: Referee) {
        self.request = request
        self.journal = journal
        super.init(client, "subscription \(request.route)", referee)
    }

    override var isOpen: Bool { isAwaited && !isHalfClosed }
    /// Whether the topic's end is the subscription's.
    var endsWithTopic: Bool { true }

    func asks(_ n: Int) {
        asked += n
        if n >= SubscriberLedger.everything { isUnbounded = true }
    }

    func fed(_ n: Int) {
        isFed = true
        askedFed += UInt64(n)
        if n >= SubscriberLedger.everything { isUnboundedFed = true }
    }

    // The engine's side

    /// Compares the ledger with the engine, which has the subscription in this state.
    /// - Parameters:
    ///   - unreadable: the topic and the end of messages that the store could not read just now.
    ///   - isBatch: whether this is called after several messages from other shards.
    func reconcile(
        _ now: Inspection.Subscription, _ connection: Inspection.Connection,
        unreadable: (epoch: UInt64, end: UInt64)?, isBatch: Bool
    ) {
        let unreadable = unreadable.flatMap { $0.epoch == now.epoch ? $0.end : nil }
        defer {
            seen = now
            room = Swift.min(client.output, client.window(connection)) - connection.output
        }
        referee.expect(!isCancelFed || connection.isHeld, "\(name) still exists after its CANCEL was read")
        checkCredit(now, connection)
        guard now.hasJoined else { return }
        if let topic = journal.topic(now.epoch), !topic.isGone {
            referee.expect(
                now.viewEnd <= topic.committed,
                "\(name) was notified of messages up to \(now.viewEnd), but only \(topic.committed) is committed"
            )
        }
        if cursor == nil { join(now) }
        guard let cursor else { return }
        let count = Int(now.delivered) - cursor.delivered
        guard count >= 0, now.viewEnd >= cursor.next || cursor.hasFailed else {
            return referee.fail("\(name) went backwards: \(now)")
        }
        let way = cursor.keepUp(with: now, after: seen, handing: count, unreadable: unreadable, isBatch: isBatch)
        guard let (next, lot) = way else {
            return referee.fail(
                "\(name) does not follow its policy: it had \(cursor), was handed \(count) messages up to "
                    + "\(now.viewEnd), lost those before \(now.viewLost), and is at \(now)")
        }
        if next.policy == "block", now.sharesLog, next.dropped > cursor.dropped, unreadable == nil {
            let earlier = cursor.waiting.count { $0 < next.joined } + Swift.max(0, Int(next.joined) - Int(cursor.next))
            referee.expect(
                next.dropped - cursor.dropped <= earlier, "\(name) lost messages that arrived after it joined: \(now)")
        }
        self.cursor = next
        if count > 0 { owed.append(lot) }
        handed += count
        checkWaiting(next, now, connection)
    }

    func checkCredit(_ now: Inspection.Subscription, _ connection: Inspection.Connection) {
        let isReported = connection.isHeld ? now.requested <= askedFed : now.requested == askedFed
        referee.expect(isReported, "\(name) requested \(askedFed) messages, but the broker counted \(now.requested)")
        if !connection.isHeld {
            referee.expect(
                now.isUnbounded == isUnboundedFed, "\(name) is unbounded for only one side: \(now.isUnbounded)")
        }
        guard !now.isUnbounded else { return }
        referee.expect(
            now.delivered + now.outstanding == now.requested,
            "\(name) has \(now.outstanding) credit left of \(now.requested) after \(now.delivered) messages")
    }

    private func checkWaiting(
        _ cursor: NaiveCursor, _ now: Inspection.Subscription, _ connection: Inspection.Connection
    ) {
        if cursor.policy != "block" {
            referee.expect(
                cursor.waiting.count <= cursor.limit,
                "\(name) has \(cursor.waiting.count) messages waiting; the limit is \(cursor.limit)")
        }
        let mayGo = now.isUnbounded || now.outstanding > 0
        referee.expect(
            cursor.waiting.isEmpty || !mayGo || connection.output > 0 || connection.isBlocked
                || connection.isFlushing || now.isHeldUp || client.window(connection) <= 0,
            "\(name) has credit and its connection has room, but messages wait: \(now)")
    }

    /// Checks that nothing is missing once everything has been requested and all is quiet.
    func checkFed() {
        guard let seen, seen.hasJoined else { return referee.fail("\(name) neither joined nor was refused") }
        referee.expect(
            seen.waiting.isEmpty,
            "\(name) requested everything, but \(seen.waiting) are still waiting: "
                + (client.session?.standing ?? "\(seen)"))
        referee.expect(
            received == Int(seen.delivered),
            "\(name) was handed \(seen.delivered) messages, but received \(received)")
        guard let topic = journal.topic(epoch), let last else { return }
        referee.expect(
            last.sequence + seen.droppedSinceDelivery + 1 == topic.end,
            "\(name) received \(last.sequence) last, was due everything before \(topic.end), and lost "
                + "\(seen.droppedSinceDelivery)")
    }

    // Joining

    private func join(_ now: Inspection.Subscription) {
        epoch = now.epoch
        guard let topic = journal.topic(epoch) else {
            return referee.fail("\(name) joined a topic with an unknown epoch: \(epoch)")
        }
        referee.expect(topic.name == request.topic, "\(name) joined '\(topic.name)'")
        if let known, known.epoch == epoch {
            referee.expect(
                now.joined > known.sequence || topic.mayLag,
                "\(name) joined at \(now.joined), but \(known.sequence) had been acknowledged before it was requested")
        }
        let waiting = now.waiting.reduce(0) { $0 + $1.count }
        // Messages after `fail` ended the subscription are not counted.
        let counted = request.policy == "fail" ? now.waiting.last?.upper.value ?? now.viewEnd : now.viewEnd
        let begin = counted &- now.delivered &- now.dropped &- UInt64(waiting)
        let (wanted, missed) = expectedBegin(now, begin, topic)
        self.missed = missed
        checkBegin(begin, wanted, now, topic)
        checkGap(begin, now, topic)
        var cursor = NaiveCursor(
            policy: request.policy, buffer: request.buffer, begin: begin, joined: now.joined, missed: missed)
        if request.policy == "latest" { cursor.keepNewest(isReported: true) }
        self.cursor = cursor
    }

    /// Where the subscription should begin if everything is retained, and how many requested messages it misses.
    private func expectedBegin(
        _ now: Inspection.Subscription, _ begin: UInt64, _ topic: TopicLedger
    ) -> (ClosedRange<UInt64>, Int) {
        switch request.start {
        case .next: return (now.joined...now.joined, 0)
        case .all: return (1...1, 0)
        case .last(let count):
            let first = now.joined > count ? now.joined - count : 1
            return (first...first, 0)
        case .from(_, let other?) where other != now.epoch && topic.former(other) == nil: return (1...1, 0)
        case .from(var sequence, let other):
            // Later messages of a former epoch are lost.
            if let other, let end = topic.former(other) { sequence = Swift.min(sequence, end) }
            let missed = begin > sequence && sequence <= now.joined ? Int(begin - sequence) : 0
            let first = Swift.min(sequence, now.joined)
            return (first...first, missed)
        case .since(let time): return (topic.first(atOrAfter: time.resolved(now: 0), before: now.joined), 0)
        }
    }

    /// Checks that there is no gap at the start if the subscription does not accept gaps, or could not have one
    /// reported: it would have been refused.
    private func checkGap(_ begin: UInt64, _ now: Inspection.Subscription, _ topic: TopicLedger) {
        guard case .from(let sequence, let other) = request.start, request.gapFails || !request.hasMeta else { return }
        referee.expect(
            begin <= sequence && sequence <= now.joined && isPosition(sequence, of: other, in: topic),
            "\(name) begins at \(begin) of \(now.joined), with a gap after \(sequence), but was not refused: \(now)")
    }

    /// Whether the topic has, or had, this position.
    private func isPosition(_ sequence: UInt64, of other: UInt64?, in topic: TopicLedger) -> Bool {
        guard let other, other != topic.epoch else { return true }
        return topic.former(other).map { sequence <= $0 } ?? false
    }

    private func checkBegin(
        _ begin: UInt64, _ wanted: ClosedRange<UInt64>, _ now: Inspection.Subscription, _ topic: TopicLedger
    ) {
        var lowest = wanted.lowerBound
        var isFrom = false
        if case .from(_, let other) = request.start {
            isFrom = other == nil || other == now.epoch || topic.former(other ?? 0) != nil
        }
        if request.policy == "latest", !isFrom { lowest = Swift.max(lowest, now.joined - 1) }
        let retained = Swift.max(1, now.joined - Swift.min(now.joined - 1, UInt64(client.retain)))
        // The store may have been read or searched after it removed messages that this shard still counts as retained.
        var gone = Swift.max(topic.lost, topic.forgotten, topic.storage.first, Swift.min(now.viewLost, topic.kept))
        if case .since = request.start { gone = Swift.max(gone, topic.kept) }
        let highest = Swift.max(wanted.upperBound, lowest)
        referee.expect(
            begin >= Swift.min(Swift.max(lowest, retained), now.joined)
                && begin <= Swift.min(Swift.max(highest, retained, gone), now.joined),
            "\(name) begins at \(begin); it requested \(lowest) to \(highest), the topic's next is \(now.joined), it "
                + "retains \(client.retain) messages and has lost those before \(gone): \(now)")
    }

    // Leaving

    /// Handles the subscription's removal from the engine.
    /// - Parameter isUnreadable: whether the store could not read some messages just now.
    func left(isUnreadable: Bool = false) {
        guard leaving == nil else { return }
        let topic = journal.topic(epoch)
        if let cursor, let topic {
            unseen = cursor.waiting.count + Int(Swift.max(cursor.next, topic.committed) - cursor.next)
        }
        guard !isCancelFed, !isMistaken, let cursor, let seen, let topic, !topic.isGone else {
            // What arrived at a topic's last moment was not observed.
            let end = topic?.isGone == false ? topic?.committed : nil
            // Nothing was requested or published since the last inspection, and nothing waited that could have been
            // sent.
            let isIdle = cursor?.waiting.isEmpty ?? false || seen?.outstanding == 0
            let isSame = seen?.requested == askedFed && end != nil && seen?.viewEnd == end && isIdle
            leaving = isCancelFed ? .cancelled(barrier: end, most: isSame ? cursor?.delivered : nil) : .unknown
            return
        }
        let isOver = cursor.hasFailed
        let rest = cursor.waiting + (isOver ? [] : Array(cursor.next..<Swift.max(cursor.next, topic.committed)))
        // A message that does not fit into its connection's output may be skipped for a smaller one after it.
        let size = rest.reduce(0) { $0 + (topic.charges[$1] ?? client.output) + 64 }
        let hasRoom = size < room && !client.isPaced
        let hasCredit = seen.isUnbounded || seen.outstanding >= UInt64(rest.count)
        // What is only in the store may have been lost at the last moment.
        let isInStore = rest.first.map { $0 < seen.viewHead } ?? false
        let isLossy = topic.lost != seen.viewLost || isUnreadable || isInStore
        let isExact = (hasCredit && hasRoom || rest.isEmpty) && !isLossy && cursor.policy != "fail"
        leaving = .ended(rest: rest, isExact: isExact)
    }

    // The client's side

    override func item(_ metadata: [UInt8]?, _ data: [UInt8]) {
        let figures = request.hasMeta ? MessagePosition(metadata) : nil
        if request.hasMeta, figures == nil { referee.fail("\(name) received a message without its metadata") }
        item(figures, data)
    }

    /// Checks a message, and what is reported about it, unless it was requested without metadata.
    func item(_ figures: MessagePosition?, _ data: [UInt8]) {
        guard counts() else { return }
        if let figures { checkCarried(figures, data) }
        take(data, figures.map { (Place(epoch: $0.epoch, sequence: $0.sequence), Int($0.dropped)) })
    }

    /// Counts a message. Returns false if the client does not look at it.
    func counts() -> Bool {
        received += 1
        referee.expect(
            isUnbounded || received <= asked, "\(name) received \(received) messages, but requested \(asked)")
        referee.expect(end == nil, "\(name) received a message after its end")
        return !(isCancelled && client.isOver)
    }

    func checkCarried(_ figures: MessagePosition, _ data: [UInt8]) {
        guard let known = figures.carried, let number = journal.known(data) else { return }
        let carried = journal.messages[number].hasMetadata ? ContentType.entry(number) : []
        referee.expect(
            known == carried, "\(name) received m\(number) with different metadata than it was published with")
    }

    private func take(_ data: [UInt8], _ reported: (place: Place, dropped: Int)?) {
        guard let number = journal.known(data) else { return }
        let at = reported?.place.sequence ?? journal.messages[number].place?.sequence
        let due = nextDue(at, reported?.dropped)
        if let reported, let last {
            referee.expect(
                reported.place.epoch == last.epoch
                    && reported.place.sequence == last.sequence + UInt64(reported.dropped) + 1,
                "\(name) received \(reported.place) (\(reported.dropped) dropped) after \(last)")
        }
        guard
            let place = reported?.place ?? due.map({ Place(epoch: epoch, sequence: $0) })
                ?? journal.messages[number].place
        else {
            // The message was appended and dropped at the same moment, so its place was not observed.
            last = nil
            return
        }
        guard let topic = journal.topic(place.epoch) ?? journal.unseen(place.epoch, request.topic) else {
            return referee.fail("\(name) received a message with an unknown epoch: \(place)")
        }
        journal.place(number, at: place.sequence, of: topic)
        if let last, reported == nil {
            referee.expect(place.sequence > last.sequence, "\(name) received \(place.sequence) after \(last.sequence)")
        }
        last = place
        checkLeft(place)
    }

    /// The message due, if there is only one candidate; the message at `sequence` must be a candidate.
    private func nextDue(_ sequence: UInt64?, _ dropped: Int?) -> UInt64? {
        guard !owed.isEmpty else { return nil }
        let due = owed[0].take(sequence, dropped)
        referee.expect(
            due != nil, "\(name) received message \(sequence ?? 0) (\(dropped ?? 0) dropped), but due was \(owed[0])")
        if owed[0].isEmpty { owed.removeFirst() }
        return due?.count == 1 ? due?.first : nil
    }

    /// Checks a message that arrives after the engine has removed the subscription.
    private func checkLeft(_ place: Place) {
        if cursor == nil { return }
        let isBeyond = received > handed
        switch leaving {
        case .cancelled(let barrier, let most):
            referee.expect(
                place.sequence < barrier ?? .max,
                "\(name) received message \(place.sequence), which was published after its CANCEL was handled")
            referee.expect(received <= most ?? .max, "\(name) was handed a message after its CANCEL was handled")
        case .ended(let rest, let isExact):
            guard isBeyond else { return }
            if isExact {
                referee.expect(
                    restFirst < rest.count && rest[restFirst] == place.sequence,
                    "\(name) received \(place.sequence) before its end, but \(rest.dropFirst(restFirst)) was due")
                restFirst += 1
            } else {
                referee.expect(
                    rest.contains(place.sequence), "\(name) received \(place.sequence), which was not waiting")
            }
        case .unknown: break
        case nil: referee.expect(!isBeyond, "\(name) received \(place.sequence), which had not been handed to it")
        }
    }

    override func ended(_ metadata: [UInt8]?, _ error: String?) {
        ended(error, lost: error.map(EndCheck.lost) ?? MessagePosition(metadata)?.dropped ?? 0, isSpent: false)
    }

    /// - Parameters:
    ///   - lost: how many messages were reported as lost since the last delivery.
    ///   - isSpent: whether the end reported that everything requested has been delivered.
    func ended(_ error: String?, lost: UInt64, isSpent: Bool) {
        super.ended(nil, error)
        checkEnd(error, lost: lost, isSpent: isSpent)
    }

    func checkEnd(_ error: String?, lost: UInt64, isSpent: Bool) {
        if !isCancelled {
            EndCheck(self, error, lost: lost, isSpent: isSpent).run(
                owed: handed - Swift.min(received, handed), restFirst: restFirst)
        }
    }
}

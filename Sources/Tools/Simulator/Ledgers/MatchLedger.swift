// MatchLedger: one topic of a subscription to a pattern: the naive cursor while the engine has a cursor for it, and the
// position up to which the client has everything while it has none.

import Core

final class MatchLedger {
    let epoch: UInt64
    let name: String
    let referee: Referee
    /// The engine's cursor; nil while the topic has no news for the subscription.
    private(set) var cursor: NaiveCursor?
    /// The first message for the subscription; nil if it was not observed.
    private(set) var start: UInt64?
    /// Where a new cursor has to begin.
    private(set) var position: UInt64?
    private var seen: Inspection.Subscription?
    /// Handed over, and not received by the client yet.
    private var owed: [Lot] = []
    private(set) var handed = 0
    private(set) var received = 0
    /// Messages that earlier cursors lost.
    private var droppedBefore = 0
    var dropped: Int { droppedBefore + (cursor?.dropped ?? 0) }
    /// The sequence that the client expects, if nothing is dropped.
    private(set) var next: UInt64?
    /// Messages of a topic that has ended, which the client must still receive.
    private(set) var due: Set<UInt64> = []
    /// Whether the client was notified of the topic's end.
    private var isEndKnown = false
    /// Whether the cursor left with the topic.
    private(set) var isOver = false
    /// The end of the messages that waited at the last inspection, if nothing but credit or output could hold them up,
    /// and how many messages of other topics have been handed over since, by epoch.
    private var readyEnd: UInt64?
    private var overtaken: [UInt64: Int] = [:]

    /// - Parameter title: the subscription.
    init(epoch: UInt64, topic: String, of title: String, _ referee: Referee) {
        self.epoch = epoch
        name = "topic '\(topic)' of \(title)"
        self.referee = referee
    }

    // The engine's side

    /// The engine has a new cursor.
    func begin(_ request: SubscribeRequest, _ now: Inspection.Subscription, start: UInt64, begin: UInt64) {
        if let position {
            referee.expect(
                start == position, "\(name) had everything before \(position), and continues at \(start): \(now)")
        } else {
            self.start = start
        }
        cursor = NaiveCursor(
            policy: request.policy, buffer: request.buffer, begin: begin, joined: now.joined, missed: Int(now.missed))
    }

    /// Whether the engine's cursor is the one that was seen last. Between two inspections, it may have been removed,
    /// and the topic's next message have made another one.
    func isStill(_ now: Inspection.Subscription) -> Bool {
        seen.map { $0.joined == now.joined && $0.delivered <= now.delivered } ?? true
    }

    /// Compares the cursor with the engine's. Returns how many messages were handed over.
    func reconcile(_ now: Inspection.Subscription, unreadable: UInt64?, isBatch: Bool) -> Int {
        defer { seen = now }
        guard let cursor else { return 0 }
        let count = Int(now.delivered) - cursor.delivered
        guard count >= 0, now.viewEnd >= cursor.next || cursor.hasFailed else {
            referee.fail("\(name) went backwards: \(now)")
            return 0
        }
        // While no cursor needed them, the log may have lost messages that the new one should have received.
        let unreadable = unreadable ?? (seen == nil ? now.viewHead : nil)
        let way = cursor.keepUp(with: now, after: seen, handing: count, unreadable: unreadable, isBatch: isBatch)
        guard let (next, lot) = way else {
            referee.fail(
                "\(name) does not follow its policy: it had \(cursor), was handed \(count) messages up to "
                    + "\(now.viewEnd), lost those before \(now.viewLost), and is at \(now)")
            return 0
        }
        self.cursor = next
        if count > 0 { owed.append(lot) }
        handed += count
        referee.expect(
            next.waiting.count <= next.limit,
            "\(name) has \(next.waiting.count) messages waiting; the limit is \(next.limit)")
        return count
    }

    /// Checks the turns: while a topic has messages that could be handed over, any other gets one turn.
    func checkTurn(_ now: Inspection.Subscription, handed: [UInt64: Int]) {
        let end = now.hasJoined && !now.isHeldUp ? now.waiting.last?.upper.value : nil
        defer { readyEnd = end }
        // If memory was full, a turn may have ended with the messages that waited for it.
        guard let readyEnd, end != nil, handed[epoch] == nil, now.viewLost < readyEnd else { return overtaken = [:] }
        for (other, count) in handed {
            overtaken[other, default: 0] += count
            referee.expect(
                overtaken[other]! <= 1,
                "\(name) has messages waiting, but was overtaken by \(overtaken[other]!) of epoch \(other): \(now)")
        }
    }

    /// The engine's cursor is gone, and the subscription continues.
    /// - Parameters:
    ///   - end: the end of what is committed; nil if the last messages were not observed.
    ///   - hasEnded: whether the topic has ended.
    ///   - mayLose: whether its last messages may be lost.
    /// - Returns: the least number of messages that were handed over unobserved.
    func removed(end: UInt64?, hasEnded: Bool, mayLose: Bool) -> Int {
        guard let cursor else { return 0 }
        droppedBefore += cursor.dropped
        self.cursor = nil
        seen = nil
        readyEnd = nil
        overtaken = [:]
        // Later messages may be on their way from the owner. What waited may have been handed over just before.
        var rested = cursor
        let count = cursor.waiting.count
        if let row = rested.handOver(hasEnded ? 0 : count, upTo: cursor.next), rested.waiting.isEmpty,
            rested.unreportedCount == 0, !hasEnded || end == nil || end == cursor.next
        {
            if !row.isEmpty { owed.append(Lot([row], count: row.count)) }
            handed += row.count
            position = cursor.next
            isOver = hasEnded
            return row.count
        }
        referee.expect(hasEnded, "\(name) has no cursor any more, but had \(cursor), and the topic goes to \(end ?? 0)")
        isOver = true
        guard !mayLose, cursor.policy != "fail" else { return 0 }
        due = Set(cursor.policy == "latest" ? [] : cursor.waiting)
        return due.count
    }

    // The client's side

    /// - Parameter mayBeUnseen: whether the message may have been handed over unobserved.
    func take(_ sequence: UInt64, dropped: UInt64, mayBeUnseen: Bool) {
        received += 1
        referee.expect(!isEndKnown, "\(name) received \(sequence) after the topic's end")
        if owed.isEmpty {
            referee.expect(
                mayBeUnseen || isOver || cursor == nil && start == nil,
                "\(name) received \(sequence), which had not been handed to it")
        } else {
            let lot = owed[0]
            referee.expect(
                owed[0].take(sequence, Int(dropped)) != nil,
                "\(name) received \(sequence) (\(dropped) dropped), but due was \(lot)")
            if owed[0].isEmpty { owed.removeFirst() }
        }
        if let expected = next ?? start {
            referee.expect(
                sequence == expected + dropped,
                "\(name) received \(sequence) (\(dropped) dropped), but expected \(expected)")
        }
        next = sequence + 1
        due.remove(sequence)
    }

    /// The client was notified of the topic's end, and how many messages it lost at the end.
    /// - Parameter end: the end of the topic; nil if its last messages may not have been observed.
    func noteEnd(dropped: UInt64, at end: UInt64?) {
        referee.expect(!isEndKnown, "\(name) was notified of the topic's end twice")
        isEndKnown = true
        guard let end, let expected = next ?? start else { return }
        referee.expect(
            expected + dropped == end,
            "\(name) ended with \(dropped) dropped, but expected \(expected), and the topic goes to \(end)")
    }

    /// Checks that nothing is missing once everything has been requested and all is quiet.
    /// - Parameters:
    ///   - isNotified: whether the client is notified of topics' ends.
    ///   - isSkipped: whether the topic may have messages although there is no cursor.
    func checkFed(_ topic: TopicLedger, isNotified: Bool, isSkipped: Bool) {
        let hasEnded = topic.states.contains("completed") || topic.states.contains("failed")
        referee.expect(
            !isNotified || !isOver || !hasEnded || isEndKnown, "\(name) was not notified of the topic's end")
        referee.expect(due.isEmpty, "\(name) never received \(due.sorted()), which waited when the topic ended")
        guard !isOver, !topic.isGone else { return }
        if let cursor {
            referee.expect(
                cursor.waiting.isEmpty && cursor.next == topic.committed,
                "\(name) requested everything, but has \(cursor), and the topic goes to \(topic.committed)")
        } else if let position, !isSkipped {
            // A topic's last messages may have been handed over unobserved, by a cursor that left with it.
            let known = Swift.max(position, next ?? position)
            referee.expect(
                known == topic.committed,
                "\(name) has everything before \(known), but the topic goes to \(topic.committed)")
        }
    }
}

// PatternLedger: a subscription to a pattern. Each topic that matches has a ledger of its own; all have one credit, and
// take turns.

import Core
import ForebayWire

final class PatternLedger: SubscriberLedger {
    /// A topic as it was at some moment.
    private struct Moment {
        var committed: UInt64
        var hasHistory: Bool
    }

    private let pattern: TopicPattern
    /// Whether topics may lose messages that wait.
    private let mayLose: Bool
    /// Whether topics may have messages that reach the subscription's shard after its request, as new ones.
    private let mayLag: Bool
    private var matches: [UInt64: MatchLedger] = [:]
    /// The topics that matched when the client sent the request, and when the subscription had begun.
    private var atRequest: [UInt64: Moment] = [:]
    private var atBegin: [UInt64: Moment]?
    /// Where the topics were when the subscription's CANCEL had been handled.
    private var barriers: [UInt64: UInt64]?
    private var delivered = 0
    /// Messages that cursors must have handed over before they were removed, since the last inspection.
    private var unobserved = 0
    /// Whether some cursor may have come and gone, or left with its topic, unobserved.
    private(set) var hasUnseen = false

    init(
        _ client: any VirtualClient, _ request: SubscribeRequest, _ journal: Journal, _ referee: Referee, mayLose: Bool,
        mayLag: Bool
    ) {
        guard let pattern = try? TopicPattern(parsing: request.topic) else {
            preconditionFailure("'\(request.topic)' is not a pattern.")
        }
        self.pattern = pattern
        self.mayLose = mayLose
        self.mayLag = mayLag
        super.init(client, request, journal, referee)
    }

    override var endsWithTopic: Bool { false }

    private var topics: some Sequence<TopicLedger> {
        journal.topics.values.filter { !$0.isGone && pattern.matches($0.name) }.sorted { $0.epoch < $1.epoch }
    }

    private func moment() -> [UInt64: Moment] {
        topics.reduce(into: [:]) {
            $0[$1.epoch] = Moment(committed: $1.committed, hasHistory: $1.retained < $1.committed)
        }
    }

    func matches(_ topic: TopicLedger) -> Bool { pattern.matches(topic.name) }
    func match(_ topic: TopicLedger) -> MatchLedger? { matches[topic.epoch] }

    private func match(_ topic: TopicLedger, isNew: inout Bool) -> MatchLedger {
        isNew = matches[topic.epoch] == nil
        let match = matches[topic.epoch] ?? MatchLedger(epoch: topic.epoch, topic: topic.name, of: name, referee)
        matches[topic.epoch] = match
        return match
    }

    override func asks(_ n: Int) {
        if asked == 0 { atRequest = moment() }
        super.asks(n)
    }

    // The engine's side

    override func reconcile(
        _ now: Inspection.Subscription, _ connection: Inspection.Connection,
        unreadable: (epoch: UInt64, end: UInt64)?, isBatch: Bool
    ) {
        defer { seen = now }
        referee.expect(!isCancelFed || connection.isHeld, "\(name) still exists after its CANCEL was read")
        checkCredit(now, connection)
        if now.hasJoined, atBegin == nil { atBegin = moment() }
        var handed: [UInt64: Int] = [:]
        for cursor in now.cursors where cursor.hasJoined {
            guard let match = begun(cursor) else { continue }
            let unreadable = unreadable.flatMap { $0.epoch == cursor.epoch ? $0.end : nil }
            let count = match.reconcile(cursor, unreadable: unreadable, isBatch: isBatch)
            if count > 0 { handed[cursor.epoch] = count }
        }
        for cursor in now.cursors { matches[cursor.epoch]?.checkTurn(cursor, handed: handed) }
        checkTotal(Int(now.delivered) - delivered, observed: handed.values.reduce(0, +), now)
        delivered = Int(now.delivered)
        checkLosses(now)
        checkWaiting(now, connection)
    }

    /// The ledger of a cursor's topic, which begins if the cursor is new.
    private func begun(_ now: Inspection.Subscription) -> MatchLedger? {
        if let match = matches[now.epoch], match.cursor != nil {
            if match.isStill(now) { return match }
            unobserved += match.removed(end: nil, hasEnded: false, mayLose: mayLose)
        }
        guard let topic = journal.topic(now.epoch) else {
            referee.fail("\(name) has a cursor in a topic with an unknown epoch: \(now.epoch)")
            return nil
        }
        referee.expect(matches(topic), "\(name) has a cursor in '\(topic.name)'")
        var isNew = false
        let match = match(topic, isNew: &isNew)
        let waiting = now.waiting.reduce(0) { $0 + $1.count }
        let counted = request.policy == "fail" ? now.waiting.last?.upper.value ?? now.viewEnd : now.viewEnd
        let begin = counted &- now.delivered &- now.dropped &- UInt64(waiting)
        let start = begin &- now.missed
        if isNew {
            let range = expectedStart(now, topic)
            referee.expect(
                range.contains(start),
                "\(name) begins '\(topic.name)' at \(start) with \(now.missed) missed, but should at \(range); it had "
                    + "\(atRequest[now.epoch]?.committed ?? 0) when the request was sent, and "
                    + "\(atBegin?[now.epoch]?.committed ?? 0) when the subscription began: \(now)")
        }
        match.begin(request, now, start: start, begin: begin)
        return match
    }

    /// Where the subscription may begin in a topic: at the position from which its messages are for the subscription,
    /// or at an earlier one if the options ask for it.
    private func expectedStart(_ now: Inspection.Subscription, _ topic: TopicLedger) -> ClosedRange<UInt64> {
        let before = mayLag ? 1 : atRequest[topic.epoch]?.committed ?? 1
        let began = atBegin.map { $0[topic.epoch]?.committed ?? 1 } ?? topic.committed
        let followed = before...Swift.max(before, began)
        referee.expect(
            followed.contains(now.joined),
            "\(name) follows '\(topic.name)' from \(now.joined), but should from \(followed): \(now)")
        return own(now, topic) ?? now.joined...now.joined
    }

    /// Where the subscription's options say; nil if they name no earlier message.
    private func own(_ now: Inspection.Subscription, _ topic: TopicLedger) -> ClosedRange<UInt64>? {
        let retain = UInt64(client.retain)
        func retained(of end: UInt64) -> UInt64 { end - Swift.min(end - 1, retain) }
        var gone = Swift.max(topic.lost, topic.forgotten, topic.storage.first, retained(of: now.viewEnd))
        let wanted: ClosedRange<UInt64>
        switch request.start {
        case .next, .from, .last(0): return nil
        case .all: wanted = 1...1
        case .last(let count):
            let first = now.joined > count ? now.joined - count : 1
            wanted = first...first
        case .since(let time):
            wanted = topic.first(atOrAfter: time.resolved(now: 0), before: now.joined)
            gone = Swift.max(gone, topic.kept)
        }
        // With `latest`, only the newest one.
        let least = request.policy == "latest" ? Swift.max(1, now.joined - 1) : 1
        let lower = Swift.min(Swift.max(wanted.lowerBound, retained(of: now.joined), least), now.joined)
        return lower...Swift.max(lower, Swift.min(Swift.max(wanted.upperBound, gone, least), now.joined))
    }

    /// Accounts for cursors that are gone, and for all messages handed over.
    private func checkTotal(_ count: Int, observed: Int, _ now: Inspection.Subscription) {
        var least = observed + unobserved
        unobserved = 0
        let present = Set(now.cursors.lazy.filter(\.hasJoined).map(\.epoch))
        for match in matches.values where match.cursor != nil && !present.contains(match.epoch) {
            guard let topic = journal.topic(match.epoch) else { continue }
            let hasEnded = topic.isGone || topic.states != ["live"]
            if hasEnded { hasUnseen = true }
            least += match.removed(end: topic.isGone ? nil : topic.committed, hasEnded: hasEnded, mayLose: mayLose)
        }
        if count > least { hasUnseen = hasUnseen || hasEndedTopics }
        referee.expect(
            count == least || count > least && hasUnseen,
            "\(name) was handed \(count) messages, but its cursors \(least): \(now)")
    }

    /// Compares what all cursors have lost, also those that are gone, with what the subscription counts.
    private func checkLosses(_ now: Inspection.Subscription) {
        let lost = matches.values.reduce(0) { $0 + $1.dropped }
        if Int(now.dropped) > lost { hasUnseen = hasUnseen || hasEndedTopics }
        referee.expect(
            hasUnseen || Int(now.dropped) == lost, "\(name) counts \(now.dropped) lost, but its cursors lost \(lost)")
    }

    /// Whether a topic that matches has ended: its last cursor may have come and gone at one moment.
    private var hasEndedTopics: Bool {
        journal.topics.values.contains { matches($0) && ($0.isGone || $0.states != ["live"]) }
            || journal.deleted.contains { pattern.matches($0) }
    }

    private func checkWaiting(_ now: Inspection.Subscription, _ connection: Inspection.Connection) {
        guard now.isUnbounded || now.outstanding > 0, connection.output == 0, !connection.isBlocked,
            !connection.isFlushing, client.window(connection) > 0, !now.isHeldUp
        else { return }
        for cursor in now.cursors {
            referee.expect(
                cursor.waiting.isEmpty || cursor.isHeldUp,
                "\(name) has credit and its connection has room, but messages wait: \(cursor)")
        }
    }

    override func left(isUnreadable: Bool = false) {
        guard leaving == nil else { return }
        leaving = .unknown
        // Without `seen`, the broker has put the request aside and has handled neither that nor the CANCEL.
        if isCancelFed, seen != nil { barriers = moment().mapValues(\.committed) }
        hasUnseen = true
    }

    // The client's side

    override func item(_ metadata: [UInt8]?, _ data: [UInt8]) {
        let figures = MessagePosition(metadata, namesTopic: true)
        if figures == nil { referee.fail("\(name) received a message without its metadata, or its topic") }
        item(figures, data)
    }

    override func item(_ figures: MessagePosition?, _ data: [UInt8]) {
        guard counts(), let figures else { return }
        checkCarried(figures, data)
        guard let named = figures.topic, pattern.matches(named) else {
            return referee.fail("\(name) received a message of '\(figures.topic ?? "")'")
        }
        let known = journal.topic(figures.epoch) ?? journal.unseen(figures.epoch, named)
        guard let topic = known, topic.name == named else {
            return referee.fail("\(name) received a message of '\(named)' with another topic's epoch: \(figures.epoch)")
        }
        guard let number = journal.known(data) else { return }
        journal.place(number, at: figures.sequence, of: topic)
        if let barrier = barriers?[topic.epoch] {
            referee.expect(
                figures.sequence < barrier,
                "\(name) received \(figures.sequence) of '\(named)', but went to \(barrier) at its CANCEL")
        }
        var isNew = false
        match(topic, isNew: &isNew).take(
            figures.sequence, dropped: figures.dropped, mayBeUnseen: hasUnseen || leaving != nil)
    }

    /// The client was notified that one of the topics has ended.
    func topicEnded(_ notice: EndNotice) {
        guard !(isCancelled && client.isOver) else { return }
        referee.expect(end == nil, "\(name) was notified after its own end: \(notice)")
        guard let topic = journal.topic(notice.epoch) ?? journal.unseen(notice.epoch, notice.topic),
            topic.name == notice.topic, matches(topic)
        else { return referee.fail("\(name) was notified of the end of an unknown topic: \(notice)") }
        let isDeleted = topic.isGone || journal.deleted.contains(topic.name)
        let state = notice.failure == nil ? "completed" : "failed"
        referee.expect(isDeleted || topic.states.contains(state), "\(name) was notified of a wrong end: \(notice)")
        var isNew = false
        match(topic, isNew: &isNew).noteEnd(dropped: notice.dropped, at: isDeleted ? nil : topic.committed)
    }

    override func checkEnd(_ error: String?, lost: UInt64, isSpent: Bool) {
        guard !isCancelled else { return }
        if isSpent {
            return referee.expect(
                isHalfClosed && !isUnbounded && received == asked,
                "\(name) was ended as if all requested messages had been delivered: \(received) of \(asked)")
        }
        guard let error else { return referee.fail("\(name) was completed") }
        if error.hasPrefix("overflow: topic '") {
            return referee.expect(request.policy == "fail", "\(name) was ended by the rule for fail: \(error)")
        }
        if error.hasPrefix("gap: topic '"), request.gapFails { return }
        expectError(error, among: ["different pattern", "max-matches"])
    }

    override func checkFed() {
        guard let seen, seen.hasJoined else { return referee.fail("\(name) neither began nor was refused") }
        referee.expect(
            received == Int(seen.delivered), "\(name) was handed \(seen.delivered) messages, but received \(received)")
        // If it has to report losses in as many topics as it may have, others are skipped.
        let isFull = seen.cursors.count == client.matches
        for topic in topics where matches[topic.epoch] == nil && topic.states == ["live"] && !isFull {
            checkMissing(topic)
        }
        for match in matches.values.sorted(by: { $0.epoch < $1.epoch }) {
            if let topic = journal.topic(match.epoch) {
                match.checkFed(topic, isNotified: client is HTTP2Client, isSkipped: isFull)
            }
        }
    }

    /// Checks that a topic that never had a cursor had nothing for the subscription.
    private func checkMissing(_ topic: TopicLedger) {
        let began = atBegin?[topic.epoch]
        let wantsHistory: Bool =
            switch request.start {
            case .next, .from, .last(0): false
            case .all, .last, .since: true
            }
        referee.expect(
            topic.committed <= began?.committed ?? 1 && !(wantsHistory && began?.hasHistory == true),
            "\(name) never received anything of '\(topic.name)', which goes to \(topic.committed), and went to "
                + "\(began?.committed ?? 1) when the subscription began")
    }

    /// The fields of its row in the list of subscriptions.
    var figures: [(name: String, value: String)] {
        let left = asked - received
        let waiting = matches.values.reduce(0) { $0 + ($1.cursor?.waiting.count ?? 0) }
        let reason = waiting == 0 ? "nothing" : !isUnbounded && left == 0 ? "credit" : "socket"
        let dropped = hasUnseen ? [] : [("dropped", "\(matches.values.reduce(0) { $0 + $1.dropped })")]
        return dropped + [
            ("topic", request.topic), ("policy", request.policy), ("buffer", "\(request.buffer)"),
            ("requested", isUnbounded ? "unbounded" : "\(asked)"),
            ("outstanding", isUnbounded ? "unbounded" : "\(left)"),
            ("delivered", "\(received)"), ("waiting", "\(waiting)"), ("waits_for", reason),
            ("cursors", "\(matches.values.count { $0.cursor != nil })"),
        ]
    }
}

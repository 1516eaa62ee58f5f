// RoomCheck: what publishers may do once everything is at rest. By then every shard knows what the others know, so each
// topic has exactly the room that its `block` subscriptions leave, and no publisher waits if there is room.

import Core

struct RoomCheck {
    private let examiner: Examiner
    private let plan: Plan
    private let journal: Journal
    private let referee: Referee

    init(_ examiner: Examiner, _ plan: Plan, _ journal: Journal, _ referee: Referee) {
        self.examiner = examiner
        self.plan = plan
        self.journal = journal
        self.referee = referee
    }

    private var topics: [Inspection.Topic] {
        examiner.inspections.flatMap(\.topics)
            .filter { $0.state == "live" && $0.isNamed && !$0.name.hasPrefix("$SYS.") }
    }

    func run() {
        let subscribers = examiner.present
        for topic in topics {
            let store = topic.written.map { $0 + UInt64(plan.limits.uncommitted) }
            let blockers = subscribers.filter { $0.epoch == topic.epoch }.compactMap(horizon)
            let room = (blockers + [store].compactMap(\.self)).min()
            referee.expect(
                topic.horizon == room,
                "publishers to '\(topic.name)' may go up to \(text(topic.horizon)), but its subscriptions have room "
                    + "up to \(text(room))")
            referee.expect(
                topic.parked == 0 || !hasRoom(topic),
                "\(topic.parked) publishes are parked at '\(topic.name)', which has room: \(topic)")
        }
    }

    /// Subscriptions that hold publishers up, and the sequence up to which they have room.
    func full() -> [(ledger: SubscriberLedger, horizon: UInt64)] {
        examiner.present.compactMap { ledger in
            guard let horizon = horizon(of: ledger), let end = journal.topic(ledger.epoch)?.end, horizon <= end else {
                return nil
            }
            return (ledger, horizon)
        }
    }

    /// Checks that subscriptions that held publishers up for longer than `block-limit` have been ended.
    func expectGone(_ full: [(ledger: SubscriberLedger, horizon: UInt64)]) {
        let present = Set(examiner.present.map(ObjectIdentifier.init))
        for (ledger, before) in full where present.contains(ObjectIdentifier(ledger)) {
            referee.expect(
                horizon(of: ledger) != before,
                "\(ledger.name) has had no room beyond \(before) for longer than block-limit, but was not ended")
        }
    }

    /// Checks that reservations of idle channels have been released.
    func expectNothingReserved() {
        for topic in topics {
            referee.expect(
                topic.reserved == 0,
                "'\(topic.name)' still reserves room for \(topic.reserved) messages of idle channels")
        }
    }

    /// The sequence up to which a subscription has room, according to the naive cursor.
    private func horizon(of ledger: SubscriberLedger) -> UInt64? {
        guard ledger.request.policy == "block", ledger.seen?.hasJoined == true, let cursor = ledger.cursor else {
            return nil
        }
        return Swift.max(cursor.waiting.first ?? cursor.next, cursor.joined) + UInt64(cursor.buffer)
    }

    /// Whether there is room for a message of any size.
    private func hasRoom(_ topic: Inspection.Topic) -> Bool {
        guard let horizon = topic.horizon else { return true }
        let largest = plan.largestMessage + Limits.messageOverhead
        let charges = journal.topic(topic.epoch)?.charges ?? [:]
        let kept = (topic.kept..<topic.end).reduce(0) { $0 + (charges[$1] ?? 0) }
        return horizon > topic.end + UInt64(topic.reserved)
            && kept + largest * (topic.reserved + 1) <= plan.limits.retainBytes
    }

    private func text(_ sequence: UInt64?) -> String { sequence.map { String($0) } ?? "any sequence" }
}

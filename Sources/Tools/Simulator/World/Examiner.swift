// Examiner: inspects a shard after each of its inputs, and compares its state with the ledgers.

import Core

final class Examiner {
    private let broker: Broker
    private let journal: Journal
    private let referee: Referee
    private let plan: Plan
    private var sessions: [SessionLedger] = []
    private var subscribers: [[SubscriberLedger]]
    /// By connection and stream.
    private var ledgers: [[ConnectionID: [UInt32: SubscriberLedger]]]
    /// Epochs of the topics on each shard, as last observed.
    private var epochs: [[UInt64]]
    private var stamp = 0
    private(set) var inspections: [Inspection]

    init(_ broker: Broker, _ plan: Plan, _ journal: Journal, _ referee: Referee) {
        self.broker = broker
        self.plan = plan
        self.journal = journal
        self.referee = referee
        subscribers = Array(repeating: [], count: plan.shards)
        ledgers = Array(repeating: [:], count: plan.shards)
        epochs = Array(repeating: [], count: plan.shards)
        inspections = Array(repeating: Inspection(), count: plan.shards)
    }

    func add(_ session: SessionLedger) { sessions.append(session) }

    /// How many sessions the broker has.
    var sessionCount: Int { inspections.reduce(0) { $0 + $1.connections.count { $0.kept != nil } } }

    /// Whether some sessions have no socket.
    var hasDetached: Bool { inspections.contains { $0.connections.contains(where: \.isDetached) } }

    func add(_ ledger: SubscriberLedger) {
        let home = ledger.client.home
        subscribers[home.shard].append(ledger)
        ledgers[home.shard][home.id, default: [:]][ledger.stream] = ledger
    }

    /// The subscriptions that the engine has.
    var present: [SubscriberLedger] {
        inspections.enumerated().flatMap { shard, inspection in
            inspection.streams.compactMap { $0.isPublisher ? nil : ledgers[shard][$0.connection]?[$0.stream] }
        }
    }

    func examine(_ shard: Int, isBatch: Bool) {
        let inspection = broker.shards[shard].inspector.inspect()
        inspections[shard] = inspection
        for topic in inspection.topics where !topic.name.hasPrefix("$SYS.") {
            examine(topic, shard, isBatch: isBatch)
        }
        noteGone(inspection, shard)
        stamp += 1
        var connections: [ConnectionID: Inspection.Connection] = [:]
        for connection in inspection.connections { connections[connection.id] = connection }
        examineSessions(connections, shard)
        for stream in inspection.streams {
            guard let seen = stream.subscription, let connection = connections[stream.connection],
                let ledger = ledgers[shard][stream.connection]?[stream.stream]
            else { continue }
            ledger.stamp = stamp
            ledger.reconcile(seen, connection, unreadable: broker.unreadable, isBatch: isBatch)
        }
        for ledger in subscribers[shard] where ledger.stamp != stamp && ledger.isFed {
            ledger.left(isUnreadable: broker.unreadable?.epoch == ledger.epoch)
        }
        subscribers[shard].removeAll { $0.leaving != nil }
    }

    /// The broker has been started again: it knows none of its clients.
    func restarted() {
        sessions.removeAll()
        for shard in inspections.indices {
            subscribers[shard].removeAll()
            ledgers[shard].removeAll()
            epochs[shard].removeAll()
            inspections[shard] = Inspection()
        }
        for shard in inspections.indices { examine(shard, isBatch: false) }
    }

    private func examineSessions(_ connections: [ConnectionID: Inspection.Connection], _ shard: Int) {
        guard !sessions.isEmpty else { return }
        let count = sessionCount
        referee.expect(
            count <= plan.limits.sessions, "there are \(count) sessions; the limit is \(plan.limits.sessions)")
        for session in sessions where session.home.shard == shard && session.state != .ended {
            session.examine(
                connections[session.home.id], now: broker.now.monotonic, isFull: count >= plan.limits.sessions)
        }
    }

    private func noteGone(_ inspection: Inspection, _ shard: Int) {
        let now = inspection.topics.map(\.epoch)
        for epoch in epochs[shard] where !now.contains(epoch) {
            journal.topic(epoch)?.leave()
        }
        epochs[shard] = now
    }

    /// Checks that all accounted memory exists and is no more than allowed. Call while no shard is taking its turn.
    func examineMemory() {
        let tally = broker.tally
        referee.expect(
            // With HTTP/2, something may hold a region that the tally does not cover.
            tally.bytes == broker.memory.used || plan.has(.http2) && tally.bytes < broker.memory.used,
            "\(broker.memory.used) bytes of memory are counted, but \(tally.bytes) are in use: \(tally)")
        // Nothing is accepted above the limit plus a quarter of it; the last message may be a long one, and may have
        // started a new region of a log. What was read from the store has its own bound.
        let most = plan.limits.memory + plan.limits.memory / 4 + plan.longest
        let logs = tally.logs - tally.ownLogs - tally.history
        referee.expect(
            logs + tally.parked <= most + tally.largestChunk,
            "\(logs) bytes of logs and \(tally.parked) of parked publishes are held; the limit "
                + "is \(most): \(tally)")
        referee.expect(
            tally.mostHistory <= History.most,
            "a view holds \(tally.mostHistory) regions from the store; the limit is \(History.most)")
    }

    // Topics

    private func examine(_ topic: Inspection.Topic, _ shard: Int, isBatch: Bool) {
        let ledger = journal.topic(topic.epoch, named: topic.name)
        examineStorage(topic, ledger)
        let before = ledger.end
        referee.expect(topic.end >= before, "'\(topic.name)' went backwards from \(before) to \(topic.end)")
        ledger.states.insert(topic.state)
        // The topic may have ended differently at the moment at which it was deleted.
        if !topic.isNamed { ledger.states.formUnion(["completed", "failed"]) }
        ledger.end = topic.end
        referee.expect(
            ledger.committed <= topic.committed && topic.committed <= topic.end,
            "'\(topic.name)' was committed up to \(ledger.committed), and is now committed up to \(topic.committed)")
        ledger.committed = topic.committed
        referee.expect(
            topic.forgotten <= topic.end,
            "'\(topic.name)' does not replay messages before \(topic.forgotten), but ends at \(topic.end)")
        ledger.head = topic.head
        ledger.kept = topic.kept
        ledger.forgotten = topic.forgotten
        ledger.retained = topic.retained
        for sequence in Swift.max(before, topic.head)..<Swift.max(topic.end, before, topic.head) {
            guard let message = broker.shards[shard].inspector.message(sequence, of: topic.epoch) else {
                referee.fail("message \(sequence) of '\(topic.name)' is within the range of its log, but missing")
                return
            }
            journal.saw(message.payload, at: sequence, of: ledger)
            ledger.charges[sequence] = message.charge
            referee.expect(
                message.timestamp >= ledger.timestamps[sequence - 1] ?? .min,
                "message \(sequence) of '\(topic.name)' has an earlier timestamp than the message before it")
            ledger.timestamps[sequence] = message.timestamp
        }
        checkWindow(topic, ledger)
        // One shard message may have brought room, another the publishes that used it, and a third a joiner that takes
        // the room away again.
        if !isBatch { checkRoom(topic, ledger, before) }
        ledger.lost = topic.lost
        ledger.horizon = topic.horizon
        ledger.outstanding = topic.channels.reduce(0) { $0 + $1.outstanding }
        ledger.firsts = topic.channels.count(where: \.awaitsFirst)
        ledger.reserved = topic.reserved
    }

    /// Notes messages that the store has refused. Others may have been appended since, with the same sequences.
    private func examineStorage(_ topic: Inspection.Topic, _ ledger: TopicLedger) {
        ledger.storage.kind = topic.storage
        guard let written = topic.written else { return }
        if topic.storage == .durable, topic.withdrawals != ledger.storage.withdrawals {
            journal.withdraw(ledger, from: written)
        }
        ledger.storage.withdrawals = topic.withdrawals
        referee.expect(
            ledger.written <= written && written <= topic.end,
            "'\(topic.name)' was written up to \(ledger.written), and is now written up to \(written)")
        ledger.written = written
    }

    /// Checks that the log has everything that is retained, and no more bytes than allowed.
    private func checkWindow(_ topic: Inspection.Topic, _ ledger: TopicLedger) {
        let retain = UInt64(plan.limits.retain)
        let oldest = topic.end - Swift.min(topic.end - 1, retain)
        referee.expect(
            topic.kept <= Swift.max(oldest, topic.lost, Swift.min(topic.forgotten, topic.end), ledger.storage.first),
            "'\(topic.name)' has released messages before \(topic.kept), but retains those from \(oldest) on: \(topic)")
        // When a `block` subscription on another shard becomes known, messages already on their way may exceed this,
        // once.
        let most = plan.limits.retainBytes * (topic.isBlocked ? 2 : 1)
        referee.expect(
            topic.bytes <= Swift.max(most, ledger.bytes) || topic.isBlocked && !ledger.isBlocked,
            "the log of '\(topic.name)' holds \(topic.bytes) bytes; the limit is \(most): \(topic)")
        ledger.bytes = topic.isBlocked ? topic.bytes : 0
        ledger.isBlocked = topic.isBlocked
        guard topic.end - topic.head < 300 else { return }
        var bytes = 0
        for sequence in topic.head..<topic.end { bytes += ledger.charges[sequence] ?? 0 }
        referee.expect(bytes == topic.bytes, "'\(topic.name)' counts \(topic.bytes) bytes, but holds \(bytes)")
        // Messages dropped for lack of bytes would not have fit, unless all topics had to release memory. A store
        // releases together what left memory together.
        guard topic.written == nil, topic.lost > ledger.lost, topic.lost == topic.head,
            let charge = ledger.charges[topic.lost - 1]
        else { return }
        bytes = charge
        for sequence in topic.lost..<topic.end { bytes += ledger.charges[sequence] ?? 0 }
        referee.expect(
            bytes > plan.limits.retainBytes || topic.shed.before == topic.lost && topic.shed.used > plan.limits.memory,
            "'\(topic.name)' released message \(topic.lost - 1) for lack of bytes; with it the log holds \(bytes), and "
                + "\(topic.shed.used) were used when it released those before \(topic.shed.before)")
    }

    /// Checks that publishers exceed the room of `block` subscriptions by at most the credit they were granted, and by
    /// first messages, which use none.
    private func checkRoom(_ topic: Inspection.Topic, _ ledger: TopicLedger, _ before: UInt64) {
        let reserved = topic.channels.reduce(0) { $0 + $1.reserved }
        referee.expect(
            topic.reserved == reserved,
            "'\(topic.name)' has room reserved for \(topic.reserved) messages, but its channels have \(reserved)")
        guard let horizon = topic.horizon, let earlier = ledger.horizon else { return }
        let free = Swift.max(before, horizon, earlier)
        referee.expect(
            topic.end <= free + UInt64(ledger.outstanding + ledger.firsts),
            "'\(topic.name)' went to \(topic.end), beyond its room up to \(horizon), by more than the "
                + "\(ledger.outstanding) granted and \(ledger.firsts) first messages")
        // Credit that lost its reservation may still be used. A first message that is yet to arrive has a reservation
        // without credit.
        let late = UInt64(Swift.max(0, ledger.outstanding - ledger.reserved))
        referee.expect(
            reserved <= ledger.reserved || topic.end + UInt64(reserved) <= free + late,
            "'\(topic.name)' at \(topic.end) has reserved room for \(reserved) messages up to \(horizon)")
    }
}

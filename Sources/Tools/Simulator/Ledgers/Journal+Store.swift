// Journal+Store: what the journal learns from the store of a run: messages that it refused, and what it has after a
// restart of the broker.

import Core
import Replay

/// Excerpts of the broker's reasons for refusing a message that its store does not write.
let storeRefusals = [
    "store: full", "The store did not write the message", "outcome unknown", "The store has failed",
]

extension Journal {
    /// Notes why a publish failed.
    func failed(_ number: Int, _ why: String) {
        if !why.contains("outcome unknown") { refused(number, why) }
    }

    /// The messages from `sequence` on are no longer in the topic: the store did not write them, and nobody has learned
    /// of them.
    func withdraw(_ topic: TopicLedger, from sequence: UInt64) {
        referee.expect(
            sequence >= topic.committed,
            "'\(topic.name)' was committed up to \(topic.committed), but messages from \(sequence) on are gone")
        for (place, number) in topic.numbers where place >= sequence {
            move(number, to: nil)
            messages[number].isWithdrawn = true
            messages[number].isRefused = !messages[number].isNumbered
            topic.remove(place)
        }
        topic.end = Swift.min(topic.end, sequence)
    }

    /// A client has learned that a topic has ended, or that it is deleted.
    func promised(_ epoch: UInt64, isDeleted: Bool) {
        guard let storage = topics[epoch]?.storage else { return }
        storage.isEnded = true
        storage.isDeleted = storage.isDeleted || isDeleted
    }

    // Restarts

    /// The broker has been started again.
    /// - Parameters:
    ///   - stored: the topics that the store had.
    ///   - epochs: their current epochs.
    func restarted(
        _ stored: [StoredTopic], epochs: [StoreID: UInt64], isClean: Bool,
        _ payload: (SequenceNumber, StoreID) -> [UInt8]?
    ) {
        for topic in topics.values.filter({ !$0.isGone }).sorted(by: { $0.epoch < $1.epoch }) {
            guard let found = stored.first(where: { $0.row.id.value == topic.storage.id }) else {
                lose(topic, isClean: isClean)
                continue
            }
            let id = found.row.id
            check(topic, found, isClean: isClean)
            for sequence in found.messages.lower.value..<found.messages.upper.value {
                guard let payload = payload(SequenceNumber(sequence), id) else {
                    return referee.fail("the store has lost message \(sequence) of '\(topic.name)'")
                }
                saw(payload, at: sequence, of: topic)
            }
            if topic.storage.kind == .durable { withdraw(topic, from: found.messages.upper.value) }
            let current = found.mayHaveLost ? succeed(topic, found, epochs[id] ?? 0) : topic
            current.restart(found)
        }
    }

    private func check(_ topic: TopicLedger, _ found: StoredTopic, isClean: Bool) {
        let end = found.messages.upper.value
        let mayLose = topic.storage.kind == .relaxed && !isClean
        referee.expect(
            mayLose || !topic.storage.isDeleted, "'\(topic.name)' was deleted, but is there after a restart")
        referee.expect(
            mayLose || !topic.storage.isEnded || found.row.end != nil,
            "'\(topic.name)' had ended, but is live after a restart")
        referee.expect(
            end >= topic.written && end <= topic.end && (!isClean || end == topic.end),
            "the store has '\(topic.name)' up to \(end); it was written up to \(topic.written) of \(topic.end)")
        referee.expect(
            found.messages.lower.value <= topic.kept,
            "the store has '\(topic.name)' from \(found.messages.lower) on; needed are those from \(topic.kept) on")
        referee.expect(
            found.mayHaveLost ? topic.storage.kind == .relaxed : found.row.epoch == topic.epoch,
            "the store has '\(topic.name)' with epoch \(found.row.epoch) instead of \(topic.epoch)")
    }

    /// The topic has a new epoch: messages that are not stored may have been delivered.
    private func succeed(_ topic: TopicLedger, _ found: StoredTopic, _ epoch: UInt64) -> TopicLedger {
        topic.leave()
        referee.expect(
            epoch != topic.epoch && topics[epoch] == nil, "'\(topic.name)' has epoch \(epoch) again after a crash")
        let next = TopicLedger(name: topic.name, epoch: epoch, topic.storage)
        topics[epoch] = next
        for (sequence, number) in topic.numbers {
            messages[number].isLost = sequence >= found.messages.upper.value
            if messages[number].isLost { continue }
            move(number, to: Place(epoch: epoch, sequence: sequence))
            next.numbers[sequence] = number
            next.charges[sequence] = topic.charges[sequence]
            next.timestamps[sequence] = topic.timestamps[sequence]
        }
        var former = found.row.former.map { ($0.epoch, $0.end.value) }
        former.append((found.row.epoch, found.messages.upper.value))
        next.storage.former = Dictionary(former) { $1 }
        return next
    }

    /// The store does not have the topic.
    private func lose(_ topic: TopicLedger, isClean: Bool) {
        defer { topic.leave() }
        guard topic.storage.kind != .memory, !deleted.contains(topic.name) else { return }
        referee.expect(
            topic.written == 1 && (!isClean || topic.end == 1),
            "'\(topic.name)' was written up to \(topic.written) of \(topic.end), but is gone after a restart")
        let mayLose = topic.storage.kind == .relaxed && !isClean
        referee.expect(
            mayLose || !topic.storage.isEnded, "'\(topic.name)' had ended, but is gone after a restart")
        if topic.storage.kind == .durable { withdraw(topic, from: topic.committed) }
    }
}

extension TopicLedger {
    /// The end of a former epoch of this topic.
    func former(_ epoch: UInt64) -> UInt64? { storage.former[epoch] }

    fileprivate func remove(_ sequence: UInt64) {
        numbers[sequence] = nil
        charges[sequence] = nil
        timestamps[sequence] = nil
    }

    /// The topic is gone from every shard.
    func leave() {
        isGone = true
        states.formUnion(["completed", "failed"])
    }

    /// A new process has the topic, and none of its messages in memory.
    fileprivate func restart(_ found: StoredTopic) {
        end = found.messages.upper.value
        committed = end
        written = end
        head = end
        kept = found.messages.lower.value
        lost = 1
        forgotten = 1
        horizon = nil
        bytes = 0
        isBlocked = false
        outstanding = 0
        reserved = 0
        storage.first = kept
        storage.withdrawals = 0
        storage.isEnded = found.row.end != nil
        storage.isDeleted = false
        // An end that was not written is lost with the process.
        states = storage.isEnded ? ["live", "completed", "failed"] : ["live"]
    }
}

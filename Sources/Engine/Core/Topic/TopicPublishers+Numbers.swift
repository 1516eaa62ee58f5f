// TopicPublishers+Numbers: numbered messages. A duplicate is acknowledged like its original, needs no room, and is not
// appended. Numbers count when messages are appended: one that is parked may become a duplicate, or the next message,
// in the meantime.

import Replay

extension TopicPublishers {
    /// The outcome of a numbered publish that need not wait.
    typealias Placed = (sequence: SequenceNumber, isDuplicate: Bool)

    /// The topic's publishers; created for the first of them.
    var table: PublisherNumbers {
        if let numbers { return numbers }
        let made = PublisherNumbers(ownership.context, isStored: topic.window.awaitsStore)
        made.collectsChanges = topic.isStored
        numbers = made
        return made
    }

    /// Restores the numbers that the store has from an earlier run. If messages may have been lost, publishers start
    /// again: some of their numbers may have been used.
    func restore(_ earlier: StoredTopic, now: Instant) {
        guard !earlier.publishers.isEmpty else { return }
        if earlier.mayHaveLost {
            ownership.effects.store.append(
                .publishers(earlier.row.id, PublisherChanges(removed: earlier.publishers.map(\.key))))
        } else {
            table.restore(earlier.publishers, now: now)
        }
    }

    /// The last committed message of a publisher; nil if it is not known.
    func lastCommitted(of key: PublisherKey, now: Instant) -> KnownPublisher.Progress? {
        guard let publisher = numbers?.find(key, now: now), publisher.committed.number > 0 else { return nil }
        return publisher.committed
    }

    private func verdict(on one: NumberedPublish, now: Instant) -> PublisherNumbers.Verdict {
        PublisherNumbers.verdict(on: one.number, of: numbers?.find(one.publisher, now: now))
    }

    // Single messages

    /// Appends a numbered message, or recognizes it as a duplicate; returns nil if it has to wait for room. Only for
    /// topics in memory.
    func place(
        _ one: NumberedPublish, metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer, now: Instant
    ) throws(Refusal) -> Placed? {
        assert(!topic.isStored)
        let verdict = verdict(on: one, now: now)
        // Even if the topic has ended since: the first answer may have been lost.
        if verdict == .duplicate, let publisher = numbers?.find(one.publisher, now: now) {
            numbers?.use(publisher, now: now)
            return (publisher.committed.sequence, true)
        }
        let charge = Log.charge(payload: payload.count, metadata: metadata?.count ?? 0)
        if let refusal = topic.refusal(charge: charge) { throw refusal }
        // The messages before it may be parked.
        guard noneParked else { return nil }
        if let refusal = verdict.refusal(of: one.publisher, topic.name) { throw refusal }
        guard hasPlace(charge) else { return nil }
        let publisher = try table.findOrAdd(one.publisher, now: now)
        let sequence = append(metadata: metadata, payload: payload, charge: charge, now: now)
        numbers?.note(1, of: publisher, upTo: sequence, now: now)
        return (sequence, false)
    }

    /// Acknowledges a single message if it is a duplicate. Returns whether it is.
    func acceptAgain(_ key: StreamKey, _ one: NumberedPublish, now: Instant) -> Bool {
        guard verdict(on: one, now: now) == .duplicate, let publisher = numbers?.find(one.publisher, now: now) else {
            return false
        }
        numbers?.use(publisher, now: now)
        if one.number > publisher.committed.number,
            topic.awaitCommit(.duplicate(key, of: publisher), at: publisher.last.sequence)
        {
            return true
        }
        acknowledge(key, at: publisher.committed.sequence, isDuplicate: true)
        return true
    }

    /// Removes the first parked message if its number needs no room: a duplicate, or one that is refused. Returns
    /// whether it did.
    func applyNumber(of waiting: ParkedPublish, _ channel: Channel?, now: Instant) -> Bool {
        guard let channel else {
            guard let one = waiting.numbered, !topic.isShared else { return false }
            if let refusal = verdict(on: one, now: now).refusal(of: one.publisher, topic.name) {
                refuseFirstParked(refusal)
                return true
            }
            guard acceptAgain(waiting.key, one, now: now) else { return false }
            current.parked.removeFirst()
            return true
        }
        guard channel.numbers != nil else { return false }
        do throws(Refusal) {
            guard try isDuplicate(on: channel, now: now) else { return false }
            current.parked.removeFirst()
            channel.first = .taken
            current.credits.line.update(channel)
            acceptAgain(channel, 1, now: now)
            if channel.isComplete { finish(channel, now: now) }
        } catch {
            refuseFirstParked(error)
        }
        return true
    }

    /// Appends a message that was parked.
    /// - Throws: the refusal, if its publisher is new and there are too many.
    func append(
        _ waiting: ParkedPublish, _ channel: Channel?, metadata: UnsafeRawBufferPointer?,
        payload: UnsafeRawBufferPointer, charge: Int, now: Instant
    ) throws(Refusal) {
        let numbered = waiting.numbered
        // Numbers of shared topics are in their streams.
        let publisher =
            topic.isShared
            ? nil : try numbered.map { (one) throws(Refusal) in try table.findOrAdd(one.publisher, now: now) }
        if let channel { try bind(channel, now: now) }
        room.observe(charge: charge)
        let sequence = topic.append(
            metadata: metadata, payload: payload, of: channel, numbered: numbered, now: now)
        if let publisher { numbers?.note(1, of: publisher, upTo: sequence, now: now) }
        guard let channel else { return accepted(waiting.key, at: sequence) }
        current.credits.line.update(channel)
        accepted(channel, 1, upTo: sequence, now: now)
    }

    // Messages of channels

    /// Whether the next message of a channel is a duplicate. Its publisher is known afterwards.
    /// - Throws: the refusal, if the message does not follow its publisher's last one.
    func isDuplicate(on channel: Channel, now: Instant) throws(Refusal) -> Bool {
        guard let next = channel.numbers else { return false }
        let known = next.known ?? numbers?.find(next.key, now: now)
        let verdict = PublisherNumbers.verdict(on: next.next, of: known)
        if let refusal = verdict.refusal(of: next.key, topic.name) { throw refusal }
        try bind(channel, now: now)
        return verdict == .duplicate
    }

    /// Looks up a channel's publisher, once.
    func bind(_ channel: Channel, now: Instant) throws(Refusal) {
        guard let numbers = channel.numbers, numbers.known == nil else { return }
        let publisher = try table.findOrAdd(numbers.key, now: now)
        table.open(publisher)
        numbers.bind(publisher)
    }

    /// The next `count` messages of a channel are duplicates.
    func acceptAgain(_ channel: Channel, _ count: Int, now: Instant) {
        guard let next = channel.numbers, let publisher = next.known else { return }
        numbers?.use(publisher, now: now)
        next.advance(by: count)
        topic.markDirty()
        if next.next - 1 > publisher.committed.number,
            topic.awaitCommit(.duplicates(channel, count: count), at: publisher.last.sequence)
        {
            return
        }
        acknowledge(channel, count, upTo: publisher.committed.sequence, isDuplicate: true)
    }

    /// Accepts a run of messages if all of them are duplicates within the channel's credit. Returns whether they are.
    func acceptAgain(_ channel: Channel, _ run: FramedRun, now: Instant) -> Bool {
        guard let next = channel.numbers, let publisher = next.known, channel.outstanding >= run.count,
            next.next + UInt64(run.count) - 1 <= publisher.last.number
        else { return false }
        current.credits.spend(run.count, of: channel, in: &room)
        acceptAgain(channel, run.count, now: now)
        return true
    }
}

extension PublisherNumbers.Verdict {
    /// Why such a message is refused; nil if it is accepted.
    func refusal(of key: PublisherKey, _ topic: String) -> Refusal? {
        switch self {
        case .next, .duplicate: nil
        case .gap(let last):
            Refusal(
                .publisher,
                "expected \(last + 1); the topic '\(topic)' has the messages of publisher '\(key.id)' up to \(last).")
        case .unknown:
            Refusal(
                .publisher,
                "unknown, start at 1; the topic '\(topic)' does not know publisher '\(key.id)', or no longer.")
        }
    }
}

// Topic+Shared: what a topic does whose messages are in JetStream: it passes its publishers' messages to the upstream,
// and appends what the upstream reads from the topic's stream.

import ForebayWire
import Replay

extension Topic {
    var isShared: Bool { shared != nil }
    /// Whether a message can be acknowledged as soon as it is appended.
    var commitsAtOnce: Bool { !isShared && !isStored }
    /// Whether subscriptions may begin: its messages up to now are in the log.
    var isCurrent: Bool { shared?.isCurrent ?? true }

    /// Whether messages are accepted, if there is room.
    var takesMessages: Bool { state.isLive && !isEnding }
    /// Whether its end was requested and is not in its stream yet.
    var isEnding: Bool { shared?.isEnding ?? false }

    var endingRefusal: Refusal {
        Refusal(
            .unavailable,
            "The topic '\(name)' is ending, and NATS JetStream has not recorded the end yet; try again later.")
    }

    /// Passes a message to the upstream.
    /// - Parameters:
    ///   - channel: the channel on which it came, whose messages stay in order.
    ///   - numbered: the message's number, if it did not come on a channel and has one.
    /// - Returns: a ticket in place of the sequence, which is not known yet.
    func submit(
        _ shared: SharedLog, metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer, of channel: Channel?,
        _ numbered: NumberedPublish?
    ) -> SequenceNumber {
        let ticket = ownership.newTicket()
        let (chain, number) = channel?.takeShared(ticket) ?? (nil, numbered)
        ownership.effects.upstream.append(
            .publish(
                SharedPublish(
                    use: shared.use, ticket: ticket, chain: chain, numbered: number, metadata: metadata,
                    payload: payload)))
        let sequence = SequenceNumber(ticket.value)
        shared.submitted(sequence, charge: Log.charge(payload: payload.count, metadata: metadata?.count ?? 0))
        updateUnconfirmed(shared)
        return sequence
    }

    /// Updates how many messages publishers may send before earlier ones are in the stream.
    private func updateUnconfirmed(_ shared: SharedLog) {
        let limit = ownership.limits.uncommittedBytes
        publishers.room.unwrittenLimit = ownership.store.uncommitted > limit ? 0 : limit / 4
        publishers.room.chargedBeforeUnwritten = log.charged &- UInt64(shared.unconfirmedBytes)
        let change = shared.unconfirmedBytes - window.unwritten
        ownership.store.addUncommitted(change)
        // The upstream holds them.
        if change != 0 { ownership.memory.add(change) }
        window.unwritten = shared.unconfirmedBytes
    }

    // From the upstream

    /// The topic's messages from `next` on follow.
    func joined(at next: SequenceNumber) {
        shared?.noteFound()
        log.begin(at: next)
    }

    func take(_ batch: FeedBatch, now: Instant) {
        guard let shared, state.isLive else { return }
        // What comes from the stream cannot be refused, so room is made first.
        if ownership.memory.isFull { _ = ownership.relief.refusal(for: self) }
        var waiting: [CommitLine.Waiting] = []
        var count = 0
        batch.forEach(lost: { if $0 > log.next { skip(to: $0, isLost: true) } }) { item, metadata, payload in
            guard item.sequence >= log.next else { return }
            // What is not lost is for nodes.
            if item.sequence > log.next { skip(to: item.sequence, isLost: false) }
            publishers.room.observe(charge: Log.charge(payload: payload.count, metadata: metadata?.count ?? 0))
            let sequence = log.append(
                metadata: metadata, payload: payload, timestamp: item.timestamp, budget: ownership.memory)
            count += 1
            if let who = item.ticket.flatMap(shared.take) { waiting.append((sequence, who)) }
        }
        noteMessages(count, now: now)
        finish(waiting, shared, now: now)
    }

    /// The upstream has refused one of this node's messages.
    func refuse(_ ticket: PublishTicket, _ refusal: Refusal, now: Instant) {
        guard let shared, let who = shared.take(ticket) else { return }
        publishers.refused([(SequenceNumber(ticket.value), who)], refusal, now: now)
        finish([], shared, now: now)
    }

    /// One of this node's messages, which are numbered, was in the stream already.
    func acceptAgain(_ ticket: PublishTicket, last: SequenceNumber, now: Instant) {
        guard let shared, let who = shared.take(ticket) else { return }
        switch who {
        case .single(let key): publishers.acknowledge(key, at: last, isDuplicate: true)
        case .channel(let channel, let count):
            publishers.committed([(last, .duplicates(channel, count: count))], now: now)
        case .duplicate, .duplicates, .finished, .call: break
        }
        finish([], shared, now: now)
    }

    /// A numbered message for a topic that has ended: its stream may have it, and the first answer was lost.
    /// - Returns: whether the publisher waits for the upstream.
    func askAgain(_ key: StreamKey, _ numbered: NumberedPublish, _ message: MessageBatch) -> Bool {
        guard let shared, isOver, !isDeleted else { return false }
        message.forEach { metadata, payload in
            let ticket = submit(shared, metadata: metadata, payload: payload, of: nil, numbered)
            shared.add(.single(key), for: ticket)
            return false
        }
        return true
    }

    // The end

    /// Asks the upstream to end or delete the topic, unless that was requested before.
    func requestEnd(_ end: SharedEnd, now: Instant) {
        guard let shared, !shared.isEnding else { return }
        let ticket = ownership.newTicket()
        shared.requestEnd(end, ticket)
        ownership.effects.upstream.append(.end(shared.use, ticket, end))
        noteUse(now)
    }

    /// The topic has ended in its stream. All messages of this node that are not in it were refused before.
    func ended(_ end: SharedEnd, by ticket: PublishTicket?, now: Instant) {
        let ending = shared?.takeEnding(at: end)
        switch end {
        case .completed: if state.isLive { self.end(as: .completed, now: now) }
        case .failed(let reason): if state.isLive { self.end(as: .failed(reason), now: now) }
        case .deleted:
            // What was sent meanwhile is for a use of the topic that the upstream no longer knows.
            ownership.refuseAll(of: self, end.refusal(of: name), now: now)
            ownership.endHere(self, now: now)
        }
        guard let ending else { return }
        if ending.ticket == ticket || end == .deleted {
            publishers.committed(ending.waiters.map { (log.end, $0) }, now: now)
        } else {
            refuse(ending, end.refusal(of: name), now: now)
        }
    }

    /// The end that this node has requested was refused.
    func refuseEnd(_ ticket: PublishTicket, _ refusal: Refusal, now: Instant) {
        guard let shared, shared.ending?.ticket == ticket, let ending = shared.takeEnding() else { return }
        refuse(ending, refusal, now: now)
        markDirty()
        noteUse(now)
    }

    private func refuse(_ ending: SharedLog.Ending, _ refusal: Refusal, now: Instant) {
        publishers.refused(ending.waiters.map { (log.end, $0) }, refusal, now: now)
    }

    private func finish(_ waiting: [CommitLine.Waiting], _ shared: SharedLog, now: Instant) {
        if !waiting.isEmpty { publishers.committed(waiting, now: now) }
        updateUnconfirmed(shared)
        markDirty()
        noteUse(now)
    }
}

extension SharedEnd {
    init(_ state: TopicState) {
        switch state {
        case .failed(let reason): self = .failed(reason)
        case .live, .completed, .left: self = .completed
        }
    }
}

extension TopicOwnership {
    /// Follows a shared topic that is used for the first time.
    func join(_ topic: Topic) {
        guard let shared = topic.shared else { return }
        effects.upstream.append(.join(shared.use, limits.retention(of: topic.name)))
    }

    /// Handles the upstream's reports. Those about topics that are no longer used are ignored.
    func upstream(_ reports: [UpstreamReport], now: Instant) {
        for report in reports {
            switch report {
            case .joined(let use, let epoch, let next):
                guard let topic = shared(use) else { continue }
                topics.change(epoch, of: topic)
                topic.joined(at: next)
            case .followed(let use, let first): if let topic = shared(use) { followers.follow(topic, from: first) }
            case .heard(let name): followers.heard(name, now: now)
            case .matched(let number, let names, let isLast):
                followers.take(names, of: number, isLast: isLast, now: now)
            case .unlisted(let number, let refusal): followers.refuse(number, refusal, now: now)
            case .absent(let use): if let topic = shared(use) { becameAbsent(topic, now: now) }
            case .messages(let use, let batch): shared(use)?.take(batch, now: now)
            case .current(let use, let wasEmpty):
                if let topic = shared(use) { becameCurrent(topic, wasEmpty: wasEmpty, now: now) }
            case .refused(let use, let ticket, let refusal): refused(ticket, refusal, of: shared(use), now: now)
            case .duplicate(let use, let ticket, let last):
                shared(use)?.acceptAgain(ticket, last: last, now: now)
            case .found(let use, let ticket, let last):
                if let topic = shared(use), let lookup = topic.shared?.takeLookup(ticket) {
                    calls.answer(lookup.target, .success(calls.describe(lookup.key, last, of: topic)))
                    topic.noteUse(now)
                }
            case .ended(let use, let end, let ticket): shared(use)?.ended(end, by: ticket, now: now)
            case .left(let use, let refusal): if let topic = shared(use) { leave(topic, refusal, now: now) }
            }
        }
    }

    private func shared(_ use: TopicUse) -> Topic? { topics[use.topic].flatMap { $0.shared?.use == use ? $0 : nil } }

    private func refused(_ ticket: PublishTicket, _ refusal: Refusal, of topic: Topic?, now: Instant) {
        guard let topic, let shared = topic.shared else { return }
        if let lookup = shared.takeLookup(ticket) {
            calls.answer(lookup.target, .failure(refusal))
            return topic.noteUse(now)
        }
        topic.refuse(ticket, refusal, now: now)
        topic.refuseEnd(ticket, refusal, now: now)
    }

    /// There is no such topic. Unless somebody waits for it, this node need not follow it.
    private func becameAbsent(_ topic: Topic, now: Instant) {
        topic.shared?.becomeAbsent()
        followers.goOn(with: topic)
        performCalls(topic, now: now)
        topic.noteUse(now)
        if topic.usage.idleSince != nil { remove(topic) }
    }

    private func performCalls(_ topic: Topic, now: Instant) {
        for (call, target) in topic.shared?.takeCalls() ?? [] { calls.perform(call, for: target, now: now) }
    }

    private func becameCurrent(_ topic: Topic, wasEmpty: Bool, now: Instant) {
        guard let shared = topic.shared else { return }
        // Unless it was reported from where patterns lack its messages.
        followers.follow(topic, from: topic.committed)
        for shard in shared.becomeCurrent() {
            if shard == index {
                if let view = views[topic.name] { attachment.attach(view, to: topic, wasEmpty: wasEmpty, now: now) }
            } else {
                attach(topic, to: shard, wasEmpty: wasEmpty)
            }
        }
        performCalls(topic, now: now)
        followers.goOn(with: topic)
        topic.markDirty()
    }

    /// How many subscriptions on a shard wait until they may begin.
    func noteWaiting(_ count: Int, for name: String, on shard: Int, now: Instant) {
        guard let topic = topics[name], let shared = topic.shared else { return }
        shared.note(waiting: count, on: shard)
        topic.noteUse(now)
        topic.markDirty()
    }

    /// Subscriptions that wait for a topic will not begin.
    func refuseWaiting(_ topic: Topic, _ refusal: Refusal) {
        for shard in topic.shared?.takeAttaching() ?? [] {
            if shard == index {
                attachment.attachRefused(topic.name, refusal)
            } else {
                send(.attachRefused(name: topic.name, refusal), to: shard)
            }
        }
    }

    /// The upstream does not follow the topic any longer, so nothing else answers what waits for it.
    func refuseAll(of topic: Topic, _ refusal: Refusal, now: Instant) {
        refuseWaiting(topic, refusal)
        followers.goOn(with: topic)
        let (calls, lookups) = (topic.shared?.takeCalls() ?? [], topic.shared?.takeLookups() ?? [])
        for target in calls.map(\.target) + lookups { self.calls.answer(target, .failure(refusal)) }
        for ticket in topic.shared?.unconfirmedTickets ?? [] { topic.refuse(ticket, refusal, now: now) }
    }

    /// Ends a topic on this node only.
    private func leave(_ topic: Topic, _ refusal: Refusal, now: Instant) {
        if let limit = refusal.limit { _ = self.refusal(at: limit, refusal.sentence) }
        refuseAll(of: topic, refusal, now: now)
        if let ticket = topic.shared?.ending?.ticket { topic.refuseEnd(ticket, refusal, now: now) }
        topic.delete(as: .left(refusal), now: now)
        remove(topic)
    }
}

extension TopicTable {
    /// Gives a shared topic the epoch of its stream, which is now known.
    func change(_ epoch: UInt64, of topic: Topic) {
        move(topic, to: epoch)
        topic.epoch = epoch
    }
}

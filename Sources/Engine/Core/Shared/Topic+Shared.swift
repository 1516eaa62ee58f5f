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

    /// Refuses to end or delete a shared topic.
    var unendable: Refusal {
        Refusal(
            .unsupported,
            "The topic '\(name)' is shared with other nodes, and a node cannot end or delete shared topics yet; delete "
                + "its stream in NATS instead.")
    }

    /// Why a publish is not possible on a shared topic; nil if it is.
    func sharedRefusal(_ request: PublishRequest) -> Refusal? {
        guard isShared else { return nil }
        if request.options.completesTopic || request.options.lossFailsTopic { return unendable }
        if request.numbered == nil { return nil }
        return Refusal(
            .unsupported,
            "The topic '\(name)' is shared with other nodes, and messages of shared topics cannot be numbered yet; "
                + "publish without a number.")
    }

    /// Passes a message to the upstream.
    /// - Parameter channel: the channel on which it came, whose messages stay in order.
    /// - Returns: a ticket in place of the sequence, which is not known yet.
    func submit(
        _ shared: SharedLog, metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer, of channel: Channel?
    ) -> SequenceNumber {
        let ticket = PublishTicket(shard: ownership.index, number: ownership.nextTicket())
        if let channel, channel.chain == nil { channel.chain = ticket }
        ownership.effects.upstream.append(
            .publish(
                SharedPublish(
                    use: shared.use, ticket: ticket, chain: channel?.chain, metadata: metadata, payload: payload)))
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
    func joined(at next: SequenceNumber) { log.begin(at: next) }

    func take(_ batch: FeedBatch, now: Instant) {
        guard let shared, state.isLive else { return }
        // What comes from the stream cannot be refused, so room is made first.
        if ownership.memory.isFull { _ = ownership.relief.refusal(for: self) }
        var waiting: [CommitLine.Waiting] = []
        var count = 0
        batch.forEach { item, metadata, payload in
            guard item.sequence >= log.next else { return }
            if item.sequence > log.next { skip(to: item.sequence, isLost: batch.isLost(before: item.sequence)) }
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

    private func finish(_ waiting: [CommitLine.Waiting], _ shared: SharedLog, now: Instant) {
        if !waiting.isEmpty { publishers.committed(waiting, now: now) }
        updateUnconfirmed(shared)
        markDirty()
        noteUse(now)
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
            case .messages(let use, let batch): shared(use)?.take(batch, now: now)
            case .current(let use, let wasEmpty):
                if let topic = shared(use) { becameCurrent(topic, wasEmpty: wasEmpty, now: now) }
            case .refused(let use, let ticket, let refusal): shared(use)?.refuse(ticket, refusal, now: now)
            case .left(let use, let refusal): if let topic = shared(use) { leave(topic, refusal, now: now) }
            }
        }
    }

    private func shared(_ use: TopicUse) -> Topic? { topics[use.topic].flatMap { $0.shared?.use == use ? $0 : nil } }

    private func becameCurrent(_ topic: Topic, wasEmpty: Bool, now: Instant) {
        guard let shared = topic.shared else { return }
        for shard in shared.becomeCurrent() {
            if shard == index {
                if let view = views[topic.name] { subscribing.attach(view, to: topic, wasEmpty: wasEmpty, now: now) }
            } else {
                attach(topic, to: shard, wasEmpty: wasEmpty)
            }
        }
        topic.markDirty()
    }

    /// Whether subscriptions on a shard still wait until they may begin.
    func noteAwaited(_ name: String, _ isAwaited: Bool, by shard: Int, now: Instant) {
        guard let topic = topics[name], let shared = topic.shared else { return }
        shared.note(isAwaited: isAwaited, by: shard)
        topic.noteUse(now)
        topic.markDirty()
    }

    /// Subscriptions that wait for a topic will not begin.
    func refuseWaiting(_ topic: Topic, _ refusal: Refusal) {
        for shard in topic.shared?.takeAttaching() ?? [] {
            if shard == index {
                subscribing.attachRefused(topic.name, refusal)
            } else {
                send(.attachRefused(name: topic.name, refusal), to: shard)
            }
        }
    }

    /// Ends a topic on this node only.
    private func leave(_ topic: Topic, _ refusal: Refusal, now: Instant) {
        refuseWaiting(topic, refusal)
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

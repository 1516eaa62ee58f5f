// TopicEnds: the end of a channel, and that of a topic with all its publishers.

import Replay

extension Topic {
    func ended(_ channel: Channel, _ end: PublisherEnd, now: Instant) {
        switch end {
        case .completed:
            channel.isComplete = true
            if !channel.isParked, !channel.isRemoved { finish(channel, now: now) }
        case .failed(let reason):
            remove(channel)
            let told = reason.isEmpty ? "the publisher failed" : reason
            if channel.options.completesTopic { finish(.failed(told), now: now) }
        case .cancelled:
            remove(channel)
            if channel.options.lossFailsTopic { finish(.failed("the publisher cancelled"), now: now) }
        case .lost:
            remove(channel)
            if channel.options.lossFailsTopic { finish(.failed("the publisher's connection was lost"), now: now) }
        }
        noteUse(now)
    }

    /// A parked acknowledged publish whose publisher wants no answer any more.
    func withdraw(_ key: StreamKey, now: Instant) {
        parked.withdraw(key)
        markDirty()
        noteUse(now)
    }

    /// All of a complete channel is appended; it is over once that is committed.
    func finish(_ channel: Channel, now: Instant) {
        guard channel.uncommitted == 0 else { return line.update(channel) }
        tellNews(channel)
        remove(channel)
        ownership.notices.tell(channel.key, .finished)
        if channel.options.completesTopic { finish(.completed, now: now) }
        noteUse(now)
    }

    /// Room that the channel had reserved is free for others again.
    func remove(_ channel: Channel) {
        guard channels.remove(channel) else { return }
        channel.isRemoved = true
        line.update(channel)
        reservations.withdraw(channel)
        room.reserved -= channel.reserved
        channel.reserved = 0
        if channel.isParked { parked.withdraw(channel.key) }
        markDirty()
    }

    /// The topic's end; the first one wins. Other publishers are rejected.
    func finish(_ end: TopicState, now: Instant) {
        guard state.isLive else { return }
        shut(end, now: now)
        ownership.events.event("topic-" + end.name, topic: name, epoch: epoch)
    }

    /// A topic that has ended already fails now all the same for those who have not been told the end.
    func delete(now: Instant) {
        for index in mirrors.indices { mirrors[index].isEnded = false }
        isDeleted = true
        forgotten = log.end
        shut(.failed("deleted"), now: now)
    }

    private func shut(_ end: TopicState, now: Instant) {
        state = end
        advanceViews(now: now)
        if isOver, let refusal = refusal(charge: 0) { refusePublishers(refusal) }
        noteUse(now)
    }

    /// Ends every channel and parked publish; where they are many, some now and the others later. What was accepted is
    /// acknowledged before.
    func refusePublishers(_ refusal: Refusal) {
        guard refused == nil else { return }
        refused = refusal
        refuseSomePublishers()
    }

    func refuseSomePublishers() {
        guard let refused else { return }
        for _ in 0..<Work.endings {
            ownership.work.spent += Work.ending
            if let waiting = parked.first {
                parked.removeFirst()
                if let channel = channels[waiting.key] {
                    channel.isParked = false
                    _ = reject(channel, refused)
                } else {
                    ownership.losses.refusedPublish(refused, of: self)
                    ownership.notices.tell(waiting.key, .refused(refused))
                }
            } else if let channel = channels.any {
                _ = reject(channel, refused)
            } else {
                return self.refused = nil
            }
        }
        ownership.work.refuseLater(self)
    }

    func tellNews(_ channel: Channel) {
        guard channel.hasNews else { return }
        channel.hasNews = false
        ownership.notices.tell(
            channel.key, .acknowledged(sequence: channel.last, epoch: epoch, accepted: channel.accepted))
    }
}

// TopicPublishers+Ends: acknowledgements to publishers, and the ends of channels and other publishers.

import Replay

extension TopicPublishers {
    // Acknowledgements

    @inline(__always)
    func accepted(_ channel: Channel, _ count: Int, upTo sequence: SequenceNumber, now: Instant) {
        if let channelNumbers = channel.numbers, let known = channelNumbers.known {
            numbers?.note(count, of: known, upTo: sequence, now: now)
            channelNumbers.advance(by: count)
        }
        if topic.awaitCommit(.channel(channel, count: count), at: sequence) { return }
        acknowledge(channel, count, upTo: sequence)
    }

    /// A parked acknowledged publish has been appended.
    func accepted(_ key: StreamKey, at sequence: SequenceNumber) {
        if topic.awaitCommit(.single(key), at: sequence) { return }
        acknowledge(key, at: sequence)
    }

    func acknowledge(
        _ channel: Channel, _ count: Int, upTo sequence: SequenceNumber, isDuplicate: Bool = false
    ) {
        channel.accepted += UInt64(count)
        channel.last = sequence
        if isDuplicate { channel.hasPendingDuplicate = true }
        guard !channel.hasPendingAcknowledgement else { return }
        channel.hasPendingAcknowledgement = true
        current.awaitingAcknowledgement.append(channel)
    }

    func acknowledge(_ key: StreamKey, at sequence: SequenceNumber, isDuplicate: Bool = false) {
        ownership.notices.notify(
            key, .acknowledged(sequence: sequence, epoch: topic.epoch, accepted: 1, isDuplicate: isDuplicate))
    }

    /// Messages, or the topic's end, have been committed.
    func committed(_ waiting: [CommitLine.Waiting], now: Instant) {
        numbers?.commit(upTo: topic.committed)
        var committed: [Channel] = []
        func apply(_ channel: Channel, _ count: Int, upTo sequence: SequenceNumber, isDuplicate: Bool) {
            channel.uncommitted -= count
            assert(channel.uncommitted >= 0)
            acknowledge(channel, count, upTo: sequence, isDuplicate: isDuplicate)
            if channel.uncommitted == 0 { committed.append(channel) }
        }
        for (sequence, who) in waiting {
            switch who {
            case .single(let key): acknowledge(key, at: sequence)
            case .channel(let channel, let count): apply(channel, count, upTo: sequence, isDuplicate: false)
            case .duplicate(let key, let known): acknowledge(key, at: known.committed.sequence, isDuplicate: true)
            case .duplicates(let channel, let count):
                let last = channel.numbers?.known?.committed.sequence ?? sequence
                apply(channel, count, upTo: last, isDuplicate: true)
            case .finished(let key): ownership.notices.notify(key, .finished)
            case .call(let caller, let description): ownership.calls.answer(caller, .success(description))
            }
        }
        for channel in committed { endCommitted(channel, now: now) }
    }

    /// The store has refused messages, or the topic's end. A channel ends at the first message that was refused.
    func refused(_ waiting: [CommitLine.Waiting], _ refusal: Refusal, now: Instant) {
        for (_, who) in waiting {
            switch who {
            case .channel(let channel, let count), .duplicates(let channel, let count): channel.uncommitted -= count
            case .single, .duplicate, .finished, .call: break
            }
        }
        for (_, who) in waiting {
            switch who {
            case .single(let key), .duplicate(let key, _): refuse(key, refusal)
            case .channel(let channel, _), .duplicates(let channel, _): refuse(channel, refusal)
            case .finished(let key): ownership.notices.notify(key, .refused(refusal))
            case .call(let caller, _): ownership.calls.answer(caller, .failure(refusal))
            }
        }
    }

    /// Ends a channel none of whose messages waits any longer, unless it has ended.
    private func refuse(_ channel: Channel, _ refusal: Refusal) {
        switch channel.state {
        case .open, .complete: reject(channel, refusal)
        case .removed(nil): break
        // It was to end at a later message.
        case .removed(_?):
            channel.state = .removed(nil)
            ownership.notices.notify(channel.key, .refused(refusal))
        }
    }

    /// All messages of a channel are committed: ends the channel if its end waited for that.
    private func endCommitted(_ channel: Channel, now: Instant) {
        switch channel.state {
        case .open, .removed(nil): break
        case .complete: if !channel.isParked { finish(channel, now: now) }
        case .removed(let refusal?):
            channel.state = .removed(nil)
            sendAcknowledgements(of: channel)
            ownership.notices.notify(channel.key, .refused(refusal))
        }
    }

    /// Sends the pending acknowledgements of channels.
    func sendAcknowledgements() {
        guard let current = ifAny else { return }
        var next = 0
        // Further channels may be added in the meantime.
        while next < current.awaitingAcknowledgement.count {
            let channel = current.awaitingAcknowledgement[next]
            if !channel.isRemoved { sendAcknowledgements(of: channel) }
            next += 1
        }
        if next > 0 { current.awaitingAcknowledgement.removeAll(keepingCapacity: true) }
    }

    private func sendAcknowledgements(of channel: Channel) {
        guard channel.hasPendingAcknowledgement else { return }
        channel.hasPendingAcknowledgement = false
        let isDuplicate = channel.hasPendingDuplicate
        channel.hasPendingDuplicate = false
        ownership.notices.notify(
            channel.key,
            .acknowledged(
                sequence: channel.last, epoch: topic.epoch, accepted: channel.accepted, isDuplicate: isDuplicate))
    }

    // Ends of channels

    func ended(_ channel: Channel, _ end: PublisherEnd, now: Instant) {
        switch end {
        case .completed:
            guard case .open = channel.state else { break }
            channel.state = .complete
            if !channel.isParked { finish(channel, now: now) }
        case .failed(let reason):
            remove(channel)
            let text = reason.isEmpty ? "the publisher failed" : reason
            if channel.options.completesTopic { topic.finish(.failed(text), now: now) }
        case .cancelled:
            remove(channel)
            if channel.options.lossFailsTopic { topic.finish(.failed("the publisher cancelled"), now: now) }
        case .lost:
            remove(channel)
            if channel.options.lossFailsTopic { topic.finish(.failed("the publisher's connection was lost"), now: now) }
        }
        topic.noteUse(now)
    }

    /// All messages of a completed channel are appended. It ends once they are committed.
    func finish(_ channel: Channel, now: Instant) {
        assert(channel.isComplete && !channel.isParked)
        guard channel.uncommitted == 0 else { return current.credits.line.update(channel) }
        sendAcknowledgements(of: channel)
        remove(channel)
        if channel.options.completesTopic { topic.finish(.completed, now: now) }
        let isOver = !channel.options.completesTopic || !topic.awaitEnd(.finished(channel.key))
        if isOver { ownership.notices.notify(channel.key, .finished) }
        topic.noteUse(now)
    }

    /// Ends `channel` with an error, once everything it had accepted is committed. Always returns false, for the
    /// convenience of its callers.
    @discardableResult
    func reject(_ channel: Channel, _ refusal: Refusal) -> Bool {
        sendAcknowledgements(of: channel)
        remove(channel)
        ownership.losses.refusedPublish(refusal, of: topic)
        if channel.uncommitted > 0 {
            channel.state = .removed(refusal)
        } else {
            ownership.notices.notify(channel.key, .refused(refusal))
        }
        if channel.options.lossFailsTopic {
            topic.finish(.failed("the publisher was rejected"), now: ownership.moment)
        }
        return false
    }

    /// Removes a channel and frees the room that it had reserved.
    private func remove(_ channel: Channel) {
        guard current.channels.remove(channel) else { return }
        if channel.isParked { current.parked.withdraw(channel.key) }
        channel.state = .removed(nil)
        current.credits.withdraw(channel, from: &room)
        if let known = channel.numbers?.known { numbers?.close(known, now: ownership.moment) }
        topic.markDirty()
    }

    /// Ends every channel and parked publish, in slices if there are many. Accepted messages are acknowledged first.
    func refuse(_ refusal: Refusal) {
        guard self.refusal == nil else { return }
        self.refusal = refusal
        refuseSome()
    }

    func refuseSome() {
        guard let refusal else { return }
        for _ in 0..<Work.endings {
            ownership.work.spent += Work.ending
            if !noneParked {
                refuseFirstParked(refusal)
            } else if let channel = ifAny?.channels.any {
                reject(channel, refusal)
            } else {
                return self.refusal = nil
            }
        }
        ownership.work.refuseLater(topic)
    }
}

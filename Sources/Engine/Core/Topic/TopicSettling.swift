// What a topic does once per batch of inputs, when messages came or room was made: views advance, the head of the log
// goes, parked publishes find room, channels are acknowledged and granted more.

import ForebayWire
import Replay

extension Topic {
    func settle(now: Instant) {
        awaitsMemory = false
        if retention.age > 0 { ages.note(end: log.end, age: retention.age, now: now.monotonic) }
        advanceViews(now: now)
        // Where both wait for room, channels are granted some whenever publishes that were parked have had theirs.
        if isChannelsTurn, !parked.isEmpty, freeRoom > 0 {
            isChannelsTurn = false
            grant(now: now)
        }
        serveParked(now: now)
        tellNews()
        if parked.isEmpty { grant(now: now) }
        if let new = commits?.takeNew(of: log, epoch: epoch) { ownership.effects.store.append(.append(new)) }
        noteBlocking(now)
        noteIdleness(now)
        if activity.note(published: published, now: now.monotonic), !isDeleted { ownership.topics.noteBusier(self) }
        ownership.timers.schedule(self, now: now.monotonic)
    }

    /// All channels, in the same order in every run.
    var channelsInOrder: [Channel] {
        channels.all.sorted {
            ($0.key.shard, $0.key.handle.index, $0.key.handle.generation)
                < ($1.key.shard, $1.key.handle.index, $1.key.handle.generation)
        }
    }

    /// Tells channels how far their messages were taken.
    func tellNews() {
        var next = 0
        // Others may have news meanwhile.
        while next < news.count {
            if !news[next].isRemoved { tellNews(news[next]) }
            next += 1
        }
        if next > 0 { news.removeAll(keepingCapacity: true) }
    }

    /// Publishers begin to wait for room that a `block` subscription does not leave, go on so, or do so no more.
    private func noteBlocking(_ now: Instant) {
        let isBlocked = (room.horizon != nil || !parked.isEmpty) && blockedCount > 0
        guard isBlocked != (blockedSince != nil) else { return }
        ownership.topics.countBlocked(isBlocked ? 1 : -1, now: now.monotonic)
        blocked = blocked(now: now.monotonic)
        blockedSince = isBlocked ? now.monotonic : nil
    }

    /// For how many nanoseconds publishers had to wait for room in all.
    func blocked(now: UInt64) -> UInt64 {
        blocked &+ (blockedSince.map { now - Swift.min($0, now) } ?? 0)
    }

    /// Publishers that wait for room: channels without credit while there is none, and publishes that are parked.
    var blockedCount: Int {
        guard freeRoom <= 0 else { return parked.count }
        return line.starvedCount + parked.count
    }

    /// Tells the views what was appended, then gives up what nobody needs and what does not fit.
    func advanceViews(now: Instant) {
        for index in mirrors.indices {
            let link = mirrors[index]
            let isFar = link.told > link.progress.seen && log.bytes(from: link.progress.seen) > MirrorLink.ahead
            guard link.told < committed || (!link.isEnded && isOver), !isFar else { continue }
            tellMirror(at: index, now: now)
        }
        evict(now: now)
    }

    /// Tells the view on this shard of what was appended since it was told; false if there is nothing to tell.
    func advanceOwnView(now: Instant) -> Bool {
        guard let index = mirrors.firstIndex(where: { $0.shard == ownership.index }), mirrors[index].told < committed
        else { return false }
        tellMirror(at: index, now: now)
        return true
    }

    private func tellMirror(at index: Int, now: Instant) {
        let link = mirrors[index]
        let end = committed
        mirrors[index].told = end
        mirrors[index].isEnded = isOver
        // A view on this shard reads the log itself.
        let isOwn = link.shard == ownership.index
        let fresh = isOwn ? [] : log.pieces(from: Swift.max(link.told, log.head), upTo: end)
        ownership.tellView(
            link.shard, topic: self,
            advance: LogAdvance(
                end: end, charged: log.charged(before: end), fresh: fresh, retained: retained, lost: lost,
                resident: log.head, typical: room.typical, state: visibleState, isDeleted: isDeleted && isOver),
            now: now)
    }

    /// The head moves to the oldest message that is retained or that someone waits for, and on until the bytes fit.
    /// What a `block` subscription waits for and came after it joined is not given up.
    func evict(now: Instant) {
        evictUnneeded()
        let within = stored?.firstWithin(retention.bytes, log) ?? log.firstWithin(retention.bytes)
        if stored != nil { unload(to: ownership.limits.resident) }
        guard within > oldest else { return }
        lose(before: Swift.min(within, room.floor ?? within), now: now)
    }

    private func evictUnneeded() {
        let needed = mirrors.reduce(retained) { Swift.min($0, $1.progress.needed) }
        if stored == nil { log.evict(before: needed) } else { trim(before: needed) }
    }

    /// Gives up the head of the log, whoever waits for it.
    func lose(before sequence: SequenceNumber, to limit: LimitReached = .retainBytes, now: Instant) {
        guard sequence > oldest else { return }
        lost = sequence
        if limit == .memory { shed = (sequence, ownership.memory.used) }
        ownership.reached(limit)
        log.evict(before: sequence)
        trim(before: sequence)
        ownership.tellOwnView(topic: self, lostBefore: sequence, now: now)
        // At once, or a shard would go on holding what is gone until the next message; one that lags hears it then.
        for index in mirrors.indices where mirrors[index].shard != ownership.index && mirrors[index].told == committed {
            tellMirror(at: index, now: now)
        }
    }

    /// Parked publishes are appended in order of arrival, as far as there is room.
    func serveParked(now: Instant) {
        guard refused == nil, state.isLive else { return }
        while let waiting = parked.first {
            var charge = 0
            waiting.message.forEach { metadata, payload in
                charge = Log.charge(payload: payload.count, metadata: metadata?.count ?? 0)
                return false
            }
            guard freeRoom > 0, bytesFit(charge) else { return }
            parked.removeFirst()
            isChannelsTurn = true
            waiting.message.forEach { metadata, payload in
                let sequence = append(metadata: metadata, payload: payload, charge: charge, now: now)
                if let channel = channels[waiting.key] {
                    channel.isParked = false
                    line.update(channel)
                    accepted(channel, upTo: sequence)
                } else {
                    accepted(waiting.key, at: sequence)
                }
                return false
            }
            if let channel = channels[waiting.key], channel.isComplete { finish(channel, now: now) }
        }
    }

    /// Grants channels that want credit, in turn, their share of the room; publishes that are parked have one as well.
    private func grant(now: Instant) {
        guard state.isLive, refused == nil, line.count > 0 else { return }
        var free = freeRoom
        guard free > 0 else { return }
        awaitsMemory = ownership.relief.refusal(for: self) != nil
        if awaitsMemory { return }
        let most = room.largestGrant(
            messages: Swift.min(ownership.limits.grant, ownership.rateLimiter.rates.largestGrant),
            bytes: Swift.min(ownership.limits.grantBytes, retention.bytes / 4))
        let share = Swift.min(most, Swift.max(1, free / (line.count + (parked.isEmpty ? 0 : 1))))
        for _ in 0..<line.count {
            guard free > 0, let channel = line.next(most / 2) else { return }
            // What was granted earlier and lost its reservation counts against the share: an idle channel gathers none.
            let target = Swift.min(most, share + channel.reserved)
            let count = Swift.min(target - Swift.max(channel.outstanding, channel.reserved), free)
            // One that has its share is in line again when it uses some of it.
            guard count > 0 else { continue }
            // A first message that is yet to come spends no credit, but takes room. One alone is granted all the same,
            // as who waits for credit before the first message would wait for ever.
            let isFirst = channel.awaitsFirst && channel.reserved <= channel.outstanding && room.horizon != nil
            let granted = isFirst && count > 1 ? count - 1 : count
            channel.outstanding += granted
            channel.reserved += count
            channel.reservedUntil = now.monotonic + Limits.grantReservation
            reservations.note(channel)
            room.reserved += count
            free -= count
            line.update(channel)
            ownership.notices.tell(channel.key, .granted(UInt32(granted)))
        }
    }

    /// What changes with time alone: reservations end, parked publishes give up, messages grow old. Returns how many
    /// channels and publishes it looked at, at most `most`: where it is as many, others may be due.
    func tick(most: Int, now: Instant) -> Int {
        var visited = 0
        while visited < most, let channel = reservations.takeEnded(now: now.monotonic) {
            visited += 1
            room.reserved -= channel.reserved
            channel.reserved = 0
            markDirty()
        }
        visited += giveUpParked(most: most - visited, now: now)
        if retention.age > 0 { forgetOld(now: now) }
        // Others may have given some back.
        if awaitsMemory { markDirty() }
        noteIdleness(now)
        return visited
    }

    /// When `tick` has something to do, on the monotonic clock; `UInt64.max` if never. What waits for memory is looked
    /// at in every tick.
    func deadline(now: UInt64) -> UInt64 {
        var due = Swift.min(reservations.deadline ?? .max, parked.first?.deadline ?? .max)
        if awaitsMemory { due = Swift.min(due, now + Timers.interval) }
        if retention.age > 0, Swift.max(forgotten, oldest) < log.end {
            due = Swift.min(due, now + Swift.max(Timers.interval, retention.age / AgeMarks.count))
        }
        guard let idleSince, !TopicName.isSystem(name) else { return due }
        return Swift.min(due, idleSince.addingClamped(ownership.limits.topicIdle))
    }

    /// Views that were linked to this topic tell how far they are.
    func heard(_ progress: MirrorProgress, from shard: Int, now: Instant) {
        guard let index = mirrors.firstIndex(where: { $0.shard == shard }) else { return }
        mirrors[index].progress = progress
        updateRoom()
        markDirty()
        noteUse(now)
    }

    /// A view has a newcomer that needs older messages than all others.
    func hold(_ needed: SequenceNumber, for shard: Int) {
        guard let index = mirrors.firstIndex(where: { $0.shard == shard }) else { return }
        mirrors[index].progress.needed = Swift.min(mirrors[index].progress.needed, needed)
    }

    func link(_ shard: Int) {
        mirrors.append(
            MirrorLink(
                shard: shard,
                progress: MirrorProgress(
                    seen: committed, needed: oldest, horizon: nil, floor: nil, subscriptions: 1,
                    dropped: DropCounts(), delivered: 0),
                told: committed, isEnded: isOver))
        idleSince = nil
    }

    func unlink(_ shard: Int, _ past: MirrorPast, now: Instant) {
        guard let index = mirrors.firstIndex(where: { $0.shard == shard }) else { return }
        pastDropped.add(past.dropped)
        pastDelivered &+= past.delivered
        mirrors.remove(at: index)
        updateRoom()
        markDirty()
        noteUse(now)
    }

    /// History that nobody waits for goes: memory is short.
    func relieve(now: Instant) {
        if stored != nil { return giveBack(to: 0, now: now) }
        guard forgotten < committed || log.memory > 0 else { return }
        forgotten = committed
        evictUnneeded()
        log.releaseLastChunk()
        tellForgotten(now: now)
    }

    /// Takes on what the settings say of it now.
    func retain(now: Instant) {
        retain(ownership.limits.retention(of: name), now: now)
        markDirty()
    }

    /// Takes new figures on. What was let go under the former ones does not come back; what is too much now goes at
    /// once, and is lost where someone waited for it.
    func retain(_ retention: Retention, now: Instant) {
        if retention == self.retention { return }
        forgotten = Swift.max(forgotten, retained)
        let hadAge = self.retention.age > 0
        self.retention = retention
        if !hadAge, retention.age > 0 { ages.begin(with: log, now: now) }
        evict(now: now)
        tellForgotten(now: now)
        // There may be room for publishers now.
        markDirty()
    }

    /// Views on other shards hold chunks too. Those that are yet to be told of messages hear of it then.
    func tellForgotten(now: Instant) {
        for index in mirrors.indices where mirrors[index].shard != ownership.index && mirrors[index].told == committed {
            tellMirror(at: index, now: now)
        }
    }

    /// What publishers have to leave room for: `block` subscriptions, and a store that has not committed everything.
    func updateRoom() {
        var floor = commits?.committed
        var horizon = floor?.advanced(by: ownership.limits.uncommitted)
        for link in mirrors {
            if let its = link.progress.horizon { horizon = Swift.min(horizon ?? its, its) }
            if let its = link.progress.floor { floor = Swift.min(floor ?? its, its) }
        }
        room.update(horizon: horizon, floor: floor, log: log)
    }

    private func giveUpParked(most: Int, now: Instant) -> Int {
        var count = 0
        while count < most, let waiting = parked.first, waiting.deadline <= now.monotonic {
            count += 1
            parked.removeFirst()
            markDirty()
            ownership.reached(.parkTime)
            let seconds = ownership.limits.parkTime / Limits.second
            let refusal = Refusal(
                .blocked,
                "The topic '\(name)' had no room for \(seconds) s: a blocking subscription is full. Try again later.")
            if let channel = channels[waiting.key] {
                channel.isParked = false
                _ = reject(channel, refusal)
            } else {
                ownership.losses.refusedPublish(refusal, of: self)
                ownership.notices.tell(waiting.key, .refused(refusal))
            }
        }
        return count
    }

    private func forgetOld(now: Instant) {
        ages.note(end: log.end, age: retention.age, now: now.monotonic)
        guard let old = ages.takeOld(age: retention.age, now: now.monotonic) else { return }
        let before = Swift.max(forgotten, oldest)
        forgotten = Swift.max(before, old)
        guard forgotten > before else { return }
        evictUnneeded()
        log.releaseLastChunk()
        tellForgotten(now: now)
    }
}

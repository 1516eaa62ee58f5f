// Topic: the owner's part of a topic. It takes messages into the log, keeps the retained window, paces publishers by
// the room that `block` subscriptions leave, and tells every shard with subscriptions how the log moved on.
//
//     live ──COMPLETE / complete──▶ completed ─┐
//       ├────ERROR / fail─────────▶ failed ────┼─ idle ─▶ removed
//       └────delete──▶ failed("deleted"), gone from the names at once

import Replay

/// A shard that has subscriptions to a topic, as the owner knows it.
struct MirrorLink {
    /// Bytes of messages that a view is told of ahead of what it has told to have seen. A shard that lags further
    /// behind is told later, in one go.
    static let ahead = 1 << 20

    var shard: Int
    var progress: MirrorProgress
    /// Up to where the view has been told.
    var told: SequenceNumber
    /// It has been told of the topic's end.
    var isEnded: Bool
}

final class Topic: Timed {
    let name: String
    let epoch: UInt64
    /// On the monotonic clock.
    let madeAt: UInt64
    /// Where its shard lists it.
    let place: Handle
    /// Where its shard goes over those that may give up memory; nil once it has forgotten it.
    var held: Handle?
    let log = Log()
    /// Nil for a topic in memory.
    var commits: CommitLine?
    var stored: StoredLog?
    /// The user who was the first to use it.
    var account: Account?
    /// What it retains: its rule's figures, or those of all topics.
    var retention: Retention
    var state: TopicState = .live
    var room = Room()
    var mirrors: [MirrorLink] = []
    var channels = ChannelTable()
    /// Why the publishers that are left are not to go on; they are told some at a time.
    var refused: Refusal?
    /// Those of them that want credit, and those with messages that are not acknowledged yet.
    var line = CreditLine()
    var news: [Channel] = []
    var reservations = Reservations()
    var parked: ParkedQueue
    /// Whose turn it is where both wait for room: a parked publish had the last one.
    var isChannelsTurn = false
    /// When it was last without publisher and subscriber, on the monotonic clock; nil while it has one.
    var idleSince: UInt64?
    /// When a message came or a subscription moved on.
    private(set) var lastUsed: UInt64

    /// History before this is not replayed: it is too old, or memory was short.
    var forgotten = SequenceNumber(1)
    /// How old messages are; kept while `retention.age` is not 0.
    var ages = AgeMarks()
    /// Messages before this were lost to the byte limit.
    var lost = SequenceNumber(1)
    /// Those of them that were lost as memory was short, and bytes of memory that were used then.
    var shed = (before: SequenceNumber(1), used: 0)
    var isDirty = false
    var isDeleted = false
    var timerPlace = -1

    // Figures
    var published: UInt64 { log.end.value - 1 }
    /// How busy it is, and its place among the busiest of its shard; -1 if it is none of them.
    var activity: Activity
    var busyPlace = -1
    /// Publishes to it that came to nothing, on whichever shard.
    var losses = TopicLosses()
    /// Messages that went past a `block` subscription's buffer: late use of grants.
    var overshoot: UInt64 = 0
    /// Since when publishers have been waiting for room, on the monotonic clock; nil while none does.
    var blockedSince: UInt64?
    /// For how many nanoseconds publishers had to wait before that, in all.
    var blocked: UInt64 = 0
    /// Channels are granted nothing, as memory is short.
    var awaitsMemory = false
    /// Lost by subscriptions that have ended, and by shards that are no longer linked.
    var pastDropped = DropCounts()
    /// Handed over by shards that are no longer linked.
    var pastDelivered: UInt64 = 0

    /// The owner of all topics of the shard.
    let ownership: TopicOwnership

    init(name: String, epoch: UInt64, place: Handle, ownership: TopicOwnership, now: UInt64) {
        self.name = name
        self.epoch = epoch
        madeAt = now
        activity = Activity(madeAt: now)
        self.place = place
        self.ownership = ownership
        retention = ownership.limits.retention(of: name)
        parked = ParkedQueue(budget: ownership.memory)
        idleSince = now
        lastUsed = now
        guard ownership.limits.isStored(name) else { return }
        commits = CommitLine(end: log.end)
        stored = StoredLog()
        updateRoom()
    }

    var subscriptions: Int { mirrors.reduce(0) { $0 + $1.progress.subscriptions } }
    var dropped: DropCounts { mirrors.reduce(into: pastDropped) { $0.add($1.progress.dropped) } }
    var delivered: UInt64 { mirrors.reduce(pastDelivered) { $0 &+ $1.progress.delivered } }

    /// The oldest message retained for replay.
    var retained: SequenceNumber {
        let committed = committed
        let newest = committed.advanced(by: -Swift.min(retention.messages, committed - oldest))
        return Swift.max(newest, Swift.min(forgotten, committed))
    }

    // Taking messages

    /// Why a message of these sizes is not taken at all; nil if it is.
    func refusal(charge: Int) -> Refusal? {
        switch state {
        case .live: break
        case .completed: return Refusal(.ended, "The topic '\(name)' has completed; it takes no more messages.")
        case .failed(let reason):
            return Refusal(.ended, "The topic '\(name)' has failed (\(reason)); it takes no more messages.")
        }
        if charge > retention.bytes {
            return Refusal(
                .tooLarge,
                "The message takes \(charge) bytes of the topic's log, which holds \(retention.bytes); send less.")
        }
        return ownership.relief.refusal(for: self)
    }

    /// A fire publish: only into room that nobody reserved.
    func fire(metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer, now: Instant) {
        let loss: PublishLoss
        do throws(Refusal) {
            if try place(metadata: metadata, payload: payload, now: now) != nil { return }
            // Subscriptions here may take of what came just before, and so leave room, as if it had come by itself.
            if parked.isEmpty, advanceOwnView(now: now),
                try place(metadata: metadata, payload: payload, now: now) != nil
            {
                return
            }
            loss = .room
        } catch {
            loss = PublishLoss(error)
        }
        ownership.losses.dropped(loss, of: self)
    }

    /// Appends a single message if there is room that nobody reserved or waits for already; nil if there is not.
    func place(
        metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer, now: Instant
    ) throws(Refusal) -> SequenceNumber? {
        let charge = Log.charge(payload: payload.count, metadata: metadata?.count ?? 0)
        if let refusal = refusal(charge: charge) { throw refusal }
        guard hasPlace(charge) else { return nil }
        return append(metadata: metadata, payload: payload, charge: charge, now: now)
    }

    /// An acknowledged publish, or a channel with or without its first message, which is parked while there is no room.
    func publish(_ key: StreamKey, _ request: PublishRequest, now: Instant) {
        let isMessage = request.message.count > 0
        var refused = isMessage ? nil : refusal(charge: 0)
        request.message.forEach { metadata, payload in
            let charge = Log.charge(payload: payload.count, metadata: metadata?.count ?? 0)
            refused = refusal(charge: charge) ?? (hasPlace(charge) ? nil : ownership.relief.parkRefusal(of: name))
            return false
        }
        if let refused {
            ownership.losses.refusedPublish(refused, of: self)
            ownership.notices.tell(key, .refused(refused))
            return
        }
        if request.isChannel {
            let channel = Channel(key: key, topic: self, options: request.options, connection: request.connection)
            channel.isParked = isMessage
            channel.awaitsFirst = !isMessage
            channel.isComplete = request.complete
            channels.insert(channel)
            line.update(channel)
            noteUse(now)
        }
        markDirty()
        guard isMessage else { return }
        parked.append(
            ParkedPublish(key: key, message: request.message, deadline: now.monotonic + ownership.limits.parkTime))
        if parked.count == 1 { serveParked(now: now) }
    }

    /// A channel's later message. False: the channel is gone.
    func item(
        _ channel: Channel, metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer,
        now: Instant
    ) -> Bool {
        if channel.isRemoved { return false }
        let charge = Log.charge(payload: payload.count, metadata: metadata?.count ?? 0)
        if channel.awaitsFirst { return first(channel, metadata: metadata, payload: payload, charge: charge, now: now) }
        if channel.outstanding == 0 {
            let sent = "The channel sent a message beyond its credit; wait for more credit before sending on."
            return reject(channel, Refusal(.beyondCredit, sent))
        }
        if let refusal = refusal(charge: charge) { return reject(channel, refusal) }
        if isFarBeyond(charge) {
            return reject(
                channel,
                .rejected(
                    "The channel drove the topic past twice its limit of \(retention.bytes) bytes; "
                        + "send smaller messages."))
        }
        spend(1, of: channel)
        accepted(channel, upTo: append(metadata: metadata, payload: payload, charge: charge, now: now))
        return true
    }

    /// Messages came that were granted.
    private func spend(_ count: Int, of channel: Channel) {
        channel.outstanding -= count
        release(count, of: channel)
        if channel.outstanding <= line.threshold { line.update(channel) }
    }

    private func release(_ count: Int, of channel: Channel) {
        let reserved = Swift.min(channel.reserved, count)
        channel.reserved -= reserved
        room.reserved -= reserved
    }

    /// The first message of a channel that was opened without one. It spends no credit: who sent it before any was
    /// granted does not know of it, and who waited for credit counts it as well as all that was granted.
    private func first(
        _ channel: Channel, metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer, charge: Int,
        now: Instant
    ) -> Bool {
        channel.awaitsFirst = false
        if let refusal = refusal(charge: charge) { return reject(channel, refusal) }
        guard hasPlace(charge) || channel.outstanding > 0 && !isFarBeyond(charge) else {
            if let refusal = ownership.relief.parkRefusal(of: name) { return reject(channel, refusal) }
            var message = MessageBatch()
            message.append(metadata: metadata, payload: payload)
            channel.isParked = true
            line.update(channel)
            parked.append(
                ParkedPublish(key: channel.key, message: message, deadline: now.monotonic + ownership.limits.parkTime))
            return true
        }
        if channel.reserved > channel.outstanding || freeRoom <= 0 { release(1, of: channel) }
        accepted(channel, upTo: append(metadata: metadata, payload: payload, charge: charge, now: now))
        return true
    }

    /// Later messages of a channel, as they came. What is not plainly in order is looked at message by message.
    func items(_ channel: Channel, _ run: FramedRun, now: Instant) {
        let charge = run.data + run.count * Limits.messageOverhead
        let largest = Log.charge(payload: run.longest, metadata: 0)
        if channel.isRemoved { return }
        guard channel.outstanding >= run.count, refusal(charge: largest) == nil,
            (room.held(log) ?? 0) + charge <= 2 * retention.bytes
        else {
            run.forEach { item(channel, metadata: nil, payload: $0, now: now) }
            return
        }
        spend(run.count, of: channel)
        log.append(run, timestamp: now.wall, budget: ownership.memory)
        room.observe(charge: charge, count: run.count, largest: largest)
        appended(run.count, now: now)
        accepted(channel, run.count, upTo: log.end.advanced(by: -1))
    }

    @discardableResult
    func append(
        metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer, charge: Int,
        now: Instant
    ) -> SequenceNumber {
        let sequence = log.append(metadata: metadata, payload: payload, timestamp: now.wall, budget: ownership.memory)
        room.observe(charge: charge)
        appended(1, now: now)
        return sequence
    }

    /// The last `count` messages of the log are new.
    private func appended(_ count: Int, now: Instant) {
        if let horizon = room.horizon, log.end > horizon {
            overshoot += UInt64(Swift.min(count, log.end - horizon))
            ownership.counters.overshoot += UInt64(Swift.min(count, log.end - horizon))
        }
        ownership.counters.published += UInt64(count)
        lastUsed = now.monotonic
        if idleSince != nil { idleSince = now.monotonic }
        markDirty()
    }

    /// Ends `channel` with an error of its own, once all that it had accepted is committed. Always false, for its
    /// callers' sake.
    func reject(_ channel: Channel, _ refusal: Refusal) -> Bool {
        tellNews(channel)
        remove(channel)
        ownership.losses.refusedPublish(refusal, of: self)
        if channel.uncommitted > 0 {
            channel.refusal = refusal
        } else {
            ownership.notices.tell(channel.key, .refused(refusal))
        }
        if channel.options.lossFailsTopic { finish(.failed("the publisher was rejected"), now: ownership.moment) }
        return false
    }

    func markDirty() { ownership.topics.markDirty(self) }

    func noteUse(_ now: Instant) {
        lastUsed = now.monotonic
        noteIdleness(now)
    }

    func noteIdleness(_ now: Instant) {
        let isIdle = channels.isEmpty && subscriptions == 0 && parked.isEmpty && isCommitted
        idleSince = isIdle ? idleSince ?? now.monotonic : nil
    }
}

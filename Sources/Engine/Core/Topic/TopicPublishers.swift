// TopicPublishers: the publishers of a topic, and what waits for room in it. Publishes are appended at once, parked or
// refused; channels are granted the room that `block` subscriptions leave.

import Replay

final class TopicPublishers {
    let ownership: TopicOwnership
    let log: Log
    /// The topic of these publishers.
    unowned(unsafe) var topic: Topic!
    /// Nil before the first channel or parked publish.
    private(set) var ifAny: CurrentPublishers?
    /// What publishers must leave room for. The topic updates it.
    var room: Room
    /// Whether a parked publish got room last. Channels are then next if parked publishes wait too.
    private var isChannelsTurn = false
    /// Whether nothing is granted to channels, because memory is short.
    private(set) var awaitsMemory = false
    /// Publishers that number their messages; nil before the first one.
    var numbers: PublisherNumbers?
    /// Why the remaining publishers are refused; they are notified in slices.
    var refusal: Refusal?
    /// How long publishers have waited for room.
    private(set) var blocked = BlockedTime()
    /// Messages that exceeded a `block` subscription's buffer through late use of grants.
    private(set) var overshoot: UInt64 = 0

    init(_ ownership: TopicOwnership, _ window: RetainedWindow) {
        self.ownership = ownership
        log = window.log
        room = Room(byteLimit: window.retention.bytes)
    }

    var current: CurrentPublishers {
        if let ifAny { return ifAny }
        let new = CurrentPublishers(budget: ownership.memory)
        ifAny = new
        return new
    }

    /// Releases what only channels and parked publishes need.
    func releaseIfEmpty() {
        if let ifAny, ifAny.isEmpty, ifAny.awaitingAcknowledgement.isEmpty { self.ifAny = nil }
    }

    var isEmpty: Bool { ifAny?.isEmpty ?? true }
    var channelCount: Int { ifAny?.channels.count ?? 0 }
    var parkedCount: Int { ifAny?.parked.count ?? 0 }
    /// Whether no publish is parked.
    @inline(__always)
    var noneParked: Bool { ifAny?.parked.isEmpty ?? true }

    // Room

    /// Room that is neither used nor reserved.
    @inline(__always)
    var freeRoom: Int { room.messages(log: log) }

    /// Whether there is room for a message that is neither reserved nor waited for.
    @inline(__always)
    func hasPlace(_ charge: Int) -> Bool { noneParked && freeRoom > 0 && bytesFit(charge) }

    /// Whether a message fits, given what cannot be evicted, into `times` the byte limit. Late use of grants may reach
    /// twice the limit.
    @inline(__always)
    private func bytesFit(_ charge: Int, times: Int = 1) -> Bool {
        guard let held = room.held(log) else { return true }
        return held + charge <= times * room.byteLimit
    }

    // Single messages

    /// A fire-and-forget publish: uses only room that is not reserved.
    func fireAndForget(metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer, now: Instant) {
        let loss: PublishLoss
        do throws(Refusal) {
            if try place(metadata: metadata, payload: payload, now: now) != nil { return }
            // Advance the view here first: it may deliver earlier messages of the same input and so free room.
            if noneParked, topic.advanceOwnView(now: now),
                try place(metadata: metadata, payload: payload, now: now) != nil
            {
                return
            }
            loss = .room
        } catch {
            loss = PublishLoss(error)
        }
        ownership.losses.dropped(loss, of: topic)
    }

    /// Appends a single message if there is room that is neither reserved nor waited for; returns nil otherwise.
    func place(
        metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer, now: Instant
    ) throws(Refusal) -> SequenceNumber? {
        // A local reference, so that the topic is retained only once.
        let topic: Topic = topic
        let charge = Log.charge(payload: payload.count, metadata: metadata?.count ?? 0)
        if let refusal = topic.refusal(charge: charge) { throw refusal }
        guard hasPlace(charge) else { return nil }
        room.observe(charge: charge)
        return topic.append(metadata: metadata, payload: payload, now: now)
    }

    /// Appends a message for which there is room, or that needs none.
    @discardableResult
    func append(
        metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer, charge: Int, of channel: Channel? = nil,
        now: Instant
    ) -> SequenceNumber {
        room.observe(charge: charge)
        return topic.append(metadata: metadata, payload: payload, of: channel, now: now)
    }

    /// Counts the overshoot of the last `count` messages, which are new.
    func noteAppended(_ count: Int) {
        guard let horizon = room.horizon, log.end > horizon else { return }
        let beyond = UInt64(Swift.min(count, log.end - horizon))
        overshoot += beyond
        ownership.counters.overshoot += beyond
    }

    /// An acknowledged publish, or a channel with or without its first message. The message is parked if there is no
    /// room.
    func publish(_ key: StreamKey, _ request: PublishRequest, now: Instant) {
        if !request.isChannel, let numbered = request.numbered {
            if topic.askAgain(key, numbered, request.message) || acceptAgain(key, numbered, now: now) { return }
        }
        let charge = request.message.firstCharge
        var refused = topic.refusal(charge: charge ?? 0)
        if refused == nil, let charge, !hasPlace(charge) { refused = ownership.relief.parkRefusal(of: topic.name) }
        if let refused { return refuse(key, refused) }
        if request.isChannel {
            let channel = Channel(key, request, topic: topic)
            current.channels.insert(channel)
            current.credits.line.update(channel)
            topic.noteUse(now)
        }
        topic.markDirty()
        guard charge != nil else { return }
        park(key, request.message, request.isChannel ? nil : request.numbered, now: now)
        if parkedCount == 1 { serveParked(now: now) }
    }

    private func park(_ key: StreamKey, _ message: MessageBatch, _ numbered: NumberedPublish?, now: Instant) {
        let deadline = now.monotonic + ownership.limits.parkTime
        current.parked.append(ParkedPublish(key: key, message: message, deadline: deadline, numbered: numbered))
    }

    /// A parked publish whose publisher has withdrawn.
    func withdraw(_ key: StreamKey, now: Instant) {
        ifAny?.parked.withdraw(key)
        topic.markDirty()
        topic.noteUse(now)
    }

    /// Appends parked publishes in order of arrival, while there is room.
    private func serveParked(now: Instant) {
        guard refusal == nil, topic.takesMessages, let current = ifAny else { return }
        while let waiting = current.parked.first, let charge = waiting.message.firstCharge {
            let channel = current.channels[waiting.key]
            // The number counts as of now: messages before this one may have been withdrawn or refused.
            if applyNumber(of: waiting, channel, now: now) { continue }
            guard freeRoom > 0, bytesFit(charge) else { return }
            current.parked.removeFirst()
            isChannelsTurn = true
            channel?.first = .taken
            waiting.message.forEach { metadata, payload in
                do throws(Refusal) {
                    try append(waiting, channel, metadata: metadata, payload: payload, charge: charge, now: now)
                } catch {
                    if let channel { reject(channel, error) } else { refuse(waiting.key, error) }
                }
                return false
            }
            if let channel, channel.isComplete { finish(channel, now: now) }
        }
    }

    private func giveUpParked(most: Int, now: Instant) -> Int {
        var count = 0
        while count < most, let waiting = ifAny?.parked.first, waiting.deadline <= now.monotonic {
            count += 1
            topic.markDirty()
            ownership.reached(.parkTime)
            let seconds = ownership.limits.parkTime / Limits.second
            let cause =
                topic.publishersWaitFor == .store
                ? "the store has not written earlier messages" : "a blocking subscription is full"
            refuseFirstParked(
                Refusal(
                    .blocked,
                    "The topic '\(topic.name)' had no room for \(seconds) s because \(cause); try again later."))
        }
        return count
    }

    func refuseFirstParked(_ refusal: Refusal) {
        guard let key = ifAny?.parked.first?.key else { return }
        current.parked.removeFirst()
        guard let channel = current.channels[key] else { return refuse(key, refusal) }
        channel.first = .taken
        reject(channel, refusal)
    }

    func refuse(_ key: StreamKey, _ refusal: Refusal) {
        ownership.losses.refusedPublish(refusal, of: topic)
        ownership.notices.notify(key, .refused(refusal))
    }

    // Messages of channels

    /// A further message of a channel. Returns false if the channel has ended.
    @discardableResult
    func item(
        _ channel: Channel, metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer,
        now: Instant
    ) -> Bool {
        if channel.isRemoved { return false }
        let topic = channel.topic
        let charge = Log.charge(payload: payload.count, metadata: metadata?.count ?? 0)
        if channel.first == .awaited {
            return first(channel, metadata: metadata, payload: payload, charge: charge, now: now)
        }
        if channel.outstanding == 0 {
            let sent = "The channel sent a message beyond its credit; wait for more credit before sending more."
            return reject(channel, Refusal(.credit, sent))
        }
        do throws(Refusal) {
            if channel.numbers != nil, try isDuplicate(on: channel, now: now) {
                current.credits.spend(1, of: channel, in: &room)
                acceptAgain(channel, 1, now: now)
                return true
            }
        } catch {
            return reject(channel, error)
        }
        if let refusal = topic.refusal(charge: charge) { return reject(channel, refusal) }
        guard bytesFit(charge, times: 2) else {
            return reject(
                channel,
                .limit(
                    "The channel filled the topic to more than twice its limit of \(room.byteLimit) bytes; "
                        + "send smaller messages."))
        }
        current.credits.spend(1, of: channel, in: &room)
        room.observe(charge: charge)
        let sequence = topic.append(metadata: metadata, payload: payload, of: channel, now: now)
        accepted(channel, 1, upTo: sequence, now: now)
        return true
    }

    /// The first message of a channel that was opened without one. It uses no credit: a publisher that sent it before
    /// any grant does not know of the grant, and one that waited for credit counts the message like all granted ones.
    private func first(
        _ channel: Channel, metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer, charge: Int,
        now: Instant
    ) -> Bool {
        channel.first = .taken
        do throws(Refusal) {
            // If it has to be parked, messages before it may be, and its number counts later.
            let isNumbered = channel.numbers != nil && (noneParked || channel.outstanding > 0)
            if isNumbered, try isDuplicate(on: channel, now: now) {
                if channel.reserved > channel.outstanding { current.credits.release(1, of: channel, in: &room) }
                acceptAgain(channel, 1, now: now)
                return true
            }
        } catch {
            return reject(channel, error)
        }
        if let refusal = topic.refusal(charge: charge) { return reject(channel, refusal) }
        guard hasPlace(charge) || channel.outstanding > 0 && bytesFit(charge, times: 2) else {
            if let refusal = ownership.relief.parkRefusal(of: topic.name) { return reject(channel, refusal) }
            var message = MessageBatch()
            message.append(metadata: metadata, payload: payload)
            channel.first = .parked
            current.credits.line.update(channel)
            park(channel.key, message, nil, now: now)
            return true
        }
        if channel.reserved > channel.outstanding || freeRoom <= 0 {
            current.credits.release(1, of: channel, in: &room)
        }
        let sequence = append(metadata: metadata, payload: payload, charge: charge, of: channel, now: now)
        accepted(channel, 1, upTo: sequence, now: now)
        return true
    }

    /// Further messages of a channel, framed as received. Unless the whole run is acceptable, they are handled one by
    /// one.
    func items(_ channel: Channel, _ run: FramedRun, now: Instant) {
        let charge = run.data + run.count * Limits.messageOverhead
        let largest = Log.charge(payload: run.longest, metadata: 0)
        if channel.isRemoved { return }
        guard !topic.isShared, channel.outstanding >= run.count, topic.refusal(charge: largest) == nil,
            (room.held(log) ?? 0) + charge <= 2 * room.byteLimit, channel.numbers?.isNext ?? true
        else {
            if acceptAgain(channel, run, now: now) { return }
            run.forEach { item(channel, metadata: nil, payload: $0, now: now) }
            return
        }
        current.credits.spend(run.count, of: channel, in: &room)
        room.observe(charge: charge, count: run.count, largest: largest)
        accepted(channel, run.count, upTo: topic.append(run, now: now), now: now)
    }

    // Credit

    /// Grants waiting channels their share of the room, in order. Parked publishes have a share, too.
    private func grant(now: Instant) {
        guard topic.takesMessages, refusal == nil, let current = ifAny, current.credits.line.count > 0 else { return }
        var free = freeRoom
        guard free > 0 else { return }
        awaitsMemory = ownership.relief.refusal(for: topic) != nil
        if awaitsMemory { return }
        let most = room.largestGrant(
            messages: Swift.min(ownership.limits.grant, ownership.rateLimiter.rates.largestGrant),
            bytes: Swift.min(ownership.limits.grantBytes, room.byteLimit / 4))
        let share = Swift.min(most, Swift.max(1, free / (current.credits.line.count + (noneParked ? 0 : 1))))
        for _ in 0..<current.credits.line.count {
            guard free > 0, let channel = current.credits.line.next(most / 2) else { return }
            guard
                let grant = current.credits.grant(
                    to: channel, share: share, most: most, free: free, of: &room, now: now.monotonic)
            else {
                continue
            }
            free -= grant.room
            ownership.notices.notify(channel.key, .granted(UInt32(grant.credit)))
        }
    }

    // In each turn, and on time

    /// Uses room that may have become free.
    func maintain(now: Instant) {
        awaitsMemory = false
        // If channels and parked publishes both wait for room, channels are granted some each time parked publishes
        // have been served.
        if isChannelsTurn, !noneParked, freeRoom > 0 {
            isChannelsTurn = false
            grant(now: now)
        }
        serveParked(now: now)
        sendAcknowledgements()
        if noneParked { grant(now: now) }
        noteBlocking(now)
    }

    /// Updates whether publishers wait for room that a `block` subscription does not leave.
    private func noteBlocking(_ now: Instant) {
        let isBlocked = (room.horizon != nil || !noneParked) && blockedCount > 0
        guard blocked.note(isBlocked, now: now.monotonic) else { return }
        ownership.topics.countBlocked(isBlocked ? 1 : -1, now: now.monotonic)
    }

    /// Publishers that wait for room: channels without credit while there is no room, and parked publishes.
    var blockedCount: Int {
        guard let current = ifAny else { return 0 }
        return current.parked.count + (freeRoom <= 0 ? current.credits.line.starvedCount : 0)
    }

    /// Ends reservations and gives up parked publishes. Returns how many it visited, at most `most`.
    func tick(most: Int, now: Instant) -> Int {
        var visited = 0
        while visited < most, ifAny?.credits.endReservation(in: &room, now: now.monotonic) == true {
            visited += 1
            topic.markDirty()
        }
        visited += giveUpParked(most: most - visited, now: now)
        if let numbers { visited += numbers.expire(most: most - visited, now: now) }
        // Memory may have been released in the meantime.
        if awaitsMemory { topic.markDirty() }
        return visited
    }

    /// When `tick` has something to do, on the monotonic clock; `UInt64.max` if never. Channels that wait for memory
    /// are checked in every tick.
    func deadline(now: UInt64) -> UInt64 {
        var due = Swift.min(ifAny?.credits.deadline ?? .max, ifAny?.parked.first?.deadline ?? .max)
        if let numbers { due = Swift.min(due, numbers.deadline ?? .max) }
        return awaitsMemory ? Swift.min(due, now + Timers.interval) : due
    }
}

// Mirror: one shard's view of a topic, with the subscriptions of that shard. Cursors, credits and overflow are worked
// out here, over chunks that are shared with the topic's owner; so a message crosses to a shard once, however many
// subscribe there. On the owner's own shard the view is the topic's log itself.

import Replay

final class Mirror {
    let name: String
    let owner: Int
    /// Not known before the owner has answered.
    var epoch: UInt64 = 0
    var log: Log
    /// The log is the owner's own; the owner appends and evicts.
    let sharesLog: Bool
    var isAttached = false
    var state = TopicState.live
    var retained = SequenceNumber(1)
    var members: [Subscriber] = []
    /// Subscribers that came before the view did.
    var waiting: [Subscriber] = []
    var lost = SequenceNumber(1)
    /// Bytes that the topic's log may hold.
    var byteLimit: Int
    /// What a recent message was charged, in bytes.
    var typical = 0

    // What publishers may do, over the `block` subscriptions; how many of them stand at the limit, and how many there
    // are.
    private(set) var horizon: SequenceNumber?
    private var limiting = 0
    private(set) var blocking = 0
    /// What was told last; told again when it differs.
    private var told: MirrorProgress?
    /// How many of the subscriptions that stood at `told.floor` still do.
    private var atFloor = 0
    private var pastDropped: UInt64 = 0
    /// Messages that subscriptions here were handed since the view was made.
    var delivered: UInt64 = 0
    var isDirty = false
    /// Not before then are all members looked over for what can wait.
    private var nextLook: UInt64 = 0
    /// The messages as gRPC subscribers get them.
    var entries = EntryCache()

    /// Outlives its views.
    unowned(unsafe) let shard: Shard

    init(name: String, owner: Int, shard: Shard, log: Log?) {
        self.name = name
        self.owner = owner
        self.shard = shard
        self.log = log ?? Log()
        sharesLog = log != nil
        byteLimit = shard.limits.retention(of: name).bytes
    }

    var isEmpty: Bool { members.isEmpty && waiting.isEmpty }

    // Joining and leaving

    func add(_ subscriber: Subscriber) {
        subscriber.member = members.count
        members.append(subscriber)
        if subscriber.cursor.overflow == .block {
            blocking += 1
            recount()
        }
        // The head of a shared log must not go before the owner has heard of the newcomer.
        let needed = subscriber.cursor.cursor
        if sharesLog, needed < told?.needed ?? .init(.max) {
            told?.needed = needed
            shard.topics[epoch]?.hold(needed, for: shard.index)
        }
        // Nor may what is published behind it in the same read take room that it does not leave.
        if sharesLog, subscriber.cursor.overflow == .block, let progress = progress() {
            shard.topics[epoch]?.heard(progress, from: shard.index, now: shard.moment)
        }
        markDirty()
    }

    func remove(_ subscriber: Subscriber) {
        guard subscriber.hasJoined else {
            waiting.removeAll { $0 === subscriber }
            return
        }
        pastDropped &+= subscriber.cursor.dropped
        let last = members.removeLast()
        if last !== subscriber {
            members[subscriber.member] = last
            last.member = subscriber.member
        }
        if subscriber.cursor.overflow == .block {
            blocking -= 1
            recount()
        }
        markDirty()
    }

    // The log moves on

    /// The owner appended, or ended the topic, or lost its head. Messages go out as far as credit and room allow.
    func advance(_ advance: LogAdvance, now: Instant) {
        let isLossy = advance.lost > lost
        lost = Swift.max(lost, advance.lost)
        retained = advance.retained
        typical = advance.typical
        state = advance.state
        if advance.isDeleted { shard.forgetName(of: self) }
        if !sharesLog { log.advance(to: advance.end, charged: advance.charged, fresh: advance.fresh) }
        // Downward, as a subscriber that ends here leaves the list.
        for index in stride(from: members.count - 1, through: 0, by: -1) where index < members.count {
            let subscriber = members[index]
            subscriber.cursor.appended(upTo: advance.end)
            if isLossy { subscriber.cursor.evict(before: lost) }
            tellEnd(to: subscriber)
            shard.deliver(subscriber, now: now)
        }
        recount()
        markDirty()
    }

    /// The head of the log goes for want of bytes.
    func lose(before sequence: SequenceNumber, now: Instant) {
        lost = Swift.max(lost, sequence)
        for index in stride(from: members.count - 1, through: 0, by: -1) where index < members.count {
            let subscriber = members[index]
            guard subscriber.cursor.cursor < sequence else { continue }
            subscriber.cursor.evict(before: sequence)
            shard.deliver(subscriber, now: now)
        }
        recount()
        markDirty()
    }

    func tellEnd(to subscriber: Subscriber) {
        switch state {
        case .live: break
        case .completed: subscriber.cursor.topicEnded(.completed, at: log.end)
        case .failed: subscriber.cursor.topicEnded(.failed, at: log.end)
        }
    }

    /// Messages that subscriptions here have lost since the view was made.
    var dropped: UInt64 { members.reduce(pastDropped) { $0 &+ $1.cursor.dropped } }

    // What the owner is told

    func markDirty() {
        guard !isDirty, isAttached else { return }
        isDirty = true
        shard.dirtyMirrors.append(self)
    }

    /// A `block` subscription moved on from `before`: if it was the last one at the limit, the limit has moved.
    func moved(_ subscriber: Subscriber, from before: SequenceNumber?) {
        guard let before, subscriber.cursor.horizon != before else { return }
        // Once all of those furthest back have moved there may be bytes to grant: their buffers may be larger than
        // that of the one which limits the messages.
        if let floor = told?.floor, floor.advanced(by: subscriber.options.buffer) == before {
            atFloor -= 1
            if atFloor <= 0 { markDirty() }
        }
        guard before == horizon else { return }
        limiting -= 1
        if limiting <= 0 { recount() }
    }

    /// Where publishers are to stop, over all `block` subscriptions here.
    func recount() {
        guard blocking > 0 || horizon != nil else { return }
        var smallest: SequenceNumber?
        var count = 0
        for subscriber in members {
            guard let its = subscriber.cursor.horizon else { continue }
            if smallest == nil || its < smallest! {
                smallest = its
                count = 1
            } else if its == smallest {
                count += 1
            }
        }
        limiting = count
        if horizon != smallest {
            horizon = smallest
            markDirty()
        }
    }

    /// Members from which on the owner hears of those who come, ask and leave only so often that looking over all of
    /// them takes little of the time: else ten thousand who come at once cost ten thousand looks at ten thousand.
    static let many = 256
    /// Nanoseconds between two looks, for each member.
    private static let lookInterval: UInt64 = 1000

    /// Whether what has changed may be told later, at the next tick at the latest. New messages are told of at once, as
    /// the owner waits for who is behind, and so is all that `block` subscriptions need.
    func mayWait(now: UInt64) -> Bool {
        if members.count >= Mirror.many, blocking == 0, now < nextLook, let told, told.seen == log.end,
            told.horizon == nil
        {
            isDirty = false
            return true
        }
        nextLook = now + UInt64(members.count) * Mirror.lookInterval
        return false
    }

    /// What to tell the owner; nil when nothing has changed since. A view of another shard's topic gives up what nobody
    /// here needs: neither those who wait, nor those who may join.
    func progress() -> MirrorProgress? {
        isDirty = false
        var now = MirrorProgress(
            seen: log.end, needed: log.end, horizon: horizon, floor: nil, subscriptions: members.count,
            dropped: pastDropped, delivered: delivered)
        for subscriber in members {
            now.needed = Swift.min(now.needed, subscriber.cursor.cursor)
            now.dropped &+= subscriber.cursor.dropped
            guard let floor = subscriber.cursor.floor else { continue }
            if now.floor == nil || floor < now.floor! {
                now.floor = floor
                atFloor = 1
            } else if floor == now.floor {
                atFloor += 1
            }
        }
        if !sharesLog {
            log.evict(before: Swift.max(Swift.min(retained, now.needed), lost))
            log.releaseLastChunk()
        }
        entries.evict(before: log.head)
        guard now != told else { return nil }
        told = now
        return now
    }
}

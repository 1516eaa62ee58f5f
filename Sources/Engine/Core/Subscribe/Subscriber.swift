// Subscriber: a client's subscription on the shard of its connection, with a cursor into the shard's view of the topic.

import ForebayWire
import Replay

final class Subscriber: BoundStream, Timed {
    /// Unique in this broker; shown in `$SYS.subscriptions`.
    let id: UInt64
    let options: SubscribeOptions
    let view: TopicView
    /// The number of messages requested and not yet received. The cursor does not know this number.
    private(set) var credit: Credit
    /// Nil for a subscription to one topic. If set, this is one of the cursors of a subscription to a pattern, whose
    /// credit counts instead.
    var match: Match?
    /// Whether the view exists and the subscriber is one of its members.
    private(set) var hasJoined = false
    /// The position, once the subscriber has joined. In separately allocated memory and used in place: a stored field
    /// would be checked for exclusive access, and copied, for each member that is read.
    var cursor: Subscription {
        unsafeAddress { UnsafePointer(cursorPlace) }
        unsafeMutableAddress { cursorPlace }
    }
    private let cursorPlace = UnsafeMutablePointer<Subscription>.allocate(capacity: 1)
    /// The subscriber's index in `view.members`, or in `view.waiting` before it has joined.
    var member = 0
    /// The subscriber's index among the `block` subscriptions of its view; -1 under other policies.
    var blocker = -1
    var isBlocker: Bool { blocker >= 0 }
    /// Whether no message waits for the subscriber and its cursor is not ahead of its view's round.
    var isInStep = false
    /// The subscriber's position in the queue for output space; nil if it does not wait for any.
    var outputTurn: TurnQueue<Subscriber>.Ticket?
    var isWaitingForOutput: Bool { outputTurn != nil }
    /// Its position in the queue for searches by time; nil if it is not in the queue.
    var search: TurnQueue<TimeSearch.Waiting>.Ticket?
    /// Whether the next message will be encoded when a turn has time for that.
    var awaitsForm = false {
        didSet { if let match, awaitsForm != oldValue { match.noteForm(self) } }
    }
    /// Whether the next message is in the store and has to be requested (`lacksHistory`), or the request is queued or
    /// in flight (`awaitsHistory`).
    var lacksHistory = false
    var awaitsHistory = false
    /// The id under which the subscription accepts credit over plain HTTP; nil over other protocols, or before it
    /// begins.
    var streamID: SubscriptionID?
    /// How many of the subscription's losses the shard's counters include.
    var countedDropped: UInt64 = 0
    /// Why the subscription ended, for the event.
    var end = "cancelled by the client"
    /// Since when messages have been waiting without interruption, on the monotonic clock; nil if none are.
    var behindSince: UInt64?
    /// When the client last requested messages, on the monotonic clock.
    var askedAt: UInt64
    /// Under `block`: since when the buffer has been full; nil if it is not.
    var fullness: Fullness?
    var timerPlace = -1

    init(
        id: UInt64, options: SubscribeOptions, view: TopicView, credit: Credit, connection: Connection, stream: UInt32,
        handle: Handle, now: UInt64
    ) {
        askedAt = now
        self.id = id
        self.options = options
        self.view = view
        self.credit = credit
        super.init(kind: .subscriber, connection: connection, stream: stream, handle: handle)
    }

    /// Whether the client requested a position of another epoch. Up to the last stored message, the positions of an
    /// epoch that a stored topic had before are those of the current one.
    var isOfOtherEpoch: Bool {
        guard let epoch = options.epoch, epoch != view.epoch else { return false }
        guard let former = view.formerEpoch(epoch), case .from(let sequence) = options.start else { return true }
        return sequence > former.end
    }

    /// Whether the client requested a position that the topic never had (in another epoch, or after the next message)
    /// and has received no message yet that reports this.
    var hasUnreportedGap: Bool {
        known { $0.delivered == 0 && (isOfOtherEpoch || $0.gapAtStart && $0.missedAtStart == 0) } ?? false
    }

    /// Whether no requested message precedes the one with which the subscription begins.
    var beginsWithoutLoss: Bool { known { !isOfOtherEpoch && $0.droppedSinceDelivery == 0 } ?? false }

    /// Adds the `n` messages that the client requests.
    /// - Returns: false if n is 0, which is INVALID and changes nothing.
    func request(_ n: UInt32) -> Bool { credit.add(n) }

    /// How many messages may be handed over now.
    @inline(__always)
    var available: Int { match == nil ? credit.available : availableToMatch }

    @inline(never)
    private var availableToMatch: Int { match?.available ?? 0 }

    /// Whether it has received everything, including the reports of what it has lost and of the topic's end.
    var isAtRest: Bool {
        known { $0.isUpToDate && $0.droppedSinceDelivery == 0 && $0.end == nil } ?? false && !hasUnreportedGap
    }

    /// Whether a cursor of a subscription to a pattern waits for its turn.
    var hasTurn: Bool { match?.hasTurn ?? false }

    /// How many messages the client has requested and not received.
    var demand: Int { match?.subscription.credit.available ?? credit.available }

    /// Where the subscription begins; the subscriber must have joined.
    var opening: OpeningPosition { OpeningPosition(epoch: view.epoch, next: cursor.cursor.value) }

    /// Charges one credit for the opening, which was sent as a separate message.
    func payForOpening() { credit.spend(1) }

    /// Records that the first `count` messages of `range`, a result of `deliverable`, were handed over to the
    /// connection.
    @inline(__always)
    func handOver(_ count: Int, of range: SequenceRange) {
        cursor.handOver(count, of: range)
        if let match { match.spend(count) } else { credit.spend(count) }
    }

    /// Reads from `cursor`; nil if the subscriber has not joined.
    func known<Figure>(_ read: (borrowing Subscription) -> Figure) -> Figure? { hasJoined ? read(cursor) : nil }

    private var log: Log { view.log }

    /// The messages that, given the credit, may be handed over next, without a hole between them; nil if there are
    /// none, or if the first is in a store. Messages that the view's log no longer has are lost unless a store has
    /// them.
    @inline(__always)
    func deliverable() -> SequenceRange? {
        while true {
            let range = cursor.deliverable(available)
            guard !range.isEmpty else { return nil }
            if range.lower >= view.log.unbroken { return range }
            if range.lower >= view.log.head {
                if let messages = upToHole(range) { return messages }
                continue
            }
            if view.isStored {
                if view.log.holds(range.lower) { return range }
                lacksHistory = true
                return nil
            }
            cursor.evict(before: view.log.head)
        }
    }

    /// Makes pending messages wait if the overflow policy permits, after what could be handed over.
    @inline(never)
    func applyPolicy() {
        // Also without credit, and before the policy: a hole must not take the room of a message. The policy may drop
        // the messages in front of another one.
        if log.hasHoles { passHoles() }
        cursor.applyPolicy()
        if log.hasHoles { passHoles() }
    }

    /// Passes the holes of the log in front of the next message. That needs no credit.
    @inline(never)
    func passHoles() {
        while let hole = log.holes.hole(at: cursor.cursor) {
            guard cursor.skip(to: hole.range.upper, isLost: hole.isLost) else { return }
        }
    }

    /// The messages of `range`, which are deliverable, up to the next hole. If it begins with holes, they are passed,
    /// and the result is nil.
    @inline(never)
    private func upToHole(_ range: SequenceRange) -> SequenceRange? {
        guard let hole = log.holes.next(from: range.lower) else { return range }
        if hole.range.lower > range.lower {
            return SequenceRange(lower: range.lower, upper: Swift.min(range.upper, hole.range.lower))
        }
        passHoles()
        return nil
    }

    /// Whether it waits in its view: see `TopicView.waiting`.
    var isWaiting: Bool { !hasJoined && member < view.waiting.count && view.waiting[member] === self }

    /// Whether the subscription has joined and not left.
    var isMember: Bool { hasJoined && member < view.members.count && view.members[member] === self }

    /// Sets the initial position, once.
    func join(at cursor: consuming Subscription) {
        precondition(!hasJoined)
        cursorPlace.initialize(to: cursor)
        hasJoined = true
    }

    deinit {
        if hasJoined { cursorPlace.deinitialize(count: 1) }
        cursorPlace.deallocate()
    }
}

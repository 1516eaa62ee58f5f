// Subscriber: a remote subscription on the shard of its connection: a cursor into the shard's view of the topic.

import ForebayWire
import Replay

final class Subscriber: BoundStream, Timed {
    /// Unique in this broker; told by `$SYS.subscriptions`.
    let id: UInt64
    let options: SubscribeOptions
    let view: TopicView
    /// What was asked for and not yet received: an account that the cursor does not know of.
    private(set) var credit: Credit
    /// The view is there, and the subscriber has its place in it.
    private(set) var hasJoined = false
    /// Where it stands, once it has joined. It lies in memory of its own and is used there: a field would be checked
    /// for exclusive access, and copied, whenever one of its figures is read.
    var cursor: Subscription {
        unsafeAddress { UnsafePointer(cursorPlace) }
        unsafeMutableAddress { cursorPlace }
    }
    private let cursorPlace = UnsafeMutablePointer<Subscription>.allocate(capacity: 1)
    /// Its place in `view.members`, or before it has joined in `view.waiting`.
    var member = 0
    /// Its place among the `block` subscriptions of its view; -1 for those of other policies.
    var blocker = -1
    var isBlocker: Bool { blocker >= 0 }
    /// Nothing waits for it, and it has been told of no more than its view's round brings members up to.
    var isInStep = false
    /// Its turn to be given room in the output; nil if it waits for none.
    var outputTurn: TurnQueue<Subscriber>.Ticket?
    var isHungry: Bool { outputTurn != nil }
    /// Its next message is made in its form when a turn has time for that.
    var awaitsForm = false
    /// Its next message is in the store, which it has to be asked for; and was, or will be when its turn has come.
    var lacksHistory = false
    var awaitsHistory = false
    /// Under which it can be given credit over plain HTTP; nil if it came otherwise, or has not begun.
    var streamID: SubscriptionID?
    /// What it has lost, as far as the shard's counters know.
    var countedDropped: UInt64 = 0
    /// Why it ended, for the event that tells so.
    var end = "cancelled by the client"
    /// Since when messages have been waiting for it without a pause, on the monotonic clock; nil while none does.
    var behindSince: UInt64?
    /// When its client asked for messages last, on the monotonic clock.
    var askedAt: UInt64
    /// Under `block`: its buffer is full; nil while it is not.
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

    /// It asked to go on in another life of its topic than this one.
    var isOfOtherEpoch: Bool { options.epoch.map { $0 != view.epoch } ?? false }

    /// It asked to go on where its topic never was – in another epoch, or beyond the next message – and no message has
    /// come yet to tell so.
    var hasUntoldGap: Bool {
        known { $0.delivered == 0 && (isOfOtherEpoch || $0.gapAtStart && $0.missedAtStart == 0) } ?? false
    }

    /// Its client asks for `n` more messages.
    /// - Returns: false if n is 0, which is INVALID; nothing changes then.
    func request(_ n: UInt32) -> Bool { credit.add(n) }

    /// The first `count` messages of `range`, which was `deliverable`, were handed over to its connection.
    @inline(__always)
    func handOver(_ count: Int, of range: SequenceRange) {
        cursor.handOver(count, of: range)
        credit.spend(count)
    }

    /// What `read` finds in `cursor`; nil before there is one.
    func known<Figure>(_ read: (borrowing Subscription) -> Figure) -> Figure? { hasJoined ? read(cursor) : nil }

    private var log: Log { view.log }

    /// The messages to hand over next, as far as its credit reaches; nil if there are none, or a store has the first.
    /// What its view's log has given up of them, and no store has, is lost.
    @inline(__always)
    func deliverable() -> SequenceRange? {
        while true {
            let range = cursor.deliverable(credit.available)
            guard !range.isEmpty else { return nil }
            if range.lower >= view.log.head { return range }
            if view.isStored {
                if view.log.holds(range.lower) { return range }
                lacksHistory = true
                return nil
            }
            cursor.evict(before: view.log.head)
        }
    }

    /// It has joined, and has not left.
    var isMember: Bool { hasJoined && member < view.members.count && view.members[member] === self }

    /// Gives it its place, once.
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

// PatternSubscription: a client's subscription to all topics whose names match a pattern. One credit serves many
// cursors: each topic that has something for the client has a `Subscriber` in the shard's view of it, whose `match`
// leads here. Those with messages take turns, one message each.
//
//     view of orders.eu ── Subscriber ── Match ─┐
//     view of orders.us ── Subscriber ── Match ─┴─ PatternSubscription: credit, turns ── the client's stream
//
// A topic without news needs no cursor: its owner knows up to where this shard has followed it.

import ForebayWire
import Replay

final class PatternSubscription: BoundStream {
    /// Unique in this broker, like that of a subscription to one topic.
    let id: UInt64
    let pattern: TopicPattern
    let options: SubscribeOptions
    private(set) var credit: Credit
    /// Cursors with messages to hand over, in the order of their turns.
    private(set) var turns = TurnQueue<Subscriber>()
    /// Cursors whose topics have ended, in the order in which the client is notified of that. They have no turn.
    private(set) var ends = TurnQueue<Subscriber>()
    /// All cursors, by their topics' epochs.
    private(set) var cursors: [UInt64: Subscriber] = [:]
    /// Messages that the cursor whose turn it is may still hand over.
    var allowance = 0
    var beginning: PatternBeginning
    var skipped = SkippedTopics()
    fileprivate(set) var sums = PatternSums()
    /// Its index among the subscriptions with the same pattern.
    var member = 0
    /// The id under which it accepts credit over plain HTTP; nil over other protocols, or before it begins.
    var streamID: SubscriptionID?
    /// Whether it is handing over messages.
    var isServing = false
    /// The cursor that waits for output space on behalf of all.
    var waiter: Subscriber?
    var isWaitingForOutput: Bool { waiter?.isWaitingForOutput ?? false }
    /// Whether the stream has ended. Cursors are then removed, some at a time.
    private(set) var isOver = false
    private let needs: PatternNeeds
    /// When the client last requested messages, on the monotonic clock.
    var askedAt: UInt64
    /// Why the subscription ended, for the event.
    var end = "cancelled by the client"

    init(
        id: UInt64, pattern: TopicPattern, options: SubscribeOptions, credit: Credit, connection: Connection,
        stream: UInt32, handle: Handle, owners: Range<Int>, needs: PatternNeeds, now: UInt64
    ) {
        self.needs = needs
        askedAt = now
        self.id = id
        self.pattern = pattern
        self.options = options
        self.credit = credit
        beginning = PatternBeginning(unanswered: Set(owners))
        super.init(kind: .pattern, connection: connection, stream: stream, handle: handle)
    }

    /// Whether all shards have reported the topics that matched when the subscription began.
    var hasBegun: Bool { beginning.isOver }
    /// Whether messages may be handed over. Over HTTP the response begins first, when the subscription begins.
    var isConfirmed: Bool { hasBegun || !hasBody }
    /// Whether it begins with messages that topics retain.
    var wantsHistory: Bool {
        if options.since != nil { return true }
        return switch options.start {
        case .next, .last(0): false
        case .all, .last, .from: true
        }
    }

    /// Where it continues in a topic that it has not begun with.
    func position(in view: TopicView) -> TopicPlace? { beginning.positions[view.owner][view.name] }

    /// Adds the `n` messages that the client requests.
    /// - Returns: false if n is 0, which is INVALID and changes nothing.
    func request(_ n: UInt32) -> Bool { credit.add(n) }

    fileprivate func spend(_ count: Int) {
        allowance -= count
        credit.spend(count)
        sums.delivered &+= UInt64(count)
    }

    /// Whether the next message of a topic will be encoded when a turn has time for that.
    var awaitsForm: Bool { sums.formsAwaited > 0 }

    /// What waits for the subscription, without computing a sum.
    var waitsFor: WaitsFor {
        guard hasBegun else { return .topic }
        return sums.waiting == 0 ? .nothing : credit.available == 0 ? .credit : .socket
    }

    /// The notice of a topic's end has reported losses.
    func noteReported(_ count: UInt64) { sums.noteReported(count) }
    /// Messages of a topic were lost.
    func noteLoss(_ count: UInt64) { sums.dropped &+= count }
    /// A topic with messages is skipped.
    func noteSkip() { sums.skipped += 1 }

    /// A topic that was skipped, and that no shard has been asked for since.
    var nextSkipped: (epoch: UInt64, SkippedTopics.Place)? {
        skipped.places.first { !beginning.rejoining.contains($0.key) }.map { ($0.key, $0.value) }
    }

    /// Bytes that it takes for topics without a cursor, about.
    var memory: Int { beginning.memory + skipped.memory }

    /// The subscription has ended: it needs nothing of topics without a cursor any longer.
    func clear() {
        beginning.clear()
        skipped.removeAll()
    }

    // Cursors

    /// Cursors that cannot be removed, because they are not up to date.
    var needed: Int { sums.behind }

    /// `change` more cursors are not up to date, or fewer.
    fileprivate func need(_ change: Int) {
        sums.behind += change
        if !isOver { needs.change(connection, by: change) }
    }

    /// The stream has ended.
    func close() {
        isOver = true
        needs.change(connection, by: -sums.behind)
    }

    func add(_ cursor: Subscriber) {
        assert(cursors[cursor.view.epoch] == nil)
        need(1)
        cursor.exchange = exchange
        cursors[cursor.view.epoch] = cursor
    }

    /// Whether it has, or had, a cursor in the topic with that epoch.
    func knows(_ epoch: UInt64) -> Bool { cursors[epoch] != nil || beginning.had.contains(epoch) }

    /// Whether it is to begin in a topic where its options say, and not where all others are.
    func begins(in epoch: UInt64) -> Bool {
        beginning.rejoining.contains(epoch) || !hasBegun && !beginning.had.contains(epoch)
    }

    /// The shard is being deallocated.
    func removeAllCursors() { (cursors, turns, ends, waiter) = ([:], TurnQueue(), TurnQueue(), nil) }

    func remove(_ cursor: Subscriber, now: Instant) {
        cursor.match?.noteRemoval(of: cursor, now: now)
        if cursor.awaitsForm { sums.formsAwaited -= 1 }
        cursor.exchange = nil
        if !hasBegun && !isOver { beginning.had.insert(cursor.view.epoch) }
        beginning.rejoining.remove(cursor.view.epoch)
        cursors[cursor.view.epoch] = nil
        endTurn(of: cursor)
        if let place = cursor.match?.end.take() { ends.withdraw(place) }
    }

    // Turns

    /// Gives a cursor with messages a turn after those that already have one.
    func addTurn(for cursor: Subscriber) {
        guard let match = cursor.match, match.turn == nil, match.end == nil else { return }
        match.turn = turns.append(cursor)
    }

    /// Withdraws a cursor's turn.
    func endTurn(of cursor: Subscriber) {
        guard let turn = cursor.match?.turn.take() else { return }
        turns.withdraw(turn)
    }

    /// The client will be notified of the end of a cursor's topic, of which it has received everything.
    func awaitEnd(of cursor: Subscriber) {
        endTurn(of: cursor)
        guard let match = cursor.match, match.end == nil else { return }
        match.end = ends.append(cursor)
    }

    /// The cursor whose turn it is, which may hand over one message; all it has if no other has any.
    func nextTurn() -> Subscriber? {
        guard credit.available > 0, let cursor = turns.first else { return nil }
        allowance = turns.count == 1 ? credit.available : 1
        return cursor
    }
}

/// What a subscription to a pattern knows until it has begun in all topics that matched.
struct PatternBeginning {
    /// The shards that have not reported all of their matching topics yet.
    private(set) var unanswered: Set<Int>
    /// Topics that matched.
    private(set) var matches = 0
    /// Topics, by epoch, in which it begins where its options say although all shards have answered.
    var rejoining: Set<UInt64> = []
    /// Topics, by epoch, in which it had a cursor before all shards have answered: their answers may still name them.
    fileprivate(set) var had: Set<UInt64> = []
    /// Its place among those for which the shards have not been asked; nil if they have.
    var place: TurnQueue<PatternSubscription>.Ticket?
    /// Where it continues in topics in which it has not begun; in shared ones, also when all shards have answered.
    var positions = PatternPositions.none

    init(unanswered: Set<Int>) { self.unanswered = unanswered }

    /// Bytes that an epoch in a set takes, about.
    private static let epochMemory = 16
    /// Bytes that it takes, about.
    var memory: Int { positions.memory + had.count * PatternBeginning.epochMemory }

    /// The subscription has ended.
    mutating func clear() { (positions, had, rejoining) = (.none, [], []) }

    /// Whether all shards have answered.
    var isOver: Bool { unanswered.isEmpty }

    /// A shard has reported topics that match.
    /// - Parameter isLast: whether it has reported all of them.
    /// - Returns: whether it was the last shard to do so, which begins the subscription.
    mutating func note(_ count: Int, of owner: Int, isLast: Bool) -> Bool {
        matches += count
        guard isLast, unanswered.remove(owner) != nil, isOver else { return false }
        had = []
        return true
    }
}

/// What happened in all topics of a subscription to a pattern, kept as it changes.
struct PatternSums {
    /// Messages delivered, and lost.
    fileprivate(set) var delivered: UInt64 = 0
    fileprivate(set) var dropped: UInt64 = 0
    /// Losses that no message has reported yet, also in topics that have ended since.
    private(set) var droppedSinceDelivery: UInt64 = 0
    /// Messages that wait, and since when any have, on the monotonic clock; nil if none do.
    private(set) var waiting = 0
    private(set) var behindSince: UInt64?
    /// Cursors whose next message will be encoded when a turn has time for that.
    fileprivate(set) var formsAwaited = 0
    /// Cursors that are not up to date.
    fileprivate(set) var behind = 0
    /// How often a topic with messages was skipped.
    fileprivate(set) var skipped = 0

    func behind(now: Instant) -> UInt64 {
        behindSince.map { now.monotonic - Swift.min($0, now.monotonic) } ?? 0
    }

    fileprivate mutating func noteReported(_ count: UInt64) { droppedSinceDelivery &-= count }

    fileprivate mutating func note(waiting change: Int, dropped: UInt64, now: UInt64) {
        droppedSinceDelivery &+= dropped
        waiting += change
        if waiting == 0 { behindSince = nil } else if behindSince == nil { behindSince = now }
    }
}

/// What connects a cursor with its subscription to a pattern.
final class Match {
    let subscription: PatternSubscription
    /// The cursor's place in the turns; nil if it has none.
    fileprivate var turn: TurnQueue<Subscriber>.Ticket?
    /// Its place among those whose topics have ended; nil if it has none.
    fileprivate var end: TurnQueue<Subscriber>.Ticket?
    /// What the subscription's sums contain of this cursor.
    private var waiting = 0
    private var droppedSinceDelivery: UInt64 = 0
    private var isBehind = true
    /// While the store searches for its first message: from where all messages are for the subscription in any case.
    var followed: SequenceNumber?

    init(_ subscription: PatternSubscription) { self.subscription = subscription }

    var hasTurn: Bool { turn != nil }

    /// The messages that the cursor may hand over now.
    var available: Int { Swift.min(subscription.allowance, subscription.credit.available) }

    func spend(_ count: Int) { subscription.spend(count) }

    /// Updates the subscription's sums, after a change of the cursor.
    func note(_ cursor: Subscriber, now: Instant) {
        guard cursor.hasJoined else { return }
        let (waiting, dropped) = (cursor.cursor.waiting, cursor.cursor.droppedSinceDelivery)
        note(isBehind: !cursor.isAtRest)
        guard waiting != self.waiting || dropped != droppedSinceDelivery else { return }
        subscription.sums.note(
            waiting: waiting - self.waiting, dropped: dropped &- droppedSinceDelivery, now: now.monotonic)
        (self.waiting, droppedSinceDelivery) = (waiting, dropped)
    }

    private func note(isBehind: Bool) {
        guard isBehind != self.isBehind else { return }
        self.isBehind = isBehind
        subscription.need(isBehind ? 1 : -1)
    }

    /// The cursor is being removed: nothing waits for it any longer, and its losses stay.
    fileprivate func noteRemoval(of cursor: Subscriber, now: Instant) {
        note(cursor, now: now)
        subscription.sums.note(waiting: -waiting, dropped: 0, now: now.monotonic)
        waiting = 0
        note(isBehind: false)
    }

    /// Whether the cursor awaits the encoding of its next message has changed.
    func noteForm(_ cursor: Subscriber) {
        guard subscription.cursors[cursor.view.epoch] === cursor else { return }
        subscription.sums.formsAwaited += cursor.awaitsForm ? 1 : -1
    }
}

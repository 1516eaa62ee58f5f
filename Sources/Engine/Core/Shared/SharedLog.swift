// SharedLog: what the owner of a shared topic knows in addition to its messages: whether this node follows the topic,
// who waits for that, and the messages of this node that are not in the topic's stream yet.
//
//     joining ──the messages up to now were reported──▶ current ──an end is requested──▶ ending ──▶ ended
//        ▲  └──there is no such topic──▶ absent ──it was created──▶ current   ▲                │
//        └──────────it was found───────────┘                                  └────refused─────┘
//
// A message gets its sequence from JetStream. Until it is read from the stream, a ticket takes the sequence's place.

import Replay

final class SharedLog {
    enum State {
        case joining
        case absent
        /// Subscriptions may begin.
        case current
    }

    /// An end that this node has requested, and who waits for it.
    struct Ending {
        let ticket: PublishTicket
        let end: SharedEnd
        var waiters: [CommitLine.Waiter] = []
    }

    typealias WaitingCall = (call: ControlRequest, target: ReplyTarget)

    let use: TopicUse
    private(set) var state = State.joining
    private(set) var ending: Ending?
    /// Calls that wait until it is known whether the topic exists.
    private var calls: [WaitingCall] = []
    /// Look-ups of publishers.
    private var lookups: [PublishTicket: (key: PublisherKey, target: ReplyTarget)] = [:]
    /// Searches of subscriptions to patterns that wait until the topic is current, or known not to exist.
    private var searches = TurnQueue<PatternSearch>()
    /// The shards to attach once subscriptions may begin, and how many wait there.
    private var attaching: [Int: Int] = [:]
    private var unconfirmed: [SequenceNumber: (who: CommitLine.Waiter?, charge: Int)] = [:]
    /// Bytes of the messages that are not in the stream yet.
    private(set) var unconfirmedBytes = 0

    /// How many they are.
    var unconfirmedCount: Int { unconfirmed.count }
    /// Subscriptions that wait until they may begin.
    var waiting: Int { attaching.values.reduce(0, +) }

    var isCurrent: Bool { state == .current }
    var isAbsent: Bool { state == .absent }
    var isEnding: Bool { ending != nil }
    var isAwaited: Bool {
        waiting > 0 || !unconfirmed.isEmpty || !calls.isEmpty || !lookups.isEmpty || isEnding
    }

    init(_ use: TopicUse) { self.use = use }

    func attach(_ shard: Int) { attaching[shard] = 1 }

    /// How many subscriptions wait on a shard, if some did.
    func note(waiting count: Int, on shard: Int) { if attaching[shard] != nil { attaching[shard] = count } }

    /// Subscriptions may begin. Returns the shards to attach.
    func becomeCurrent() -> [Int] {
        state = .current
        return takeAttaching()
    }

    /// The shards that were to be attached.
    func takeAttaching() -> [Int] {
        defer { attaching = [:] }
        return Array(attaching.keys)
    }

    func becomeAbsent() { state = .absent }

    /// The upstream has found the topic: it reports its messages next, or that it is absent after all.
    func noteFound() { if isAbsent { state = .joining } }

    // Searches

    func add(_ search: PatternSearch) -> TurnQueue<PatternSearch>.Ticket { searches.append(search) }

    func withdrawSearch(_ ticket: TurnQueue<PatternSearch>.Ticket) { searches.withdraw(ticket) }

    func takeSearches() -> TurnQueue<PatternSearch> {
        defer { searches = TurnQueue() }
        return searches
    }

    // Calls

    /// Calls and look-ups that may wait at the same time.
    private static let mostCalls = 1024

    /// - Throws: if too many calls wait.
    func expectRoomForCall() throws(Refusal) {
        guard calls.count + lookups.count >= SharedLog.mostCalls else { return }
        throw Refusal(
            .limit,
            "\(SharedLog.mostCalls) calls about the topic '\(use.topic)' wait for NATS JetStream, the maximum; try "
                + "again later.")
    }

    func add(_ call: WaitingCall) { calls.append(call) }

    /// The calls that have waited.
    func takeCalls() -> [WaitingCall] {
        defer { calls = [] }
        return calls
    }

    func addLookup(_ ticket: PublishTicket, of key: PublisherKey, for target: ReplyTarget) {
        lookups[ticket] = (key, target)
    }

    func takeLookup(_ ticket: PublishTicket) -> (key: PublisherKey, target: ReplyTarget)? {
        lookups.removeValue(forKey: ticket)
    }

    /// The callers of look-ups that were not answered.
    func takeLookups() -> [ReplyTarget] {
        defer { lookups = [:] }
        return lookups.sorted { $0.key.value < $1.key.value }.map(\.value.target)
    }

    // The end

    func requestEnd(_ end: SharedEnd, _ ticket: PublishTicket) { ending = Ending(ticket: ticket, end: end) }

    /// Makes `who` wait for the end that was requested.
    func addToEnding(_ who: CommitLine.Waiter) { ending?.waiters.append(who) }

    /// The end was refused, or the topic has ended. Its deletion may still be requested after another end.
    func takeEnding(at end: SharedEnd? = nil) -> Ending? {
        if let end, end != .deleted, ending?.end == .deleted { return nil }
        defer { ending = nil }
        return ending
    }

    // Messages

    /// A message was handed to the upstream.
    func submitted(_ ticket: SequenceNumber, charge: Int) {
        unconfirmed[ticket] = (nil, charge)
        unconfirmedBytes += charge
    }

    /// Makes `who` wait for that message.
    func add(_ who: CommitLine.Waiter, for ticket: SequenceNumber) {
        who.note()
        unconfirmed[ticket]?.who = who
    }

    /// The messages that are not in the stream yet, in order.
    var unconfirmedTickets: [PublishTicket] { unconfirmed.keys.sorted().map { PublishTicket($0.value) } }

    /// The message is in the stream, or refused. Returns who waits for it.
    func take(_ ticket: PublishTicket) -> CommitLine.Waiter? {
        guard let message = unconfirmed.removeValue(forKey: SequenceNumber(ticket.value)) else { return nil }
        unconfirmedBytes -= message.charge
        return message.who
    }
}

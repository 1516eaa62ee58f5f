// Shard: the broker engine of one thread, without I/O, clock or randomness of its own. A loop (or a simulator) feeds it
// inputs and carries out its effects.
//
// A connection lives on one shard, with its subscribers and publishers. A topic is owned by one shard, which its name
// chooses. Where they differ, mail goes between them. After each input everything that it touched is settled: views
// advance, output is queued, publishers are granted and acknowledged.
//
// What a shard does its parts do. Each owns its state; `ShardParts` makes them, lowest first. Here inputs are handed to
// the part that each is for.

import Bytes
import Replay

public final class Shard {
    public static let version = "0.1.0"

    let context: ShardContext
    let parts: ShardParts
    // Parts that every write uses, at hand.
    private let inputs: ConnectionInputs
    private let settlement: Settlement

    /// - Parameters:
    ///   - index: this shard's place among `count`.
    ///   - memory: the budget that all shards of the broker share.
    ///   - quotas: what is counted over all of them.
    ///   - seed: randomness for epochs; the only randomness that the engine gets.
    ///   - access: who may do what, until `reload`.
    public init(
        index: Int, count: Int, limits: Limits, memory: MemoryBudget, quotas: Quotas = Quotas(), seed: UInt64,
        access: AccessTable = .open, now: Instant
    ) {
        context = ShardContext(
            index: index, shards: count, limits: limits, memory: memory, quotas: quotas, seed: seed, now: now)
        parts = ShardParts(context, access: access)
        inputs = parts.protocols.inputs
        settlement = parts.turn.settlement
    }

    deinit { parts.dismantle() }

    /// Deals with an input, and with what it touched.
    @inline(__always)
    private func input<Result>(_ now: Instant, _ body: (ShardParts) -> Result) -> Result {
        context.moment = now
        let result = body(parts)
        settlement.settle(now)
        return result
    }

    // What the driver asks

    public var effects: Effects {
        unsafeAddress { UnsafePointer(context.effectsPlace) }
        unsafeMutableAddress { context.effectsPlace }
    }
    /// When `fire` is to be called at the latest, on the monotonic clock.
    public var deadline: UInt64? { Swift.min(parts.tables.timers.nextTick, parts.tables.rateLimiter.nextPayment) }
    /// Something was left for later: `goOn` is to be called in each turn until there is nothing.
    public var hasWork: Bool { !context.work.isEmpty }
    /// The turn has taken its time: what is left of its inputs is for the next one.
    public var isTurnOver: Bool { context.work.isTurnOver }
    /// No connection is left: a draining shard is done.
    public var isIdle: Bool { parts.tables.connections.count == 0 }
    /// Messages that still waited for credit when the shard, draining, ended their subscriptions.
    public var undelivered: UInt64 { context.counters.undelivered }
    /// Bytes to be read from a connection at a time, at most.
    public func readLimit(of id: ConnectionID) -> Int { parts.tables.connections.readLimit(of: id) }
    /// What a connection sent is not dealt with yet: nothing more is to be read from it.
    public func isBehind(_ id: ConnectionID) -> Bool { parts.tables.connections.isBehind(id) }
    /// Members of a view that are brought a message before others have their turn; a simulation has few.
    package var slice: Int {
        get { parts.output.views.slice }
        set { parts.output.views.slice = newValue }
    }
    package var inspector: Inspector { parts.turn.inspector }

    /// The shard that a topic lives on, by its name.
    static func owner(of name: String, among shards: Int) -> Int {
        // FNV-1a: any spread will do, but each shard must find the same.
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in name.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return Int((hash >> 8) % UInt64(shards))
    }

    // Turns and time

    /// A turn begins.
    public func beginTurn() { context.work.begin() }

    /// Goes on with what was left for later, as far as half a turn allows.
    public func goOn(now: Instant) {
        input(now) { $0.turn.scheduler.goOn(now: now) }
        // However much that was, what comes now has its turn, too.
        context.work.spent = Swift.min(context.work.spent, Work.turn / 2)
    }

    /// `deadline` has passed.
    public func fire(now: Instant) { input(now) { $0.turn.ticker.fire(now: now) } }

    /// New limits, in force from the next input on. A connection keeps those of its protocol (payload, metadata,
    /// streams) that it was opened with; topics take what they retain at once, or where there are many in turn.
    public func adopt(_ limits: Limits, now: Instant) {
        input(now) {
            context.adopt(limits)
            $0.tables.rateLimiter.adopt()
            // Those who wait are looked at by the new rates.
            $0.tables.rateLimiter.payWaiting($0.requests.publishing, now: now)
            $0.tables.peers.adopt(limits)
            $0.turn.scheduler.sweep(.settings, now: now)
        }
    }

    /// From now on `access` says who may do what. Streams that it no longer allows end with REJECTED or
    /// PERMISSION_DENIED; a connection of RSocket whose user is not let in any more ends behind them.
    public func reload(_ access: AccessTable, now: Instant) {
        input(now) {
            $0.tables.authorization.access = access
            $0.turn.scheduler.sweep(.permissions, now: now)
        }
    }

    /// Begin to shut down: no new connections, streams or messages. Subscriptions receive what waits and they give
    /// credit for; a connection is told and closed once there is nothing more for it, or nothing was asked of it for
    /// `Limits.askTime`.
    public func drain(now: Instant) {
        input(now) {
            context.draining = true
            $0.turn.scheduler.sweep(.drainingTopics, now: now)
            $0.tables.rateLimiter.payWaiting($0.requests.publishing, now: now)
            $0.turn.scheduler.sweep(.drainingConnections, now: now)
        }
        // Not at once: what other shards have under way is to arrive before a connection is found to be done.
        parts.tables.timers.nextTick = now.monotonic + Timers.interval
    }

    // Other shards, the store, operators

    /// Messages from other shards, in the order each of them sent its own.
    public func receive(_ mail: [ShardMessage], now: Instant) {
        input(now) { $0.turn.dispatch.receive(mail, now: now) }
    }

    /// The store has the messages of a topic before `end`: what `Effects.store` gave it is safe so far.
    /// - Parameter topic: its epoch. One that is gone is ignored.
    public func committed(_ topic: UInt64, upTo end: SequenceNumber, now: Instant) {
        input(now) { $0.tables.topics[epoch: topic]?.commit(upTo: end, now: now) }
    }

    /// What the store has of the messages that `Effects.store` asked for. A topic that nobody subscribes to any more is
    /// ignored.
    public func answer(_ request: HistoryRequest, _ answer: HistoryAnswer, now: Instant) {
        input(now) { $0.output.history.answer(request, answer, now: now) }
    }

    public func answer(_ inquiry: ShardQuery, now: Instant) -> ShardAnswer {
        input(now) { $0.requests.surveys.answer(inquiry, now: now) }
    }

    /// Credentials that `Effects.logins` named were looked at.
    public func authenticated(_ ticket: LoginTicket, _ outcome: LoginOutcome, now: Instant) {
        input(now) { $0.protocols.logins.authenticated(ticket, outcome, now: now) }
    }

    /// Somebody, here or at the admin listener, said who it is, or did not.
    public func count(_ result: LoginResult) { context.counters.count(result) }

    // Connections

    /// As `admit`; nil if it is refused.
    public func open(peer: String, wireProtocol: WireProtocol, now: Instant) -> ConnectionID? {
        try? admit(peer: peer, wireProtocol: wireProtocol, now: now)
    }

    /// A connection was accepted from `peer` (an address as text, "127.0.0.1:50312"), which is to speak `wireProtocol`.
    public func admit(peer: String, wireProtocol: WireProtocol, now: Instant) throws(ConnectionRefusal) -> ConnectionID
    {
        context.moment = now
        return try parts.protocols.inputs.admit(peer: peer, wireProtocol: wireProtocol, now: now)
    }

    /// The connection is secured: from here on its bytes come. Told once, before any of them.
    /// - Parameter certificate: the peer's, if it was asked for one and has shown one that is trusted.
    public func secured(_ id: ConnectionID, certificate: PeerCertificate?, now: Instant) {
        context.moment = now
        parts.protocols.inputs.secured(id, certificate: certificate, now: now)
    }

    /// The connection could not be secured, and is gone.
    public func notSecured(_ id: ConnectionID, reason: String, now: Instant) {
        context.counters.handshakeFailures &+= 1
        lost(id, reason: reason, now: now)
    }

    /// Bytes arrived. They are not kept beyond the call.
    public func receive(_ bytes: UnsafeRawBufferPointer, on id: ConnectionID, now: Instant) {
        input(now) { $0.protocols.inputs.receive(bytes, on: id, now: now) }
    }

    /// The peer will send nothing more (a FIN): it cannot ask for anything, so the connection is over.
    public func receiveEnd(on id: ConnectionID, now: Instant) {
        input(now) { $0.protocols.inputs.receiveEnd(on: id, now: now) }
    }

    /// The socket is gone; nothing can be written to it.
    public func lost(_ id: ConnectionID, reason: String, now: Instant) {
        input(now) { $0.protocols.inputs.lost(id, reason: reason, now: now) }
    }

    /// The bytes to write next, in order, at most as many pieces as `pieces` holds; not always all there are. Valid
    /// until the next input or `gather` for any connection: write them, and tell `wrote`, before that.
    /// Returns the number of pieces; 0 when there is nothing to write.
    public func gather(_ id: ConnectionID, into pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>) -> Int {
        inputs.gather(id, into: pieces)
    }

    /// `count` of the gathered bytes were taken by the socket. `blocked`: it takes no more until it is writable again;
    /// call `writable` then.
    public func wrote(_ count: Int, blocked: Bool, on id: ConnectionID, now: Instant) {
        input(now) { _ in inputs.wrote(count, blocked: blocked, on: id, now: now) }
    }

    /// A socket that was blocked takes bytes again.
    public func writable(_ id: ConnectionID, now: Instant) { input(now) { $0.protocols.inputs.writable(id, now: now) } }

    /// A socket arrives that some shard's `Effects.handovers` named. Returns the connection whose socket it is from now
    /// on, which may have had another one before; it may be a new one, to be told an error and closed.
    public func takeOver(_ handover: Handover, now: Instant) -> ConnectionID {
        input(now) { $0.protocols.resumption.takeOver(handover, now: now) }
    }

    // Connections of HTTP/1.1: HTTP1Inputs.swift

    /// The first bytes of a connection that has sent none to the engine are not HTTP/2's.
    public func speaksHTTP1(on id: ConnectionID, now: Instant) {
        context.moment = now
        parts.protocols.http1Inputs.speaksHTTP1(on: id, now: now)
    }

    /// The head of a request has come. The one before it is over.
    public func request(_ head: HTTP1Request, on id: ConnectionID, now: Instant) {
        input(now) { $0.protocols.http1Inputs.request(head, on: id, now: now) }
    }

    /// More of a request's body came. It is not kept beyond the call.
    public func body(_ bytes: UnsafeRawBufferPointer, on id: ConnectionID, now: Instant) {
        input(now) { $0.protocols.http1Inputs.body(bytes, on: id, now: now) }
    }

    /// The request has come to its end.
    public func requestEnded(on id: ConnectionID, now: Instant) {
        input(now) { $0.protocols.http1Inputs.requestEnded(on: id, now: now) }
    }

    /// The answer, once, when it can be written. Nil while it is not known, or what made it has still to be told to
    /// others; `Effects.flush` names the connection then.
    /// - Parameter atOnce: a refusal may go ahead of everything.
    public func answer(on id: ConnectionID, atOnce: Bool, now: Instant) -> HTTP1Answer? {
        input(now) { $0.protocols.http1Inputs.answer(on: id, atOnce: atOnce, now: now) }
    }

    /// Moves the next bytes of the answer's body into `buffer`, which is not empty. Not of a stream's.
    public func take(into buffer: UnsafeMutableRawBufferPointer, on id: ConnectionID, now: Instant) -> HTTP1Piece {
        input(now) { $0.protocols.http1Inputs.take(into: buffer, on: id, now: now) }
    }

    /// The answer is written, or the request came to nothing.
    /// - Parameter isLast: nothing more comes on the connection; it lasts only as long as it takes the client to read.
    public func exchangeOver(on id: ConnectionID, isLast: Bool, now: Instant) {
        input(now) { $0.protocols.http1Inputs.exchangeOver(on: id, isLast: isLast, now: now) }
    }

    /// The socket of a connection whose answer, a stream, was fetched is not the library's any more: `gather` tells
    /// what is to be written to it, and `receive` takes what comes.
    /// - Parameter rest: bytes of answers before this one that are still to be written.
    public func beginStream(on id: ConnectionID, behind rest: UnsafeRawBufferPointer, now: Instant) {
        input(now) { $0.protocols.http1Inputs.beginStream(on: id, behind: rest, now: now) }
    }
}

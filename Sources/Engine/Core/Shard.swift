// Shard: the broker engine of one thread, without I/O, a clock or a source of randomness. A loop (or a simulator) feeds
// it inputs and carries out its effects.
//
// A connection lives on one shard, with its subscribers and publishers. A topic is owned by one shard, which is chosen
// by the topic's name. If these are different shards, they exchange messages. After each input, everything it touched
// is run to completion: views advance, output is queued, publishers receive grants and acknowledgements.
//
// The work is done by a shard's parts. Each owns its state; `ShardParts` creates them, lowest first. This class passes
// each input to the part that handles it.

import Bytes
import Replay

public final class Shard {
    public static let version = "0.1.0"

    let context: ShardContext
    let parts: ShardParts
    // Parts used by every write, cached.
    private let inputs: ConnectionInputs
    private let propagation: Propagation

    /// - Parameters:
    ///   - index: this shard's index among `count`.
    ///   - memory: the budget shared by all shards of the broker.
    ///   - quotas: counts across all shards of the broker.
    ///   - store: the state of the broker's store.
    ///   - seed: the engine's only source of randomness, used for epochs.
    ///   - access: users and permissions, until `reload`.
    public init(
        index: Int, count: Int, limits: Limits, memory: MemoryBudget, quotas: Quotas = Quotas(),
        store: StoreHealth = StoreHealth(), seed: UInt64,
        access: AccessTable = .open, now: Instant
    ) {
        context = ShardContext(
            index: index, shards: count, limits: limits, memory: memory, quotas: quotas, store: store,
            seed: seed, now: now)
        parts = ShardParts(context, access: access)
        inputs = parts.protocols.inputs
        propagation = parts.turn.propagation
    }

    deinit { parts.dismantle() }

    /// Handles an input and everything it touched.
    @inline(__always)
    private func input<Result>(_ now: Instant, _ body: (ShardParts) -> Result) -> Result {
        context.moment = now
        let result = body(parts)
        propagation.run(now)
        return result
    }

    // For the driver

    public var effects: Effects {
        unsafeAddress { UnsafePointer(context.effectsPlace) }
        unsafeMutableAddress { context.effectsPlace }
    }
    /// The latest time to call `fire`, on the monotonic clock.
    public var deadline: UInt64? { Swift.min(parts.tables.timers.nextTick, parts.tables.rateLimiter.nextPayment) }
    /// Whether work was deferred. If so, call `goOn` in each turn until there is none.
    public var hasWork: Bool { !context.work.isEmpty }
    /// Whether the turn has used up its time. Its remaining inputs are left for the next one.
    public var isTurnOver: Bool { context.work.isTurnOver }
    /// About what share of a turn's time has been used for messages that outputs had space for.
    public var spentFeeding: Double { Double(context.work.spentFeeding) / Double(Work.turn) }
    /// Whether no connection is left. A draining shard is then done.
    public var isIdle: Bool { parts.tables.connections.count == 0 }
    /// Messages still waiting for credit when the draining shard ended their subscriptions.
    public var undelivered: UInt64 { context.counters.undelivered }
    /// The maximum number of bytes to read from a connection at a time.
    public func readLimit(of id: ConnectionID) -> Int { parts.tables.connections.readLimit(of: id) }
    /// Whether the connection has unprocessed input. If so, read nothing more from it for now.
    public func isBehind(_ id: ConnectionID) -> Bool { parts.tables.connections.isBehind(id) }
    /// Members of a view that receive a message before others have their turn. A simulation uses few.
    package var slice: Int {
        get { parts.output.views.slice }
        set { parts.output.views.slice = newValue }
    }
    package var inspector: Inspector { parts.turn.inspector }

    /// The shard that owns a topic, by its name.
    public static func owner(of name: String, among shards: Int) -> Int {
        // FNV-1a: any spread will do, but all shards must agree.
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in name.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return Int((hash >> 8) % UInt64(shards))
    }

    // Turns and time

    /// Begins a turn.
    public func beginTurn() { context.work.begin() }

    /// Continues deferred work for at most half a turn.
    public func goOn(now: Instant) {
        input(now) { $0.turn.scheduler.goOn(now: now) }
        // However much time that took, new inputs still get the other half.
        context.work.spent = Swift.min(context.work.spent, Work.turn / 2)
    }

    /// Does what is due. Called when `deadline` has passed.
    public func fire(now: Instant) { input(now) { $0.turn.ticker.fire(now: now) } }

    /// Adopts new limits from the next input on. An open connection keeps its protocol limits (payload, metadata,
    /// streams). Topics adopt new retention limits at once, or in slices if there are many.
    public func adopt(_ limits: Limits, now: Instant) {
        input(now) {
            context.adopt(limits)
            $0.tables.rateLimiter.adopt()
            // Check waiting publishers against the new rates.
            $0.tables.rateLimiter.payWaiting($0.requests.publishing, now: now)
            $0.tables.peers.adopt(limits)
            $0.turn.scheduler.sweep(.settings, now: now)
        }
    }

    /// Replaces users and permissions. Streams that are no longer allowed end with REJECTED or PERMISSION_DENIED; an
    /// RSocket connection whose user is no longer accepted then ends too.
    public func reload(_ access: AccessTable, now: Instant) {
        input(now) {
            $0.tables.authorization.access = access
            $0.turn.scheduler.sweep(.permissions, now: now)
        }
    }

    /// Begins to shut down: no new connections, streams or messages are accepted. Subscriptions receive waiting
    /// messages for which they have credit. A connection is notified and closed once there is nothing more for it, or
    /// it has requested nothing for `Limits.askTime`.
    public func drain(now: Instant) {
        input(now) {
            context.draining = true
            $0.turn.scheduler.sweep(.drainingTopics, now: now)
            $0.tables.rateLimiter.payWaiting($0.requests.publishing, now: now)
            $0.turn.scheduler.sweep(.drainingConnections, now: now)
        }
        // Not at once: what other shards have in flight must arrive before a connection is considered done.
        parts.tables.timers.nextTick = now.monotonic + Timers.interval
    }

    // Other shards, the store, operators

    /// Messages from other shards, in the order in which each shard sent its own.
    public func receive(_ messages: [ShardMessage], now: Instant) {
        input(now) { $0.turn.dispatch.receive(messages, now: now) }
    }

    /// Restores the topics of this shard that the store has from an earlier run. Called before anything else.
    public func restore(_ topics: [StoredTopic], now: Instant) {
        input(now) { $0.output.ownership.restore(topics) }
    }

    /// Handles the store's progress with what `Effects.store` handed to it. Topics that no longer exist are ignored.
    public func stored(_ reports: [StoreReport], now: Instant) {
        input(now) { $0.output.ownership.stored(reports, now: now) }
    }

    /// Handles what the upstream reports about shared topics.
    public func upstream(_ reports: [UpstreamReport], now: Instant) {
        input(now) { $0.output.ownership.upstream(reports, now: now) }
    }

    /// Takes the state of the upstream. Must be called on the shards that `ownersOfUpstream` names when it has changed,
    /// and at once when the connection is made or lost.
    public func upstream(_ status: UpstreamStatus, now: Instant) {
        input(now) { $0.requests.statistics.take(status) }
    }

    /// The shards that show the state of the upstream in `$SYS.events` and `$SYS.stats`.
    public static func ownersOfUpstream(among shards: Int) -> Set<Int> {
        Set(SystemTopic.all.map { owner(of: $0, among: shards) })
    }

    /// Handles the store's answer to a read request in `Effects.store`. The answer is ignored if the topic no longer
    /// has subscribers.
    public func answer(_ request: HistoryRequest, _ answer: HistoryAnswer, now: Instant) {
        input(now) { $0.output.history.answer(request, answer, now: now) }
    }

    /// The store's answer to a search in `Effects.store`. It is ignored if the subscription has ended.
    /// - Parameter first: the first message at or after the time; nil if the store has none.
    public func found(_ first: SequenceNumber?, _ search: TimeSearch, now: Instant) {
        input(now) { $0.requests.subscribing.found(first, search, now: now) }
    }

    /// Answers a query of the admin listener through `Effects.answers`: at once, or, for the end of a stored topic,
    /// once the store has committed it.
    /// - Parameter job: identifies the query.
    public func answer(_ query: ShardQuery, job: UInt64, now: Instant) {
        input(now) { $0.requests.surveys.answer(query, job: job, now: now) }
    }

    /// Credentials in `Effects.logins` have been verified.
    public func authenticated(_ ticket: LoginTicket, _ outcome: LoginOutcome, now: Instant) {
        input(now) { $0.protocols.logins.authenticated(ticket, outcome, now: now) }
    }

    /// Counts a login, here or at the admin listener.
    public func count(_ result: LoginResult) { context.counters.count(result) }

    // Connections

    /// Like `admit`, but returns nil on refusal.
    public func open(peer: String, wireProtocol: WireProtocol, now: Instant) -> ConnectionID? {
        try? admit(peer: peer, wireProtocol: wireProtocol, now: now)
    }

    /// Admits a connection accepted from `peer` (an address as text, "127.0.0.1:50312"), which must speak
    /// `wireProtocol`.
    public func admit(peer: String, wireProtocol: WireProtocol, now: Instant) throws(ConnectionRefusal) -> ConnectionID
    {
        context.moment = now
        return try parts.protocols.inputs.admit(peer: peer, wireProtocol: wireProtocol, now: now)
    }

    /// The connection's TLS handshake has completed. Called once, before any of its bytes arrive.
    /// - Parameter certificate: the peer's certificate, if one was requested and the peer presented a trusted one.
    public func secured(_ id: ConnectionID, certificate: PeerCertificate?, now: Instant) {
        context.moment = now
        parts.protocols.inputs.secured(id, certificate: certificate, now: now)
    }

    /// The connection's TLS handshake failed, and the connection is closed.
    public func notSecured(_ id: ConnectionID, reason: String, now: Instant) {
        context.counters.handshakeFailures &+= 1
        lost(id, reason: reason, now: now)
    }

    /// Handles bytes that arrived. They are not kept beyond the call.
    public func receive(_ bytes: UnsafeRawBufferPointer, on id: ConnectionID, now: Instant) {
        input(now) { $0.protocols.inputs.receive(bytes, on: id, now: now) }
    }

    /// Ends the connection: the peer has sent a FIN and cannot request anything more.
    public func receiveEnd(on id: ConnectionID, now: Instant) {
        input(now) { $0.protocols.inputs.receiveEnd(on: id, now: now) }
    }

    /// Ends or detaches a connection whose socket is closed: nothing can be written to it.
    public func lost(_ id: ConnectionID, reason: String, now: Instant) {
        input(now) { $0.protocols.inputs.lost(id, reason: reason, now: now) }
    }

    /// The bytes to write next, in order, in at most as many pieces as `pieces` holds; not always everything. They are
    /// valid until the next input or `gather` for any connection: write them and call `wrote` before that. Returns the
    /// number of pieces; 0 if there is nothing to write.
    public func gather(_ id: ConnectionID, into pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>) -> Int {
        inputs.gather(id, into: pieces)
    }

    /// The socket took `count` of the gathered bytes. `blocked`: the socket takes no more for now; call `writable` when
    /// it does.
    public func wrote(_ count: Int, blocked: Bool, on id: ConnectionID, now: Instant) {
        input(now) { _ in inputs.wrote(count, blocked: blocked, on: id, now: now) }
    }

    /// A blocked socket is writable again.
    public func writable(_ id: ConnectionID, now: Instant) { input(now) { $0.protocols.inputs.writable(id, now: now) } }

    /// Receives a socket that some shard's `Effects.handovers` named. Returns the connection that now owns it. That
    /// connection may have had a different socket earlier, or be a new one that only receives an error and is closed.
    public func takeOver(_ handover: Handover, now: Instant) -> ConnectionID {
        input(now) { $0.protocols.resumption.takeOver(handover, now: now) }
    }

    // HTTP/1.1 connections: HTTP1Inputs.swift

    /// Treats a connection as HTTP/1.1, because its first bytes, none of which the engine has received, are not HTTP/2.
    public func speaksHTTP1(on id: ConnectionID, now: Instant) {
        context.moment = now
        parts.protocols.http1Inputs.speaksHTTP1(on: id, now: now)
    }

    /// Handles the head of a request that has arrived. The previous request must have ended.
    public func request(_ head: HTTP1Request, on id: ConnectionID, now: Instant) {
        input(now) { $0.protocols.http1Inputs.request(head, on: id, now: now) }
    }

    /// Handles more of a request's body. The bytes are not kept beyond the call.
    public func body(_ bytes: UnsafeRawBufferPointer, on id: ConnectionID, now: Instant) {
        input(now) { $0.protocols.http1Inputs.body(bytes, on: id, now: now) }
    }

    /// The request is complete.
    public func requestEnded(on id: ConnectionID, now: Instant) {
        input(now) { $0.protocols.http1Inputs.requestEnded(on: id, now: now) }
    }

    /// The answer, returned once, when it can be written. Nil while it is unknown, or while effects of the request
    /// still have to reach other shards; `Effects.flush` names the connection afterwards.
    /// - Parameter atOnce: a refusal need not wait for other shards.
    public func answer(on id: ConnectionID, atOnce: Bool, now: Instant) -> HTTP1Answer? {
        input(now) { $0.protocols.http1Inputs.answer(on: id, atOnce: atOnce, now: now) }
    }

    /// Moves the next bytes of the answer's body into `buffer`, which must not be empty. Not for streams.
    public func take(into buffer: UnsafeMutableRawBufferPointer, on id: ConnectionID, now: Instant) -> HTTP1Piece {
        input(now) { $0.protocols.http1Inputs.take(into: buffer, on: id, now: now) }
    }

    /// Ends an exchange: the answer has been written, or the request has failed.
    /// - Parameter isLast: nothing more follows on the connection, which stays open only until the client has read.
    public func exchangeOver(on id: ConnectionID, isLast: Bool, now: Instant) {
        input(now) { $0.protocols.http1Inputs.exchangeOver(on: id, isLast: isLast, now: now) }
    }

    /// Begins the stream of a connection whose socket libmicrohttpd has released: from now on `gather` returns
    /// what to write, and `receive` takes what arrives.
    /// - Parameter rest: bytes of earlier answers that still have to be written.
    public func beginStream(on id: ConnectionID, behind rest: UnsafeRawBufferPointer, now: Instant) {
        input(now) { $0.protocols.http1Inputs.beginStream(on: id, behind: rest, now: now) }
    }
}

// VirtualClient: what the workload asks of a client, in any protocol. A client sends what the workload requests, parses
// what arrives, and notifies its streams' ledgers.

import Core

/// A client with one connection. Its requests go to its wire at once; the broker reads them in its own time.
protocol VirtualClient: AnyObject {
    var wire: Wire { get }
    /// Whether either side has ended the connection.
    var isOver: Bool { get }
    /// The session that the client can resume on another wire; nil if it cannot.
    var session: SessionLedger? { get }
    /// Whether the client's wire is gone and it has not resumed on a new one.
    var isAway: Bool { get }
    /// How many messages the broker retains, and how many bytes it hands over to a connection at a time.
    var retain: Int { get }
    var output: Int { get }
    /// How many positions a subscription to a pattern may have.
    var matches: Int { get }

    func freshStream() -> UInt32
    /// Adds a stream's ledger, before its first frame.
    func add(_ ledger: StreamLedger)
    /// Notes the place of a message, which the client has learned from an acknowledgement.
    func learnt(_ message: Published)

    func subscribe(_ ledger: SubscriberLedger, n: Int)
    func request(_ n: Int, _ ledger: StreamLedger)
    func cancel(_ ledger: StreamLedger)
    func fireAndForget(_ topic: String, _ number: Int)
    func publish(_ topic: String, _ ledger: AcknowledgedLedger)
    func open(_ ledger: ChannelLedger, _ route: String, first: Int, n: Int)
    func send(_ numbers: [Int], _ ledger: ChannelLedger)
    func complete(_ ledger: ChannelLedger)
    func fail(_ ledger: ChannelLedger, _ reason: String)
    func control(_ call: TopicCall, of topic: String, _ ledger: CallLedger)
    func list(_ route: String, _ ledger: ListLedger, n: Int)

    /// Reads at most this many of the bytes that have arrived.
    func read(_ most: Int)
    /// Loses the connection: no more bytes go either way.
    func lose()
    /// From now on, makes the client not resume when it loses its wire.
    func leaves()

    // Abilities that depend on the protocol

    /// Whether the protocol's windows may delay what is handed over to the client.
    var isPaced: Bool { get }
    /// Whether anything not yet sent to the client on a stream is discarded when it cancels that stream.
    var givesUp: Bool { get }
    /// Bytes that the client cannot send because of the broker's windows.
    var unsent: Int { get }
    /// Whether the client supports fire-and-forget publishes.
    var canFire: Bool { get }
    /// Removes options that the protocol does not support for subscriptions.
    func adapt(_ request: inout SubscribeRequest)
    /// Sends a subscription's last request: the subscription gets what it requested and then ends.
    func halfClose(_ ledger: SubscriberLedger) -> Bool
    /// Does something unrelated to any request.
    func stir()
    /// Announces that the client is ending the connection.
    func endByGoAway() -> Bool
    /// From now on, does nothing that delays the broker.
    func calm()
}

/// Control calls that name a topic.
enum TopicCall: CaseIterable { case complete, fail, delete }

extension VirtualClient {
    var isPaced: Bool { false }
    var givesUp: Bool { false }
    var unsent: Int { 0 }
    var canFire: Bool { true }
    func adapt(_ request: inout SubscribeRequest) {}
    func halfClose(_ ledger: SubscriberLedger) -> Bool { false }
    func stir() {}
    func endByGoAway() -> Bool { false }
    func calm() {}

    var session: SessionLedger? { nil }
    var isAway: Bool { false }
    func leaves() {}
    /// Bytes that may be sent to the client before it acknowledges some.
    func window(_ connection: Inspection.Connection) -> Int { session?.window(connection) ?? .max }
    /// The connection's place in the broker, regardless of its wire.
    var home: (shard: Int, id: ConnectionID) { session?.home ?? (wire.shard, wire.id) }
}

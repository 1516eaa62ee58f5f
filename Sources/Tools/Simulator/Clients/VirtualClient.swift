// VirtualClient: what the workload asks of a client, whatever protocol it speaks. It sends what it is told to, takes
// apart what comes, and tells the ledgers of its streams.

import Core

/// A client with one connection. What it is told to do goes to its wire at once; the broker reads it in its own time.
protocol VirtualClient: AnyObject {
    var wire: Wire { get }
    /// The connection has ended, by either side.
    var isOver: Bool { get }
    /// What it can resume by another wire; nil if it cannot.
    var session: SessionLedger? { get }
    /// Its wire is gone, and it has not come back by another one.
    var isAway: Bool { get }
    /// Messages that the broker retains, and bytes that it hands over to a connection at a time.
    var retain: Int { get }
    var output: Int { get }

    func freshStream() -> UInt32
    /// A stream's ledger, before its first frame.
    func add(_ ledger: StreamLedger)
    /// A message's place was acknowledged to it.
    func learnt(_ message: Published)

    func subscribe(_ ledger: SubscriberLedger, n: Int)
    func request(_ n: Int, _ ledger: StreamLedger)
    func cancel(_ ledger: StreamLedger)
    func fire(_ topic: String, _ number: Int)
    func publish(_ topic: String, _ ledger: AcknowledgedLedger)
    func open(_ ledger: ChannelLedger, _ route: String, first: Int, n: Int)
    func send(_ numbers: [Int], _ ledger: ChannelLedger)
    func complete(_ ledger: ChannelLedger)
    func fail(_ ledger: ChannelLedger, _ reason: String)
    func control(_ call: TopicCall, of topic: String, _ ledger: CallLedger)
    func list(_ route: String, _ ledger: ListLedger, n: Int)

    /// Takes at most so many of the bytes that have arrived.
    func read(_ most: Int)
    /// No bytes go either way from now on.
    func lose()
    /// What it loses from now on it does not come back for.
    func leaves()

    // What some protocols have, and others not

    /// Windows of the protocol may hold up what is handed over to it.
    var isPaced: Bool { get }
    /// What it is to be sent on a stream, and has not been sent, is given up when it cancels that.
    var givesUp: Bool { get }
    /// Bytes that it has to send, and that the broker's windows do not let go.
    var unsent: Int { get }
    /// Single messages may be published without an answer.
    var canFire: Bool { get }
    /// Leaves out what a subscription cannot ask for.
    func adapt(_ request: inout SubscribeRequest)
    /// A subscription's last request has been sent: it gets what it asked for, and then ends.
    func halfClose(_ ledger: SubscriberLedger) -> Bool
    /// Does something that no stream asks for.
    func stir()
    /// Says that it ends the connection.
    func sayGoodbye() -> Bool
    /// From now on nothing that it does holds the broker up.
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
    func sayGoodbye() -> Bool { false }
    func calm() {}

    var session: SessionLedger? { nil }
    var isAway: Bool { false }
    func leaves() {}
    /// Bytes that may be sent to it before it acknowledges some.
    func window(_ connection: Inspection.Connection) -> Int { session?.window(connection) ?? .max }
    /// Where the broker has the connection, whatever its wire is.
    var home: (shard: Int, id: ConnectionID) { session?.home ?? (wire.shard, wire.id) }
}

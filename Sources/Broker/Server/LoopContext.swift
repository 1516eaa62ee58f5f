// LoopContext: what the loops of a broker share, and the items that other threads send them.

import Core
import EventLoop
import Replay
import Store
import TLS

/// Items that other threads put into a loop's inbox.
enum InboxItem: Sendable {
    /// Messages from another shard, as one batch.
    case messages([ShardMessage])
    /// An accepted connection; the loop owns its socket.
    case accepted(fd: Int32, peer: String, wireProtocol: WireProtocol, isSecure: Bool = false)
    /// A socket that moves to a connection of this loop, which owns it.
    case handedOver(MovedSocket, Handover)
    /// The outcome of a login.
    case authenticated(LoginTicket, LoginOutcome)
    /// The result of a login at the admin listener, to be counted with the others.
    case login(LoginResult)
    /// New permissions.
    case access(AccessTable)
    /// New limits.
    case limits(Limits)
    /// Drain; `Acceptor.Command.idle` must be sent once no connections are left.
    case drain
    /// What became of a loop's next submissions to the store, in order.
    case stored([StoreOutcome])
    /// What the upstream reports, and how many bytes that are.
    case upstream([UpstreamReport], size: Int)
    /// The state of the upstream, for the shards that show it.
    case upstreamStatus(UpstreamStatus)
    /// The store's answer to a read.
    case history(HistoryRequest, HistoryAnswer)
    /// The first message that a search in the store has found.
    case found(SequenceNumber?, TimeSearch)
    /// A query of the admin thread, to be answered into its inbox.
    case query(job: UInt64, ShardQuery)
    /// A probe from the watchdog; `LoopContext.pulse` must be answered.
    case ping
    /// End the thread at once.
    case stop
}

/// A socket on its way from one loop to another.
struct MovedSocket: @unchecked Sendable {
    var fd: Int32
    /// The TLS stream, if any.
    var tls: TLSStream?
}

/// What the loops of a broker share.
struct LoopContext: Sendable {
    var limits: Limits
    /// The memory budget of all logs and queues together.
    var memory: MemoryBudget
    /// Counts over all shards.
    var quotas = Quotas()
    /// By shard.
    var inboxes: [Inbox<InboxItem>]
    var acceptor: Inbox<Acceptor.Command>
    /// Nil if there is no admin listener.
    var admin: Inbox<AdminItem>?
    var connections: ConnectionCount
    /// How the limit on open files is divided.
    var files = FileShares.unlimited
    /// Checks credentials; without it, all logins fail.
    var logins: LoginService?
    /// Keeps durable and relaxed topics; nil if there are none.
    var store: StoreService?
    /// Connects shared topics to NATS; nil if there are none.
    var upstream: UpstreamService?
    /// Whether the store takes messages.
    var storeHealth = StoreHealth()
    /// The initial permissions.
    var access = AccessTable.open
    var log: Log
    /// Log records that any client can cause.
    var frequent = FrequentRecords()
    var reloads = ReloadCount()
    /// Counts the streams and connections that ended because of changed permissions.
    var reviews = Reviews()
    /// The TLS configuration of listeners that use TLS.
    var tls: TLSServer?
    /// The watchdog's probe, answered by shards and acceptor.
    var pulse = Pulse()
}

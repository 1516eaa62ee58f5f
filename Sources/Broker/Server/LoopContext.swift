// LoopContext: what the loops of one broker have in common, and what other threads tell them.

import Core
import EventLoop
import TLS

/// What other threads put into a loop's inbox.
enum InboxItem: Sendable {
    /// Messages from another shard, as one batch.
    case mail([ShardMessage])
    /// A connection that was accepted; the loop owns the socket from here.
    case accepted(fd: Int32, peer: String, wireProtocol: WireProtocol, isSecure: Bool = false)
    /// A socket that goes over to a connection here; the loop owns it from here.
    case handedOver(MovedSocket, Handover)
    /// What became of credentials.
    case authenticated(LoginTicket, LoginOutcome)
    /// What came of a login at the admin listener, to be counted with the others.
    case login(LoginResult)
    /// Who may do what from now on.
    case access(AccessTable)
    /// What the engine is bounded by from now on.
    case limits(Limits)
    /// Shut down gently: `Acceptor.Command.idle` is owed once no connection is left.
    case drain
    /// A question of the admin's, to be answered into its inbox.
    case inquiry(job: UInt64, ShardQuery)
    /// Is anybody there? `LoopContext.pulse` is to be answered.
    case ping
    /// End the thread now.
    case stop
}

/// A socket on its way from one loop to another, which it belongs to one after the other.
struct MovedSocket: @unchecked Sendable {
    var fd: Int32
    /// What it reads and writes by, if not in the clear.
    var tls: TLSStream?
}

/// What the loops of one broker have in common.
struct LoopContext: Sendable {
    var limits: Limits
    /// What all logs and queues together may hold.
    var memory: MemoryBudget
    /// What is counted over all shards.
    var quotas = Quotas()
    /// By shard.
    var inboxes: [Inbox<InboxItem>]
    var acceptor: Inbox<Acceptor.Command>
    /// Nil without an admin listener.
    var admin: Inbox<AdminItem>?
    var connections: ConnectionCount
    /// How the limit on open files is divided.
    var files = FileShares.unlimited
    /// Who looks at credentials; without it they cannot be looked at.
    var logins: LoginService?
    /// Who may do what at the start.
    var access = AccessTable.open
    var log: Log
    /// Lines of it that anybody can cause.
    var frequent = FrequentRecords()
    var reloads = ReloadCount()
    /// What other permissions ended.
    var reviews = Reviews()
    /// What those get whose listener speaks TLS.
    var tls: TLSServer?
    /// Answered by shards and acceptor.
    var pulse = Pulse()
}

// Sessions: connections that another socket may resume, across all shards of a broker. The table is used when a
// connection is set up or resumed, never for a message.

import Synchronization

/// What makes a connection resumable. The token is the client's secret: anyone who knows it can take the connection
/// over.
final class Session {
    let token: [UInt8]
    /// Where the user's sessions are counted.
    let account: Account?
    /// When the session lost its socket; nil while it has one.
    var detachedAt: UInt64?
    /// When the peer was asked which position it has received, if it has not answered yet.
    var askedAt: UInt64?
    /// The position up to which the peer has confirmed the broker's output.
    var reported: UInt64 = 0
    /// Whether the resume buffer is full. Nothing more is then handed over until the peer acknowledges some of it.
    var isFull = false

    init(token: [UInt8], account: Account?) {
        self.token = token
        self.account = account
    }
}

/// Where a session lives.
struct SessionPlace: Sendable, Equatable {
    var shard: Int
    var connection: ConnectionID
}

/// The location of each session, across all shards, by token.
final class SessionTable: @unchecked Sendable {
    enum Entry: Equatable { case entered, taken, full }

    private let lock = Lock()
    // Accessed only under the lock.
    private var places: [[UInt8]: SessionPlace] = [:]

    /// Adds a session unless its token is in use or there are already `limit` sessions.
    func enter(_ token: [UInt8], _ place: SessionPlace, limit: Int) -> Entry {
        lock.with {
            guard places[token] == nil else { return .taken }
            guard places.count < limit else { return .full }
            places[token] = place
            return .entered
        }
    }

    func find(_ token: [UInt8]) -> SessionPlace? { lock.with { places[token] } }

    func remove(_ token: [UInt8]) { lock.with { places[token] = nil } }

    var count: Int { lock.with { places.count } }
}

/// A socket that moves to the session its client named, on whichever shard that is. `Shard.takeOver` takes the
/// handover.
public struct Handover: Sendable {
    /// The connection as which the socket was opened; the engine no longer knows it.
    public var from: ConnectionID
    /// The index of the shard that takes over the socket.
    public var shard: Int
    var session: ConnectionID
    /// The position up to which the client has received, and the first position that it can still resend.
    var lastReceivedServerPosition: UInt64
    var firstAvailableClientPosition: UInt64
    /// The bytes that the client sent after RESUME.
    var rest: [UInt8]
    var peer: String
    var certificate: PeerCertificate?
    var isSecured: Bool
}

// Sessions: connections that may be resumed by another socket, over all shards of a broker. Looked up when a connection
// is set up or resumed, never for a message.

import Synchronization

/// What makes a connection one that can be resumed. The token is a secret of its client: whoever knows it can take the
/// connection over.
final class Session {
    let token: [UInt8]
    /// Where its user's sessions are counted.
    let account: Account?
    /// Since when it has no socket; nil while it has one.
    var detachedAt: UInt64?
    /// Since when the peer has been asked what it has, and has not told anything.
    var askedAt: UInt64?
    /// As far as where it said last that it has what was sent.
    var told: UInt64 = 0
    /// No messages are handed over before it does.
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

/// Where the sessions of all shards live, by their tokens.
final class SessionTable: @unchecked Sendable {
    enum Entry: Equatable { case entered, taken, full }

    private let lock = Lock()
    // Only touched under the lock.
    private var places: [[UInt8]: SessionPlace] = [:]

    /// Enters a session, if there is none of that token and fewer than `limit` in all.
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

/// A socket that goes over to the session which its client has named, on whichever shard that is. `Shard.takeOver`
/// takes it.
public struct Handover: Sendable {
    /// The connection that the socket was opened as; the engine has forgotten it.
    public var from: ConnectionID
    /// The index of the shard that is to take it.
    public var shard: Int
    var session: ConnectionID
    /// As far as which the client has what was sent to it, and from where on it has what it sent.
    var lastReceivedServerPosition: UInt64
    var firstAvailableClientPosition: UInt64
    /// What it sent behind RESUME.
    var rest: [UInt8]
    var peer: String
    var certificate: PeerCertificate?
    var isSecured: Bool
}

// ShardLoop+Sockets: the events that a loop waits for on a connection's socket, and how the loop closes a socket.

import Core
import EventLoop
import Glibc
import TLS

extension ShardLoop {
    func watch(_ id: ConnectionID, _ connection: Connection) {
        var interest: Interest = []
        if !connection.paused, !connection.ended { interest.insert(.read) }
        if connection.blocked { interest.insert(.write) }
        do throws(SystemError) {
            try poller.modify(connection.fd, token: Token.connection(id).rawValue, interest: interest)
        } catch {
            preconditionFailure("\(error)")
        }
    }

    /// Closes the sending side of a connection whose peer may still be sending.
    func linger(_ fd: Int32, _ tls: TLSStream? = nil) {
        lingering.linger(fd, tls, until: now.monotonic + context.limits.closeTime, poller)
    }

    func lose(_ id: ConnectionID, error: Int32) {
        guard let connection = connections.remove(id) else { return }
        if let micro = connection.micro { micro.daemon.drop(micro) } else { close(connection.fd) }
        context.connections.remove()
        let reason = connection.tls?.failure ?? (error == 0 ? "the peer disconnected" : SystemError.text(of: error))
        shard.lost(id, reason: reason, now: now)
    }
}

// ShardLoop+Resuming: moves sockets to the loop of the connection that their clients resume.

import Core
import EventLoop
import Glibc

extension ShardLoop {
    /// Passes on sockets that the engine has released. Called at once, so that nothing more is read from them here.
    func sendHandovers() {
        var handovers: [Handover] = []
        swap(&handovers, &shard.effects.handovers)
        for handover in handovers {
            guard let connection = connections.remove(handover.from) else { continue }
            do throws(SystemError) {
                try poller.remove(connection.fd)
            } catch {
                preconditionFailure("\(error)")
            }
            let socket = MovedSocket(fd: connection.fd, tls: connection.tls)
            context.inboxes[handover.shard].push(.handedOver(socket, handover))
        }
    }

    /// Assigns arrived sockets to their connections.
    func takeArrivals() {
        var due: [(MovedSocket, Handover)] = []
        swap(&due, &arrivals)
        for (socket, handover) in due {
            // The engine may have just closed the socket that the arriving one replaces.
            carryOut()
            let id = shard.takeOver(handover, now: now)
            if let old = connections.remove(id) {
                context.connections.remove()
                old.tls?.end()
                close(old.fd)
            }
            connections.insert(id, fd: socket.fd)
            connections[id]?.pointee.tls = socket.tls
            do throws(SystemError) {
                try poller.add(socket.fd, token: Token.connection(id).rawValue, interest: .read)
            } catch {
                lose(id, error: error.code)
                continue
            }
            if socket.tls?.hasInput == true { unread.append(id) }
        }
    }

    /// Closes a socket that arrived too late.
    func discard(_ socket: MovedSocket) {
        close(socket.fd)
        context.connections.remove()
    }
}

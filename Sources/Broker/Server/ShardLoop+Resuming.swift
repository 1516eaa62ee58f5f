// ShardLoop+Resuming: sockets that go over to the connection which their clients resume, from loop to loop.

import Core
import EventLoop
import Glibc

extension ShardLoop {
    /// Sends sockets on that the engine is done with. At once, so that nothing more is read from them here.
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

    /// Gives sockets that arrived to their connections.
    func takeArrivals() {
        var due: [(MovedSocket, Handover)] = []
        swap(&due, &arrivals)
        for (socket, handover) in due {
            // The engine may have just given up the socket that this one takes the place of.
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
            if socket.tls?.hasNews == true { unread.append(id) }
        }
    }

    /// Closes a socket that has come too late.
    func discard(_ socket: MovedSocket) {
        close(socket.fd)
        context.connections.remove()
    }
}

// ShardLoop+HTTP1: connections of the HTTP listener until their first bytes tell the version, and those of HTTP/1.1,
// whose sockets a library has.
//
//     undecided ──"PRI "──▶ framed
//         └───anything else──▶ http1

import Core
import EventLoop
import Glibc

extension ShardLoop {
    func handleHTTP(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>, _ ready: Readiness) {
        if case .undecided = connection.pointee.kind { return decide(id, connection) }
        // The library does not watch the socket of a connection that waits.
        if !ready.isDisjoint(with: .dead) {
            unwatch(connection.pointee.fd)
            lose(id, error: Socket.error(connection.pointee.fd))
        } else if ready.contains(.ended) {
            connection.pointee.ended = true
            watch(connection.pointee.fd, id, [])
            ended.append(id)
            shard.receiveEnd(on: id, now: now)
        }
    }

    /// The library takes a read that is shorter than its buffer for all there is, and never sees an end that came with
    /// the last bytes. This tells it again, until it has closed the connection. There is nothing more to be read than
    /// what is there.
    func tellEnds() {
        ended.removeAll { id in
            guard let connection = connections[id] else { return true }
            Socket.shutdownRead(connection.pointee.fd)
            return false
        }
    }

    /// Looks at the first bytes, which stay where they are. HTTP/2's preface begins with a method that HTTP/1.1 keeps
    /// free for it (RFC 9113, 11.6), and no other has its first four bytes.
    private func decide(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>) {
        let fd = connection.pointee.fd
        let preface: StaticString = "PRI "
        withUnsafeTemporaryAllocation(byteCount: preface.utf8CodeUnitCount, alignment: 1) { bytes in
            guard case .bytes(let count) = Socket.peek(fd, into: bytes) else {
                // An end, or an error: reading tells which.
                return read(id, connection)
            }
            for index in 0..<count where bytes[index] != preface.utf8Start[index] { return adoptHTTP1(id, connection) }
            if count < bytes.count, !connection.pointee.paused {
                // Not again for each byte; only for all of them, or the end.
                connection.pointee.paused = true
                return Socket.waitForBytes(Int32(bytes.count), on: fd)
            }
            connection.pointee.paused = false
            Socket.waitForBytes(1, on: fd)
            connection.pointee.kind = .framed
            read(id, connection)
        }
    }

    func adoptHTTP1(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>) {
        let fd = connection.pointee.fd
        Socket.waitForBytes(1, on: fd)
        guard let driver = startHTTP1() else { return lose(id, error: ENFILE) }
        connection.pointee.paused = false
        connection.pointee.kind = .http1
        watch(fd, id, .end)
        // There is nothing to ask a silent client for a sign of life by.
        Socket.keepAlive(fd)
        shard.speaksHTTP1(on: id, now: now)
        guard let micro = driver.add(fd, id: id) else {
            // Its socket is closed already, and perhaps `closes` was told.
            guard connections.remove(id) != nil else { return }
            context.connections.remove()
            return shard.lost(id, reason: "HTTP/1.1 cannot be served now", now: now)
        }
        connection.pointee.micro = micro
    }

    private func startHTTP1() -> HTTP1Driver<Shard>? {
        if let http1 { return http1 }
        guard let driver = HTTP1Driver(loop: self, shard: shard) else { return nil }
        do throws(SystemError) {
            try poller.add(driver.descriptor, token: Token.micro.rawValue, interest: .read)
        } catch {
            driver.stop()
            return nil
        }
        http1 = driver
        return driver
    }

    /// The library closes a connection's socket right after this. What the client still sends would make the kernel
    /// reset the connection, and take away what the client has not read: so the socket lingers, by another descriptor.
    func closes(_ micro: MicroConnection) {
        // Also a descriptor that is closed stays watched as long as its socket has another.
        unwatch(micro.fd)
        var byte: UInt8 = 0
        let rest = withUnsafeMutableBytes(of: &byte) { Socket.peek(micro.fd, into: $0) }
        switch rest {
        case .bytes, .blocked:
            if phase != .stopped, let copy = Socket.duplicate(micro.fd) { lingerCopy(copy) }
        case .end, .failed: break
        }
        guard connections[micro.id] != nil, connections.remove(micro.id) != nil else { return }
        context.connections.remove()
        shard.lost(micro.id, reason: "closed", now: now)
    }

    private func lingerCopy(_ fd: Int32) {
        do throws(SystemError) {
            try poller.add(fd, token: 0, interest: [])
            linger(fd)
        } catch {
            close(fd)
        }
    }

    private func watch(_ fd: Int32, _ id: ConnectionID, _ interest: Interest) {
        // It fails for a descriptor that is not watched, which is none of a connection.
        do throws(SystemError) { try poller.modify(fd, token: Token.connection(id).rawValue, interest: interest) } catch
        {
        }
    }

    private func unwatch(_ fd: Int32) {
        // It fails for one that is not watched any more.
        do throws(SystemError) { try poller.remove(fd) } catch {}
    }
}

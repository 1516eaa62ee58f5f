// ShardLoop+HTTP1: connections of the HTTP listener until their first bytes tell the version, and those of HTTP/1.1,
// whose sockets a library has until they have a stream.
//
//     undecided ──"PRI "──▶ framed ◀───────────────────stream──┐
//         └───anything else──▶ newcomer (until its turn)──▶ http1

import Core
import EventLoop
import Glibc

extension ShardLoop {
    func handleHTTP(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>, _ ready: Readiness) {
        switch connection.pointee.kind {
        case .undecided: return decide(id, connection)
        case .newcomer where ready.isDisjoint(with: .dead): return
        default: break
        }
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
    /// what is there. Some at a time, in turn.
    func tellEnds() {
        let told = Array(ended.prefix(ShardLoop.endsAtATime))
        ended.removeFirst(told.count)
        for id in told {
            guard let connection = connections[id], connection.pointee.micro != nil else { continue }
            Socket.shutdownRead(connection.pointee.fd)
            ended.append(id)
        }
    }

    private static var endsAtATime: Int { 1024 }

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
            if let answer = CleartextAnswer.needsHTTP(bytes[0], isAdmin: false) {
                return refuse(id, fd, answer)
            }
            for index in 0..<count where bytes[index] != preface.utf8Start[index] { return admitHTTP1(id, connection) }
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

    /// The client is at the wrong port: it is told so in its own protocol.
    private func refuse(_ id: ConnectionID, _ fd: Int32, _ answer: [UInt8]) {
        guard connections.remove(id) != nil else { return }
        context.connections.remove()
        // Nothing was written before, so the socket takes it whole.
        _ = answer.withUnsafeBytes { Socket.write(fd, $0) }
        linger(fd)
        shard.lost(id, reason: "it does not speak HTTP", now: now)
    }

    /// Connections that come faster than they are served wait, in the order of their coming: otherwise they would pile
    /// up in the library, each with its memory, where those that are gone already are not told from the others.
    private func admitHTTP1(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>) {
        connection.pointee.kind = .newcomer
        watch(connection.pointee.fd, id, [])
        newcomers.append(id)
    }

    /// Newcomers have their turn: one of them, however busy the others keep the loop.
    func adoptNewcomers() {
        let most = HTTP1Drivers<Shard>.newcomers
        var left = most
        while left > 0, !http1.isBusy, left == most || !isTurnOver, let id = newcomers.popFirst() {
            left -= 1
            guard let connection = connections[id], case .newcomer = connection.pointee.kind else { continue }
            adoptHTTP1(id, connection)
        }
    }

    func adoptHTTP1(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>) {
        let fd = connection.pointee.fd
        Socket.waitForBytes(1, on: fd)
        guard let driver = http1.withRoom(self, shard) else { return lose(id, error: ENFILE) }
        connection.pointee.paused = false
        connection.pointee.kind = .http1
        watch(fd, id, .end)
        // There is nothing to ask a silent client for a keepalive by.
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

    /// The broker shuts down, and a connection is to be closed: the request that a client has sent is refused, where
    /// nobody has read it, or the library has read its beginning.
    func answerUnread(_ connection: Connection) {
        switch connection.kind {
        case .undecided, .newcomer: break
        case .http1 where connection.micro?.stage == .idle: break
        case .http1, .framed, .handshaking: return
        }
        let fd = connection.micro?.fd ?? connection.fd
        withUnsafeTemporaryAllocation(byteCount: CleartextAnswer.preface.count, alignment: 1) { bytes in
            var first: [UInt8] = []
            if case .bytes(let count) = Socket.peek(fd, into: bytes) {
                first = Array(bytes[..<count])
            } else if connection.micro?.hasRequested != false {
                return
            }
            // Nothing that the client has not read was written before, so the socket takes it whole.
            _ = CleartextAnswer.http(first, .draining).withUnsafeBytes { Socket.write(fd, $0) }
        }
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

    /// The answer of a connection is a stream, which the library has no part in.
    func takeOver(_ micro: MicroConnection) {
        let id = micro.id
        guard let connection = connections[id], connection.pointee.micro === micro else { return }
        unwatch(micro.fd)
        if let relay = connection.pointee.relay { return takeOver(id, connection, relay: relay) }
        guard let fd = micro.daemon.release(micro) else { return lose(id, error: EMFILE) }
        connection.pointee.micro = nil
        connection.pointee.fd = fd
        connection.pointee.kind = .framed
        do throws(SystemError) {
            try poller.add(fd, token: Token.connection(id).rawValue, interest: .read)
        } catch {
            return lose(id, error: error.code)
        }
        // The library may have had the kernel wait for more.
        Socket.noDelay(fd)
        shard.beginStream(on: id, behind: UnsafeRawBufferPointer(start: nil, count: 0), now: now)
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

// ShardLoop+HTTP1: connections of the HTTP listener until their first bytes show the version, and HTTP/1.1 connections,
// whose sockets belong to a library until they have a stream.
//
//     undecided ──"PRI "──▶ framed ◀───────────────────stream──┐
//         └───anything else──▶ newcomer (queued)──▶ http1

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
        // The library does not watch the socket of a suspended connection.
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

    /// Repeats ends of stream until the library has closed the connections: it takes a read that is shorter than its
    /// buffer for all data, and never sees an end of stream that came with the last bytes. No more data can arrive
    /// after the end. Handles a limited number of connections per call, round robin.
    func reportEnds() {
        let batch = Array(ended.prefix(ShardLoop.endsAtATime))
        ended.removeFirst(batch.count)
        for id in batch {
            guard let connection = connections[id], connection.pointee.micro != nil else { continue }
            Socket.shutdownRead(connection.pointee.fd)
            ended.append(id)
        }
    }

    private static var endsAtATime: Int { 1024 }

    /// Peeks at the first bytes. HTTP/2's preface begins with a method that HTTP/1.1 reserves for it (RFC 9113, 11.6),
    /// and no other method has the same first four bytes.
    private func decide(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>) {
        let fd = connection.pointee.fd
        let preface: StaticString = "PRI "
        withUnsafeTemporaryAllocation(byteCount: preface.utf8CodeUnitCount, alignment: 1) { bytes in
            guard case .bytes(let count) = Socket.peek(fd, into: bytes) else {
                // An end of stream or an error: reading shows which.
                return read(id, connection)
            }
            if let answer = CleartextAnswer.needsHTTP(bytes[0], isAdmin: false) {
                return refuse(id, fd, answer)
            }
            for index in 0..<count where bytes[index] != preface.utf8Start[index] { return admitHTTP1(id, connection) }
            if count < bytes.count, !connection.pointee.paused {
                // Wakes up only when all bytes are there, or at the end of stream.
                connection.pointee.paused = true
                return Socket.waitForBytes(Int32(bytes.count), on: fd)
            }
            connection.pointee.paused = false
            Socket.waitForBytes(1, on: fd)
            connection.pointee.kind = .framed
            read(id, connection)
        }
    }

    /// Refuses a client that uses the wrong port, with an error in its own protocol.
    private func refuse(_ id: ConnectionID, _ fd: Int32, _ answer: [UInt8]) {
        guard connections.remove(id) != nil else { return }
        context.connections.remove()
        // Nothing has been written yet, so the socket accepts all of it.
        _ = answer.withUnsafeBytes { Socket.write(fd, $0) }
        linger(fd)
        shard.lost(id, reason: "the client does not speak HTTP", now: now)
    }

    /// Queues connections that arrive faster than they are served. Otherwise they would pile up in the library, each
    /// with its memory, and those already closed by their clients could not be distinguished from the others.
    private func admitHTTP1(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>) {
        connection.pointee.kind = .newcomer
        watch(connection.pointee.fd, id, [])
        newcomers.append(id)
    }

    /// Adopts queued connections: at least one, however busy the loop is.
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
        // HTTP/1.1 has no keepalive message to probe a silent client with.
        Socket.keepAlive(fd)
        shard.speaksHTTP1(on: id, now: now)
        guard let micro = driver.add(fd, id: id) else {
            // The connection's socket has been closed, and `closes` may have been called.
            guard connections.remove(id) != nil else { return }
            context.connections.remove()
            return shard.lost(id, reason: "HTTP/1.1 cannot be served now", now: now)
        }
        connection.pointee.micro = micro
    }

    /// Refuses the request of a connection that is closed during a drain, if the request has not been read, or the
    /// library has read only its beginning.
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
            // The client has read everything written before, so the socket accepts all of it.
            _ = CleartextAnswer.http(first, .draining).withUnsafeBytes { Socket.write(fd, $0) }
        }
    }

    /// Forgets a connection just before the library closes its socket. If the client sent more, the kernel would reset
    /// the connection and discard what the client has not read. So the socket lingers under another descriptor.
    func closes(_ micro: MicroConnection) {
        // A closed descriptor stays watched as long as its socket has another descriptor.
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

    /// Takes over a connection whose response is a stream, which the library does not handle.
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
        // The library may have made the kernel delay output.
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
        // Fails for a descriptor that is not watched, which then does not belong to a connection.
        do throws(SystemError) { try poller.modify(fd, token: Token.connection(id).rawValue, interest: interest) } catch
        {
        }
    }

    private func unwatch(_ fd: Int32) {
        // Fails for a descriptor that is no longer watched.
        do throws(SystemError) { try poller.remove(fd) } catch {}
    }
}

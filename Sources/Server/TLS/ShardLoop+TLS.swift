// ShardLoop+TLS: connections of a listener that speaks TLS, until their handshake is done; and those of HTTP/1.1, whose
// library gets a socket of its own.
//
//     handshaking ──"h2", or RSocket──▶ framed, by a TLSStream
//         ├────────anything else of HTTP──▶ http1, by a Relay
//         └────────failed, not TLS, too late──▶ gone

import Core
import EventLoop
import Glibc
import TLS

extension ShardLoop {
    /// Goes on with a handshake, unless this turn has spent enough on them: then it comes up again.
    func shakeHands(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>, _ face: Face) {
        guard handshakeTime < Limits.handshakeQuantum, let server = context.tls else { return }
        let began = Clock.monotonic()
        defer { handshakeTime += Clock.monotonic() - began }
        let fd = connection.pointee.fd
        if connection.pointee.tls == nil {
            guard beginsTLS(id, fd, face) else { return }
            do throws(TLSError) {
                connection.pointee.tls = try server.accept(fd, face == .http ? .http : .none)
            } catch {
                return refuseHandshake(id, error.description)
            }
        }
        guard let tls = connection.pointee.tls else { return }
        switch tls.handshake() {
        case .done: secured(id, connection, tls, face)
        case .wantsRead: handshake(id, connection, writes: false)
        case .wantsWrite: handshake(id, connection, writes: true)
        case .failed: refuseHandshake(id, tls.failure ?? "the peer hung up")
        }
    }

    private func handshake(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>, writes: Bool) {
        guard connection.pointee.blocked != writes else { return }
        connection.pointee.blocked = writes
        watch(id, connection.pointee)
    }

    /// The first byte of TLS tells a handshake (RFC 8446, 5.1), and is none that the protocols here begin with. Who did
    /// not know of TLS is told of it, in its own protocol.
    private func beginsTLS(_ id: ConnectionID, _ fd: Int32, _ face: Face) -> Bool {
        var first: UInt8 = 0
        switch withUnsafeMutableBytes(of: &first, { Socket.peek(fd, into: $0) }) {
        case .bytes where first == 22: return true
        case .bytes:
            // Nothing was written before, so the socket takes it whole.
            _ = CleartextAnswer.bytes(face).withUnsafeBytes { Socket.write(fd, $0) }
            refuseHandshake(id, "the peer does not speak TLS")
        case .blocked: break
        case .end: refuseHandshake(id, "the peer hung up")
        case .failed(let error): refuseHandshake(id, SystemError.text(of: error))
        }
        return false
    }

    /// The connection is over before it began.
    func refuseHandshake(_ id: ConnectionID, _ reason: String) {
        guard let connection = connections.remove(id) else { return }
        context.connections.remove()
        let peer = Socket.peerAddress(connection.fd)?.description ?? "?"
        failedHandshakes.count("\(reason) (\(peer))")
        shard.notSecured(id, reason: reason, now: now)
        // The peer is to read why.
        linger(connection.fd)
    }

    private func secured(
        _ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>, _ tls: TLSStream, _ face: Face
    ) {
        let certificate = tls.peerCertificate.map { PeerCertificate(user: $0.user, subject: $0.subject) }
        if context.log.isEnabled(.debug) {
            context.log.write(
                .debug, "TLS agreed on",
                [
                    ("peer", Socket.peerAddress(connection.pointee.fd)?.description ?? "?"), ("version", tls.version),
                    ("cipher", tls.cipher), ("kernel", String(tls.usesKernel)),
                    ("certificate", certificate?.subject ?? ""),
                ])
        }
        shard.secured(id, certificate: certificate, now: now)
        connection.pointee.blocked = false
        connection.pointee.kind = .framed
        // HTTP/2 is agreed on over TLS, and not begun without that (RFC 9113, 3.2).
        if face == .http, tls.agreed != "h2" { return relay(id, connection, tls) }
        watch(id, connection.pointee)
    }

    /// Reads what the poller does not know of, after everybody else's.
    func readUnread() {
        var due: [ConnectionID] = []
        swap(&due, &unread)
        for id in due {
            guard let connection = connections[id], !connection.pointee.paused, !connection.pointee.ended,
                connection.pointee.tls?.hasNews == true
            else { continue }
            read(id, connection)
        }
    }

    // MARK: HTTP/1.1

    /// Puts a relay between the client and the library, which gets one end of a pair of sockets.
    private func relay(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>, _ tls: TLSStream) {
        let fd = connection.pointee.fd
        guard relays.count < Limits.securedHTTP1, let (inner, theirs) = Socket.pair(buffer: Limits.securedHTTP1Buffer)
        else { return lose(id, error: ENFILE) }
        repeat { lastRelay &+= 1 } while relays[lastRelay] != nil
        let relay = Relay(tls, outer: fd, inner: inner, now: now.monotonic)
        do throws(SystemError) {
            try poller.add(theirs, token: Token.connection(id).rawValue, interest: .end)
        } catch {
            close(inner)
            close(theirs)
            return lose(id, error: error.code)
        }
        relays[lastRelay] = relay
        connection.pointee.fd = theirs
        connection.pointee.tls = nil
        // There is nothing to ask a silent client for a sign of life by.
        Socket.keepAlive(fd)
        adoptHTTP1(id, connection)
        watch(relay, lastRelay)
    }

    /// A relay's sockets are ready for something.
    func relay(_ number: UInt32, isDead: Bool) {
        guard let relay = relays[number] else { return }
        switch isDead ? .dead : relay.advance(scratch: buffer, now: now.monotonic) {
        case .goesOn: watch(relay, number)
        case .over:
            relays[number] = nil
            relay.closeInner()
            linger(relay.outer, relay.tls)
        case .dead:
            relays[number] = nil
            relay.close()
        }
    }

    /// Ends relays whose client leaves the last of its answers unread.
    func expireRelays() {
        for (number, relay) in relays where relay.isStuck(now.monotonic, context.limits.httpSilence) {
            relays[number] = nil
            relay.close()
        }
    }

    /// The client's socket is always watched, for its death at least. The library's end is told again and again, and so
    /// it is watched only while something is wanted of it.
    private func watch(_ relay: Relay, _ number: UInt32) {
        do throws(SystemError) {
            try poller.modify(relay.outer, token: Token.relay(number).rawValue, interest: relay.outerInterest)
            let wanted = relay.innerInterest
            if wanted.isEmpty, relay.isInnerWatched {
                try poller.remove(relay.inner)
            } else if !wanted.isEmpty, relay.isInnerWatched {
                try poller.modify(relay.inner, token: Token.relayInner(number).rawValue, interest: wanted)
            } else if !wanted.isEmpty {
                try poller.add(relay.inner, token: Token.relayInner(number).rawValue, interest: wanted)
            }
            relay.isInnerWatched = !wanted.isEmpty
        } catch {
            // No memory for one more watch: nobody would hear of this one any more.
            relays[number] = nil
            relay.close()
        }
    }
}

/// What those are told who speak another protocol than TLS to a listener of TLS.
enum CleartextAnswer {
    static func bytes(_ face: Face) -> [UInt8] {
        switch face {
        case .rsocket:
            // ERROR[REJECTED_SETUP] on stream 0.
            let text = Array("This port speaks TLS: connect with rsockets://.".utf8)
            return [0, 0, UInt8(10 + text.count), 0, 0, 0, 0, 0x2C, 0, 0, 0, 0, 3] + text
        case .http:
            let text = "This port speaks TLS: connect with https://.\n"
            return Array(
                ("HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: \(text.utf8.count)\r\n"
                    + "connection: close\r\n\r\n\(text)").utf8)
        }
    }
}

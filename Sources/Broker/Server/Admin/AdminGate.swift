// AdminGate: connections to the admin listener until they are known to speak its protocol. With TLS, the handshake is
// performed here; then the HTTP/1.1 library gets one end of a socket pair, and a relay connects the two. Without TLS,
// the library gets the client's socket when the first byte has arrived.
//
//     handshaking ──done──▶ relayed ──▶ lingering ──▶ gone
//          └──failed, not TLS, too late──▶ lingering
//     silent ──HTTP──▶ the library's
//        └──RSocket, TLS──▶ lingering

import Core
import EventLoop
import Glibc
import TLS

/// Belongs to the thread of the admin's loop.
struct AdminGate: ~Copyable {
    /// A connection that was admitted.
    struct Admitted {
        /// The library's socket.
        let socket: Int32
        let peer: String
        let certificate: PeerCertificate?
    }

    private struct Guest {
        let fd: Int32
        let peer: String
        let since: UInt64
        let deadline: UInt64
        var tls: TLSStream?
        var isWriting = false
    }

    /// Nil if the listener does not use TLS.
    private let server: TLSServer?
    private let log: Log
    private var guests: [UInt32: Guest] = [:]
    private var lastGuest: UInt32 = 0
    private var relays = Relays()
    private var lingering = LingerQueue(limit: AdminLimits.lingering)
    private let buffer: UnsafeMutableRawBufferPointer
    private var failures = FailureTally(.info, "TLS handshakes failed")
    /// Completed and failed handshakes.
    private(set) var handshakes = HandshakeCounts()

    init(_ server: TLSServer?, log: Log) {
        self.server = server
        self.log = log
        buffer = .allocate(byteCount: TLSStream.record, alignment: 16)
    }

    deinit { buffer.deallocate() }

    var isSecure: Bool { server != nil }

    /// Whether there are relays, which may have to be closed when their clients are silent.
    var hasRelays: Bool { relays.count > 0 }

    /// Number of connections that are not lingering; `served` is the number of the library's connections.
    func occupancy(_ served: Int) -> Int { guests.count + max(served, relays.count) }

    /// When `tick` is due, on the monotonic clock.
    var deadline: UInt64 {
        var first = min(lingering.deadline ?? .max, failures.deadline ?? .max)
        for guest in guests.values { first = min(first, guest.deadline) }
        return first
    }

    /// Takes over an accepted connection.
    mutating func take(
        _ fd: Int32, peer: String, now: UInt64, deadline: UInt64, _ poller: borrowing Poller
    ) throws(SystemError) {
        repeat { lastGuest &+= 1 } while guests[lastGuest] != nil
        do throws(SystemError) {
            try poller.add(fd, token: AdminGate.token(lastGuest), interest: .read)
        } catch {
            close(fd)
            throw error
        }
        guests[lastGuest] = Guest(fd: fd, peer: peer, since: now, deadline: deadline)
    }

    /// Aborts the oldest handshake. Returns false if none was started before `moment`, on the monotonic clock.
    mutating func dropOldest(before moment: UInt64) -> Bool {
        guard let (number, guest) = guests.min(by: { $0.value.since < $1.value.since }), guest.since < moment else {
            return false
        }
        guests[number] = nil
        noteFailure(of: guest, "replaced by a newer connection")
        close(guest.fd)
        return true
    }

    /// Handles the readiness of one of the gate's sockets.
    mutating func handle(
        _ token: Token, _ ready: Readiness, _ limits: Limits, now: UInt64, _ poller: borrowing Poller
    ) -> Admitted? {
        switch token {
        case .connection(let id): return shakeHands(id.generation, limits, now: now, poller)
        case .relay(let number), .relayInner(let number):
            let isDead = token == .relay(number) && !ready.isDisjoint(with: .dead)
            let over = relays.advance(number, isDead: isDead, scratch: buffer, now: now, poller)
            if let over { lingering.linger(over.outer, over.tls, until: now + limits.closeTime, poller) }
        case .lingering(let number): lingering.advance(number, ready, scratch: buffer, poller)
        case .inbox, .listener, .micro: break
        }
        return nil
    }

    /// Counts and logs a failed TLS handshake.
    private mutating func noteFailure(of guest: Guest, _ reason: String) {
        guard isSecure else { return }
        handshakes.failed &+= 1
        failures.count("\(reason) (\(guest.peer))")
    }

    /// Closes connections that have timed out.
    mutating func tick(_ limits: Limits, now: UInt64, _ poller: borrowing Poller) {
        for (number, guest) in guests where guest.deadline <= now {
            refuse(number, guest, "the handshake timed out", limits, now: now, poller)
        }
        relays.expire(now: now, limit: AdminLimits.silence)
        lingering.expire(now: now)
        failures.report(now: now, log: log)
    }

    mutating func closeAll() {
        for guest in guests.values { close(guest.fd) }
        guests.removeAll()
        relays.closeAll()
        lingering.closeAll()
    }

    private static func token(_ number: UInt32) -> UInt64 {
        Token.connection(ConnectionID(index: 0, generation: number)).rawValue
    }

    private mutating func shakeHands(
        _ number: UInt32, _ limits: Limits, now: UInt64, _ poller: borrowing Poller
    ) -> Admitted? {
        guard var guest = guests[number] else { return nil }
        guard let server else { return look(number, guest, limits, now: now, poller) }
        switch server.advance(guest.fd, &guest.tls, .http1, insteadOf: .http) {
        case .refused(let reason): refuse(number, guest, reason, limits, now: now, poller)
        case .done(let tls):
            guests[number] = nil
            return admit(guest, tls, now: now, poller)
        case .waits(let writable):
            defer { guests[number] = guest }
            guard guest.isWriting != writable else { break }
            guest.isWriting = writable
            do throws(SystemError) {
                try poller.modify(guest.fd, token: AdminGate.token(number), interest: writable ? .write : .read)
            } catch {
                preconditionFailure("\(error)")
            }
        }
        return nil
    }

    /// Checks the first byte to recognize clients on the wrong port.
    private mutating func look(
        _ number: UInt32, _ guest: Guest, _ limits: Limits, now: UInt64, _ poller: borrowing Poller
    ) -> Admitted? {
        var first: UInt8 = 0
        switch withUnsafeMutableBytes(of: &first, { Socket.peek(guest.fd, into: $0) }) {
        case .blocked: break
        case .bytes:
            if let answer = CleartextAnswer.needsHTTP(first, isAdmin: true) {
                // Nothing has been written yet, so the socket accepts all of it.
                _ = answer.withUnsafeBytes { Socket.write(guest.fd, $0) }
                refuse(number, guest, "the client does not speak HTTP", limits, now: now, poller)
                break
            }
            guests[number] = nil
            do throws(SystemError) { try poller.remove(guest.fd) } catch { preconditionFailure("\(error)") }
            return Admitted(socket: guest.fd, peer: guest.peer, certificate: nil)
        case .end, .failed:
            guests[number] = nil
            close(guest.fd)
        }
        return nil
    }

    private mutating func admit(
        _ guest: Guest, _ tls: TLSStream, now: UInt64, _ poller: borrowing Poller
    ) -> Admitted? {
        handshakes.done &+= 1
        guard let (inner, theirs) = Socket.pair(buffer: Limits.securedHTTP1Buffer) else {
            log.write(.warning, "cannot serve a connection to the admin listener", [("cause", "too many open files")])
            close(guest.fd)
            return nil
        }
        relays.add(tls, outer: guest.fd, inner: inner, now: now, poller)
        if log.isEnabled(.debug) { log.write(.debug, "TLS handshake completed", tls.facts(peer: guest.peer)) }
        return Admitted(socket: theirs, peer: guest.peer, certificate: tls.certificate)
    }

    /// Closes a connection that was not admitted, and lets the peer read the reason.
    private mutating func refuse(
        _ number: UInt32, _ guest: Guest, _ reason: String, _ limits: Limits, now: UInt64, _ poller: borrowing Poller
    ) {
        guests[number] = nil
        noteFailure(of: guest, reason)
        lingering.linger(guest.fd, nil, until: now + limits.closeTime, poller)
    }
}

/// TLS handshakes by result.
struct HandshakeCounts: Equatable, Sendable {
    var done: UInt64 = 0
    var failed: UInt64 = 0
}

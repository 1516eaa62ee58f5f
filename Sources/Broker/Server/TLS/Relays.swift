// Relays: the relays of one loop, by number, and their registration with its poller.

import EventLoop
import TLS

/// Belongs to the thread of its loop.
struct Relays {
    private var relays: [UInt32: Relay] = [:]
    private var last: UInt32 = 0

    var count: Int { relays.count }

    /// Adds a relay between a client and the library, which has the other end of `inner`.
    /// - Parameter outer: the client's socket, which `poller` watches. The relay owns it and `inner` from now on.
    /// - Returns: the relay's number.
    @discardableResult mutating func add(
        _ tls: TLSStream, outer: Int32, inner: Int32, now: UInt64, _ poller: borrowing Poller
    ) -> UInt32 {
        repeat { last &+= 1 } while relays[last] != nil
        let relay = Relay(tls, outer: outer, inner: inner, now: now)
        relays[last] = relay
        watch(relay, last, poller)
        return last
    }

    /// Removes a relay; the caller owns its sockets. Nil if there is no such relay.
    mutating func remove(_ number: UInt32) -> Relay? { relays.removeValue(forKey: number) }

    /// Handles the readiness of a relay's sockets.
    /// - Parameter scratch: at least `TLSStream.record` bytes, which are overwritten.
    /// - Returns: the client's socket, once the library has closed its end and all its output has been sent.
    mutating func advance(
        _ number: UInt32, isDead: Bool, scratch: UnsafeMutableRawBufferPointer, now: UInt64,
        _ poller: borrowing Poller
    ) -> (outer: Int32, tls: TLSStream)? {
        guard let relay = relays[number] else { return nil }
        switch isDead ? .dead : relay.advance(scratch: scratch, now: now) {
        case .goesOn: watch(relay, number, poller)
        case .over:
            relays[number] = nil
            relay.closeInner()
            return (relay.outer, relay.tls)
        case .dead:
            relays[number] = nil
            relay.close()
        }
        return nil
    }

    /// Closes relays whose client has left the end of its last response unread for `limit` nanoseconds.
    mutating func expire(now: UInt64, limit: UInt64) {
        for (number, relay) in relays where relay.isStuck(now, limit) {
            relays[number] = nil
            relay.close()
        }
    }

    mutating func closeAll() {
        for relay in relays.values { relay.close() }
        relays.removeAll()
    }

    /// Updates what the poller watches. The client's socket is always watched, at least for disconnection. The poller
    /// reports the library's end of stream repeatedly, so the library's socket is watched only while it is needed.
    private mutating func watch(_ relay: Relay, _ number: UInt32, _ poller: borrowing Poller) {
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
            // Without memory for the watch, events of this relay would be missed.
            relays[number] = nil
            relay.close()
        }
    }
}

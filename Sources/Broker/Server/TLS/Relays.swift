// Relays: the relays of one loop, by number, and what its poller watches for them.

import EventLoop
import TLS

/// Belongs to the thread of its loop.
struct Relays {
    private var relays: [UInt32: Relay] = [:]
    private var last: UInt32 = 0

    var count: Int { relays.count }

    /// Puts a relay between a client and the library, which gets the other end of `inner`.
    /// - Parameter outer: the client's socket, which `poller` watches; it is the relay's from here on, as is `inner`.
    /// - Returns: its number.
    @discardableResult mutating func add(
        _ tls: TLSStream, outer: Int32, inner: Int32, now: UInt64, _ poller: borrowing Poller
    ) -> UInt32 {
        repeat { last &+= 1 } while relays[last] != nil
        let relay = Relay(tls, outer: outer, inner: inner, now: now)
        relays[last] = relay
        watch(relay, last, poller)
        return last
    }

    /// Takes a relay out, whose sockets are the caller's; nil when it is gone.
    mutating func remove(_ number: UInt32) -> Relay? { relays.removeValue(forKey: number) }

    /// A relay's sockets are ready for something.
    /// - Parameter scratch: `TLSStream.record` bytes at least, whose content is lost.
    /// - Returns: the client's socket, once the library has ended and all it said is on its way.
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

    /// Ends relays whose client leaves the last of its answers unread for `limit` nanoseconds.
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

    /// The client's socket is always watched, for its death at least. The library's end is told again and again, and so
    /// it is watched only while something is wanted of it.
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
            // No memory for one more watch: nobody would hear of this one any more.
            relays[number] = nil
            relay.close()
        }
    }
}

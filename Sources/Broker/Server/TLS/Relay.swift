// Relay: what stands between a client that speaks HTTP/1.1 over TLS and the library that has HTTP/1.1 and knows nothing
// of TLS. The library gets a socket of its own, whose other end is here.
//
//     client ═outer, TLS═ Relay ─inner, cleartext─ library
//
// It holds one record each way at most: what is beyond that stays with the sender.

import EventLoop
import Glibc
import TLS

/// Belongs to the thread that made it.
final class Relay {
    enum Step {
        case goesOn
        /// The library has ended, and all it said is on its way: `outer` is the caller's again.
        case over
        /// The client is gone.
        case dead
    }

    let tls: TLSStream
    let outer: Int32
    let inner: Int32
    /// The poller watches `inner`.
    var isInnerWatched = false
    /// What the client sent, and the library has not taken.
    private var incoming: [UInt8] = []
    private var hasHeard = false
    private(set) var outerEnded = false
    private var innerEnded = false
    private var quietSince: UInt64

    /// Records that go one way before others have their turn.
    private static let rounds = 8

    init(_ tls: TLSStream, outer: Int32, inner: Int32, now: UInt64) {
        self.tls = tls
        self.outer = outer
        self.inner = inner
        quietSince = now
    }

    var outerInterest: Interest {
        var interest: Interest = []
        if incoming.isEmpty, !outerEnded { interest.insert(.read) }
        if tls.isHeld { interest.insert(.write) }
        return interest
    }

    var innerInterest: Interest {
        var interest: Interest = []
        if !tls.isHeld, !innerEnded { interest.insert(.read) }
        if !incoming.isEmpty { interest.insert(.write) }
        return interest
    }

    /// The library has ended, and the client has taken nothing for `limit` nanoseconds.
    func isStuck(_ now: UInt64, _ limit: UInt64) -> Bool {
        // Behind what is held the library's end cannot be read.
        tls.isHeld && now >= quietSince && now - quietSince >= limit && Socket.hasHungUp(inner)
    }

    func close() {
        Glibc.close(outer)
        closeInner()
    }

    func closeInner() { Glibc.close(inner) }

    /// What the library wrote and the client has not got. The library writes nothing more.
    func rest(scratch: UnsafeMutableRawBufferPointer) -> [UInt8] {
        var bytes: [UInt8] = []
        while case .bytes(let count) = Socket.read(inner, into: scratch) {
            bytes.append(contentsOf: scratch[..<count])
        }
        return bytes
    }

    /// Carries what there is, both ways.
    /// - Parameter scratch: `TLSStream.record` bytes at least, whose content is lost.
    func advance(scratch: UnsafeMutableRawBufferPointer, now: UInt64) -> Step {
        let record = UnsafeMutableRawBufferPointer(rebasing: scratch[..<TLSStream.record])
        for _ in 0..<Relay.rounds {
            switch carryIn(record) {
            case .some(true): continue
            case .some(false): break
            case .none: return .dead
            }
            break
        }
        for _ in 0..<Relay.rounds {
            switch carryOut(record, now: now) {
            case .some(true): continue
            case .some(false): break
            case .none: return .dead
            }
            break
        }
        return innerEnded && !tls.isHeld ? .over : .goesOn
    }

    /// From the client to the library. True when there may be more, nil when the client is gone.
    private func carryIn(_ record: UnsafeMutableRawBufferPointer) -> Bool? {
        if !incoming.isEmpty {
            let taken = incoming.withUnsafeBytes { put($0) }
            incoming.removeFirst(taken)
            return incoming.isEmpty
        }
        guard !outerEnded else { return false }
        switch tls.read(into: record) {
        case .bytes(let count):
            let bytes = UnsafeRawBufferPointer(rebasing: record[..<count])
            if !hasHeard, bytes[0] == 0 { return refuse() }
            hasHeard = true
            let taken = put(bytes)
            incoming = Array(bytes[taken...])
            return incoming.isEmpty
        case .end:
            outerEnded = true
            Socket.shutdownWrite(inner)
            return false
        case .blocked: return false
        case .failed: return nil
        }
    }

    /// The client speaks RSocket, and is told so: to it the library seems to have ended.
    private func refuse() -> Bool? {
        innerEnded = true
        let answer = CleartextAnswer.httpPort.withUnsafeBytes { tls.write(record: $0) }
        if case .failed = answer { return nil }
        return false
    }

    /// Bytes that the library takes. One that is gone takes all: nobody waits for them.
    private func put(_ bytes: UnsafeRawBufferPointer) -> Int {
        switch Socket.write(inner, bytes) {
        case .bytes(let count): count
        case .blocked: 0
        case .failed: bytes.count
        }
    }

    /// From the library to the client. True when there may be more, nil when the client is gone.
    private func carryOut(_ record: UnsafeMutableRawBufferPointer, now: UInt64) -> Bool? {
        if tls.isHeld {
            switch tls.flush() {
            case .bytes: quietSince = now
            case .blocked: return false
            case .failed: return nil
            }
        }
        guard !innerEnded else { return false }
        switch Socket.read(inner, into: record) {
        case .bytes(let count):
            quietSince = now
            if case .failed = tls.write(record: UnsafeRawBufferPointer(rebasing: record[..<count])) { return nil }
            return !tls.isHeld
        case .end, .failed:
            innerEnded = true
            return false
        case .blocked: return false
        }
    }
}

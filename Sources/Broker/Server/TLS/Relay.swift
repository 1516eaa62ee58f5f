// Relay: connects a client that speaks HTTP/1.1 over TLS with the HTTP/1.1 library, which knows nothing of TLS. The
// library gets one end of a socket pair, and the relay holds the other.
//
//     client ═outer, TLS═ Relay ─inner, cleartext─ library
//
// A relay buffers at most one record in each direction; everything else stays with the sender.

import EventLoop
import Glibc
import TLS

/// Belongs to the thread that made it.
final class Relay {
    enum Step {
        case goesOn
        /// The library has closed its end, and all its output has been sent. The caller owns `outer` again.
        case over
        /// The client has disconnected.
        case dead
    }

    let tls: TLSStream
    let outer: Int32
    let inner: Int32
    /// Whether the poller watches `inner`.
    var isInnerWatched = false
    /// Bytes from the client that the library has not accepted yet.
    private var incoming: [UInt8] = []
    private var hasHeard = false
    private(set) var outerEnded = false
    private var innerEnded = false
    private var quietSince: UInt64

    /// Maximum number of records in one direction per call, so that other connections are served.
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

    /// Whether the library has closed its end and the client has read nothing for `limit` nanoseconds.
    func isStuck(_ now: UInt64, _ limit: UInt64) -> Bool {
        // While output is held, the library's end of stream cannot be read.
        tls.isHeld && now >= quietSince && now - quietSince >= limit && Socket.hasHungUp(inner)
    }

    func close() {
        Glibc.close(outer)
        closeInner()
    }

    func closeInner() { Glibc.close(inner) }

    /// Output of the library that has not been sent to the client. The library writes nothing more.
    func rest(scratch: UnsafeMutableRawBufferPointer) -> [UInt8] {
        var bytes: [UInt8] = []
        while case .bytes(let count) = Socket.read(inner, into: scratch) {
            bytes.append(contentsOf: scratch[..<count])
        }
        return bytes
    }

    /// Transfers available bytes in both directions.
    /// - Parameter scratch: at least `TLSStream.record` bytes, which are overwritten.
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

    /// Carries bytes from the client to the library. Returns true if there may be more, nil if the client has
    /// disconnected.
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

    /// Sends an error to a client that speaks RSocket. The connection then ends as if the library had closed it.
    private func refuse() -> Bool? {
        innerEnded = true
        let answer = CleartextAnswer.httpPort.withUnsafeBytes { tls.write(record: $0) }
        if case .failed = answer { return nil }
        return false
    }

    /// Returns how many bytes the library accepted: all if it has closed its end, because they are discarded.
    private func put(_ bytes: UnsafeRawBufferPointer) -> Int {
        switch Socket.write(inner, bytes) {
        case .bytes(let count): count
        case .blocked: 0
        case .failed: bytes.count
        }
    }

    /// Carries bytes from the library to the client. Returns true if there may be more, nil if the client has
    /// disconnected.
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

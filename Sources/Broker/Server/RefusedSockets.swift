// RefusedSockets: connections that are refused because of a limit, or while the broker drains. Each is sent an answer
// in its protocol, so that its client learns the reason, and lingers until the client has read it. Refused connections
// belong to the acceptor's thread, do not count as connections, and use a bounded number of sockets: a flood of them
// holds up no other client.
//
//     refused ──RSocket──▶ answered ──▶ lingering ──▶ closed
//        └──HTTP, TLS──▶ waiting for its first bytes ──▲    └── too many, or too late ──▶ closed

import Core
import EventLoop
import Glibc

/// A connection that is to be refused.
struct RefusedConnection: Sendable {
    var fd: Int32
    var peer: String
    var wireProtocol: WireProtocol
    var isSecure: Bool
    var cause: ConnectionRefusal
}

struct RefusedSockets {
    /// Maximum number of sockets that wait for their first bytes, and of those that linger. Beyond this limit, the
    /// oldest is closed.
    static let limit = 1024

    private let limit: Int
    private var waiting: [UInt32: (connection: RefusedConnection, deadline: UInt64)] = [:]
    /// The oldest number of a socket that may still be waiting, and the next number to assign. Deadlines ascend with
    /// the numbers.
    private var oldest: UInt32 = 0
    private var next: UInt32 = 0
    private var lingering: LingerQueue

    init(limit: Int = RefusedSockets.limit) {
        self.limit = limit
        lingering = LingerQueue(limit: limit)
    }

    var count: Int { waiting.count + lingering.count }
    /// Whether there may be clients that have not read their answers yet.
    var isLingering: Bool { lingering.count > 0 }
    /// When the first socket expires, on the monotonic clock.
    var deadline: UInt64 { min(lingering.deadline ?? .max, waiting[oldest]?.deadline ?? .max) }

    static func token(_ number: UInt32) -> UInt64 {
        Token.connection(ConnectionID(index: 0, generation: number)).rawValue
    }

    /// Takes ownership of the socket.
    mutating func refuse(
        _ connection: RefusedConnection, _ limits: Limits, now: UInt64, _ poller: borrowing Poller
    ) {
        let number = next
        do throws(SystemError) {
            try poller.add(connection.fd, token: RefusedSockets.token(number), interest: .read)
        } catch {
            close(connection.fd)
            return
        }
        // An RSocket server may send first.
        if connection.wireProtocol == .rsocket, !connection.isSecure {
            let answer = CleartextAnswer.rejectedSetup(connection.cause.message)
            return self.answer(connection.fd, answer, limits, now: now, poller)
        }
        if !connection.isSecure {
            Socket.waitForBytes(Int32(CleartextAnswer.preface.count), on: connection.fd)
        }
        if waiting.count == limit { closeOldest() }
        waiting[number] = (connection, now + limits.setupTime)
        next &+= 1
    }

    /// Handles a waiting socket that is readable.
    mutating func advance(_ number: UInt32, _ limits: Limits, now: UInt64, _ poller: borrowing Poller) {
        guard let connection = waiting[number]?.connection else { return }
        switch RefusedSockets.look(connection.fd) {
        case .blocked: break
        case .end, .failed: drop(number)
        case .bytes(let first):
            discard(number)
            answer(connection.fd, RefusedSockets.answer(to: first, connection), limits, now: now, poller)
        }
    }

    private static func answer(to first: [UInt8], _ connection: RefusedConnection) -> [UInt8] {
        guard connection.isSecure else { return CleartextAnswer.http(first, connection.cause) }
        return first[0] == 22 ? CleartextAnswer.alert : CleartextAnswer.needsTLS(connection.wireProtocol, first[0])
    }

    /// Handles the readiness of a lingering socket.
    mutating func advanceLingering(
        _ number: UInt32, _ ready: Readiness, scratch: UnsafeMutableRawBufferPointer, _ poller: borrowing Poller
    ) {
        lingering.advance(number, ready, scratch: scratch, poller)
    }

    mutating func expire(now: UInt64) {
        lingering.expire(now: now)
        while let first = waiting[oldest], first.deadline <= now { closeOldest() }
    }

    mutating func closeAll() {
        while !waiting.isEmpty { closeOldest() }
        lingering.closeAll()
    }

    private enum First {
        case bytes([UInt8])
        case blocked, end, failed
    }

    private static func look(_ fd: Int32) -> First {
        withUnsafeTemporaryAllocation(byteCount: CleartextAnswer.preface.count, alignment: 1) { bytes in
            switch Socket.peek(fd, into: bytes) {
            case .bytes(let count): .bytes(Array(bytes[..<count]))
            case .blocked: .blocked
            case .end: .end
            case .failed: .failed
            }
        }
    }

    /// Writes an answer. Nothing has been written yet, so the socket accepts all of it.
    private mutating func answer(
        _ fd: Int32, _ bytes: [UInt8], _ limits: Limits, now: UInt64, _ poller: borrowing Poller
    ) {
        _ = bytes.withUnsafeBytes { Socket.write(fd, $0) }
        lingering.linger(fd, nil, until: now + limits.closeTime, poller)
    }

    /// Closes one socket to free its descriptor. Returns false if there are none.
    mutating func giveWay() -> Bool {
        if lingering.closeOldest() { return true }
        guard let connection = waiting[oldest]?.connection else { return false }
        if case .bytes(let first) = RefusedSockets.look(connection.fd) {
            let answer = RefusedSockets.answer(to: first, connection)
            _ = answer.withUnsafeBytes { Socket.write(connection.fd, $0) }
        }
        Socket.discard(connection.fd)
        closeOldest()
        return true
    }

    private mutating func closeOldest() { if waiting[oldest] != nil { drop(oldest) } }

    private mutating func drop(_ number: UInt32) {
        if let fd = waiting[number]?.connection.fd { close(fd) }
        discard(number)
    }

    private mutating func discard(_ number: UInt32) {
        waiting[number] = nil
        while oldest != next, waiting[oldest] == nil { oldest &+= 1 }
    }
}

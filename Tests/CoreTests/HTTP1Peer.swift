// A client of HTTP/1.1 as the engine sees it: heads, pieces of bodies and ends, and answers that are fetched.

import Bytes

@testable import Core

/// An engine alone, with a clock of the test's.
final class HTTP1Broker {
    let shard: Shard
    let limits: Limits
    var now = Instant(monotonic: 1_000_000_000, wall: 1_700_000_000_000_000_000)
    private(set) var closed: Set<ConnectionID> = []

    /// Credentials that wait to be looked at, oldest first.
    private(set) var logins: [LoginRequest] = []

    init(_ limits: Limits = Limits(), access: AccessTable = .open) {
        self.limits = limits
        shard = Shard(
            index: 0, count: 1, limits: limits, memory: MemoryBudget(limit: limits.memory), seed: 7, access: access,
            now: now)
    }

    /// Carries out effects, as a turn of a loop does.
    func turn() {
        withUnsafeTemporaryAllocation(of: UnsafeRawBufferPointer.self, capacity: 4) { pieces in
            for id in shard.effects.flush { _ = shard.gather(id, into: pieces) }
        }
        shard.effects.flush.removeAll()
        shard.effects.reading.removeAll()
        shard.effects.log.removeAll()
        logins += shard.effects.logins
        shard.effects.logins.removeAll()
        closed.formUnion(shard.effects.close)
        shard.effects.close.removeAll()
    }

    /// Answers the credentials that have waited longest.
    func answerLogin(_ outcome: LoginOutcome) {
        shard.authenticated(logins.removeFirst().ticket, outcome, now: now)
        turn()
    }

    func advance(_ seconds: Double) {
        var rest = UInt64(seconds * 1e9)
        while rest > 0 {
            let step = min(rest, Shard.tickInterval)
            now.monotonic += step
            rest -= step
            shard.fire(now: now)
            turn()
        }
    }
}

final class HTTP1Peer {
    let broker: HTTP1Broker
    let id: ConnectionID

    init(_ broker: HTTP1Broker) {
        self.broker = broker
        id = broker.shard.open(peer: "127.0.0.1:1", face: .http, now: broker.now)!
        broker.shard.speaksHTTP1(on: id, now: broker.now)
    }

    var isClosed: Bool { broker.closed.contains(id) }

    static func head(
        _ method: String, _ target: String, _ fields: [(String, String)] = [("Host", "h")],
        version: String = "HTTP/1.1", limits: Limits = Limits()
    ) -> HTTP1Request {
        var head = HTTP1Request(method: method, target: target, version: version, limits: limits)
        for (name, value) in fields {
            Array(name.utf8).withUnsafeBytes { name in Array(value.utf8).withUnsafeBytes { head.add(name, $0) } }
        }
        return head
    }

    func send(_ method: String, _ target: String, _ fields: [(String, String)] = []) {
        let head = HTTP1Peer.head(method, target, [("Host", "h")] + fields, limits: broker.limits)
        broker.shard.request(head, on: id, now: broker.now)
    }

    func body(_ bytes: [UInt8]) { bytes.withUnsafeBytes { broker.shard.body($0, on: id, now: broker.now) } }
    func endRequest() { broker.shard.requestEnded(on: id, now: broker.now) }
    func fetch(atOnce: Bool = false) -> HTTP1Answer? { broker.shard.answer(on: id, atOnce: atOnce, now: broker.now) }

    /// The answer, after a turn.
    func answer() -> HTTP1Answer? {
        broker.turn()
        return fetch()
    }

    /// What there is of the body, and what came behind it.
    func read(_ most: Int = .max, piece: Int = 4096) -> (text: String, end: HTTP1Piece) {
        var bytes: [UInt8] = []
        var end = HTTP1Piece.later
        withUnsafeTemporaryAllocation(byteCount: piece, alignment: 1) { buffer in
            while bytes.count < most {
                end = broker.shard.take(into: buffer, on: id, now: broker.now)
                guard case .bytes(let count) = end else { return }
                bytes.append(contentsOf: buffer[..<count])
            }
        }
        return (String(decoding: bytes, as: UTF8.self), end)
    }

    func over(isLast: Bool = false) { broker.shard.exchangeOver(on: id, isLast: isLast, now: broker.now) }
    func lose() { broker.shard.lost(id, reason: "gone", now: broker.now) }

    /// A whole exchange; the status of its answer.
    func publish(_ text: String, to topic: String = "t") -> Int? {
        send("POST", "/v1/topics/\(topic)/messages", [("Content-Length", String(text.utf8.count))])
        body(Array(text.utf8))
        endRequest()
        let status = answer()?.status
        _ = read()
        over()
        return status
    }
}

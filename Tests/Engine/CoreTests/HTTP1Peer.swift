// An HTTP/1.1 client as the engine sees it: heads, pieces of bodies and ends, responses that are fetched, and the bytes
// of streams.

import Bytes

@testable import Core

/// A single engine, with a clock that the test controls.
final class HTTP1Broker {
    let shard: Shard
    let limits: Limits
    var now = Instant(monotonic: 1_000_000_000, wall: 1_700_000_000_000_000_000)
    private(set) var closed: Set<ConnectionID> = []
    /// Connections whose sockets accept nothing.
    var stalled: Set<ConnectionID> = []
    /// What the sockets of streams have accepted and nobody has read yet.
    fileprivate var written: [ConnectionID: [UInt8]] = [:]

    /// Credentials to be checked, oldest first.
    private(set) var logins: [LoginRequest] = []

    init(_ limits: Limits = Limits(), access: AccessTable = .open) {
        self.limits = limits
        shard = Shard(
            index: 0, count: 1, limits: limits, memory: MemoryBudget(limit: limits.memory), seed: 7, access: access,
            now: now)
    }

    /// Carries out effects, like a turn of a loop.
    func turn() {
        while !shard.effects.flush.isEmpty {
            var due: [ConnectionID] = []
            swap(&due, &shard.effects.flush)
            for id in due { write(id) }
        }
        shard.effects.reading.removeAll()
        shard.effects.log.removeAll()
        logins += shard.effects.logins
        shard.effects.logins.removeAll()
        closed.formUnion(shard.effects.close)
        shard.effects.close.removeAll()
    }

    private func write(_ id: ConnectionID) {
        withUnsafeTemporaryAllocation(of: UnsafeRawBufferPointer.self, capacity: 4) { pieces in
            let count = shard.gather(id, into: pieces)
            guard count > 0 else { return }
            if stalled.contains(id) { return shard.wrote(0, blocked: true, on: id, now: now) }
            var bytes: [UInt8] = []
            for piece in pieces[..<count] { bytes += piece }
            written[id, default: []] += bytes
            shard.wrote(bytes.count, blocked: false, on: id, now: now)
        }
    }

    /// Makes a socket accept bytes again.
    func unstall(_ id: ConnectionID) {
        stalled.remove(id)
        shard.writable(id, now: now)
        turn()
    }

    /// Answers the oldest login request.
    func answerLogin(_ outcome: LoginOutcome) {
        shard.authenticated(logins.removeFirst().ticket, outcome, now: now)
        turn()
    }

    func advance(_ seconds: Double) {
        var rest = UInt64(seconds * 1e9)
        while rest > 0 {
            let step = min(rest, Timers.interval)
            now.monotonic += step
            rest -= step
            repeat {
                shard.beginTurn()
                shard.fire(now: now)
                turn()
            } while shard.deadline.map { $0 <= now.monotonic } == true
        }
    }
}

final class HTTP1Peer {
    let broker: HTTP1Broker
    let id: ConnectionID
    /// The head of a stream that has begun.
    private(set) var streamHead: String?
    private var isStream = false
    private var isChunked = true

    init(_ broker: HTTP1Broker) {
        self.broker = broker
        id = broker.shard.open(peer: "127.0.0.1:1", wireProtocol: .http, now: broker.now)!
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

    func send(
        _ method: String, _ target: String, _ fields: [(String, String)] = [], version: String = "HTTP/1.1"
    ) {
        let head = HTTP1Peer.head(method, target, [("Host", "h")] + fields, version: version, limits: broker.limits)
        isChunked = version != "HTTP/1.0"
        broker.shard.request(head, on: id, now: broker.now)
    }

    func body(_ bytes: [UInt8]) { bytes.withUnsafeBytes { broker.shard.body($0, on: id, now: broker.now) } }
    func endRequest() { broker.shard.requestEnded(on: id, now: broker.now) }

    /// The response, if there is one; a stream begins with its response.
    func fetch(atOnce: Bool = false) -> HTTP1Answer? {
        let answer = broker.shard.answer(on: id, atOnce: atOnce, now: broker.now)
        if answer?.isStream == true { begin() }
        return answer
    }

    /// Gives the engine the socket, with `rest` of earlier responses unwritten.
    private func begin(behind rest: String = "") {
        isStream = true
        Array(rest.utf8).withUnsafeBytes { broker.shard.beginStream(on: id, behind: $0, now: broker.now) }
    }

    /// Bytes that the client sends while it has a stream.
    func sendBehind(_ count: Int) {
        [UInt8](repeating: 1, count: count).withUnsafeBytes { broker.shard.receive($0, on: id, now: broker.now) }
    }

    /// The response, after a turn.
    func answer() -> HTTP1Answer? {
        broker.turn()
        return fetch()
    }

    /// The bytes of a stream as they were written.
    func takeWritten() -> [UInt8] { broker.written.removeValue(forKey: id) ?? [] }

    /// The available part of a stream's body, and whether it has ended.
    private func readStream() -> (text: String, end: HTTP1Piece) {
        broker.turn()
        var bytes = takeWritten()[...]
        if streamHead == nil, let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) {
            streamHead = String(decoding: bytes[..<end.upperBound], as: UTF8.self)
            bytes = bytes[end.upperBound...]
        }
        guard isChunked else { return (String(decoding: bytes, as: UTF8.self), isClosed ? .end : .later) }
        var body: [UInt8] = []
        while let line = bytes.firstRange(of: [13, 10]) {
            guard let count = Int(String(decoding: bytes[..<line.lowerBound], as: UTF8.self), radix: 16) else {
                return ("no chunk: \(String(decoding: bytes, as: UTF8.self))", .gone)
            }
            body += bytes[line.upperBound...].prefix(count)
            bytes = bytes[line.upperBound...].dropFirst(count)
            guard bytes.starts(with: [13, 10]) else { return ("a chunk has no end", .gone) }
            bytes = bytes.dropFirst(2)
            if count == 0 { return (String(decoding: body, as: UTF8.self), bytes.isEmpty ? .end : .gone) }
        }
        return (String(decoding: body, as: UTF8.self), isClosed ? .gone : .later)
    }

    /// The available part of the body, and what followed it.
    func read(_ most: Int = .max, piece: Int = 4096) -> (text: String, end: HTTP1Piece) {
        if isStream { return readStream() }
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

    /// A complete exchange; returns the response's status.
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

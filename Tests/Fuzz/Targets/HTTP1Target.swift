// The engine with HTTP/1.1, as used by its driver: heads, pieces of bodies, responses that are fetched, and streams
// whose sockets accept data or do not; next to an RSocket connection.

import Bytes

@testable import Core

func fuzzHTTP1(_ bytes: UnsafeRawBufferPointer) { play(bytes, by: HTTP1Script.self) }

private final class HTTP1Script: BrokerScript {
    private enum State { case idle, asking, asked, answered(left: Int?), streaming }

    private let broker: FuzzBroker
    private let rsocket: RSocketScript
    private var peers: [HTTP1FuzzPeer?] = [nil, nil, nil]
    private var states: [State] = [.idle, .idle, .idle]
    /// Whether the request is a HEAD: its response has the length of a GET's, and no body.
    private var isHead = [false, false, false]
    /// Whether the request names a pattern, and sends positions.
    private var isOfPattern = [false, false, false]

    init(_ broker: FuzzBroker) {
        self.broker = broker
        rsocket = RSocketScript(broker)
    }

    func step(_ input: inout FuzzInput) {
        if rsocket.takes(&input) { return }
        let first = input.byte()
        let (place, action) = (Int(first >> 6), first & 31)
        guard let peer = peers[place], !peer.isClosed else {
            let peer = HTTP1FuzzPeer(broker, place & 1, .http)
            peer.isHTTP1 = true
            broker.act(peer) { shard, id, now in shard.speaksHTTP1(on: id, now: now) }
            peers[place] = peer
            return states[place] = .idle
        }
        if case .idle = states[place] { isOfPattern[place] = first & 32 != 0 }
        switch action {
        case 5...15: go(place, peer, &input)
        case 16...22: fetch(place, peer, &input)
        case 23: broker.act(peer) { shard, id, now in shard.receiveEnd(on: id, now: now) }
        case 24: broker.act(peer) { shard, id, now in shard.lost(id, reason: "gone", now: now) }
        case 25, 26:
            let isLast = input.byte() & 7 == 0
            broker.act(peer) { shard, id, now in shard.exchangeOver(on: id, isLast: isLast, now: now) }
            if case .streaming = states[place] { return }
            states[place] = .idle
        default: fetch(place, peer, &input)
        }
    }

    /// Sends the next piece of a request.
    private func go(_ place: Int, _ peer: HTTP1FuzzPeer, _ input: inout FuzzInput) {
        switch states[place] {
        case .idle:
            let head = head(&input, place)
            broker.act(peer) { shard, id, now in shard.request(head, on: id, now: now) }
            states[place] = .asking
        case .asking:
            let body = isOfPattern[place] ? broker.positions(&input) : Array(input.piece())
            if !body.isEmpty {
                broker.act(peer) { shard, id, now in
                    body.withUnsafeBytes { withCopy($0) { shard.body($0, on: id, now: now) } }
                }
            }
            if input.byte() & 1 == 0 {
                broker.act(peer) { shard, id, now in shard.requestEnded(on: id, now: now) }
                states[place] = .asked
            }
        case .asked, .answered: break
        case .streaming: peer.send(Array(input.piece()))
        }
    }

    private func head(_ input: inout FuzzInput, _ place: Int) -> HTTP1Request {
        let kind = input.byte()
        let topic = input.pick(isOfPattern[place] ? RSocketScript.patterns : RSocketScript.topics)
        let option = input.pick(["", "?request=2", "?replay=all", "?request=1&buffer=1&overflow=fail", "?gap=tell"])
        var method = kind & 1 == 0 ? "GET" : "POST"
        var target = "/v1/topics/\(topic)/messages" + (kind & 1 == 0 ? option : "")
        if kind & 6 == 6 {
            method = input.part(before: 0).asText
            target = input.part(before: 0).asText
        }
        isHead[place] = method == "HEAD"
        peers[place]?.isChunked = kind & 8 == 0
        var head = HTTP1Request(
            method: method, target: target, version: kind & 8 == 0 ? "HTTP/1.1" : "HTTP/1.0", limits: broker.limits)
        var fields = [("Host", "localhost")]
        if kind & 1 == 1 { fields.append(("Content-Length", "5")) }
        if kind & 16 != 0 { fields.append(("Accept", "application/x-ndjson")) }
        if kind & 32 != 0 { fields.append(("Authorization", "Bearer x")) }
        if kind & 64 != 0 { fields.append((input.part(before: 0).asText, input.part(before: 0).asText)) }
        for (name, value) in fields { withBytes(name) { name in withBytes(value) { head.add(name, $0) } } }
        if kind & 128 != 0, input.byte() == 0 { head.isUnclear() }
        return head
    }

    /// Fetches the response, and then as much of its body as a buffer holds.
    private func fetch(_ place: Int, _ peer: HTTP1FuzzPeer, _ input: inout FuzzInput) {
        let count = 1 + Int(input.byte())
        var state = states[place]
        if case .streaming = state { return peer.read(count == 256 ? nil : count * 7) }
        broker.act(peer) { shard, id, now in
            guard case .answered(let left) = state else {
                if case .idle = state { return }
                guard let answer = shard.answer(on: id, atOnce: count & 15 == 0, now: now) else { return }
                mustHold((200...599).contains(answer.status), "the status is \(answer.status)")
                if answer.isStream {
                    mustHold(answer.length == nil && !isHead[place], "a stream has a length, or is a response to HEAD")
                    peer.isHTTP1 = false
                    peer.window = count & 16 == 0 ? .max : count
                    let rest = Array(repeating: UInt8(ascii: "r"), count: count & 3)
                    peer.rest = rest.count
                    rest.withUnsafeBytes { shard.beginStream(on: id, behind: $0, now: now) }
                    return state = .streaming
                }
                return state = .answered(left: isHead[place] ? 0 : answer.length)
            }
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 1)
            defer { buffer.deallocate() }
            switch shard.take(into: buffer, on: id, now: now) {
            case .bytes(let taken):
                mustHold((1...count).contains(taken) && taken <= left ?? .max, "\(taken) bytes were taken")
                state = .answered(left: left.map { $0 - taken })
            case .end:
                mustHold((left ?? 0) == 0, "the body ends \(left ?? 0) bytes before its end")
                shard.exchangeOver(on: id, isLast: false, now: now)
                state = .idle
            case .later, .gone: break
            }
        }
        states[place] = state
    }
}

/// Checks a stream's framing.
private final class HTTP1FuzzPeer: FuzzPeer {
    private enum Phase { case rest, head, size, data(Int), tail(Int), over }

    var isChunked = true
    /// Bytes that must precede the head.
    var rest = 0
    private var phase = Phase.rest
    private var line: [UInt8] = []

    override func take(_ bytes: UnsafeRawBufferPointer) { bytes.forEach(take) }

    private func take(_ byte: UInt8) {
        if case .rest = phase, rest == 0 { phase = .head }
        switch phase {
        case .rest:
            mustHold(byte == UInt8(ascii: "r"), "the rest of earlier responses is not first")
            rest -= 1
        case .head:
            line.append(byte)
            guard line.suffix(4) == [13, 10, 13, 10] else { return }
            mustHold(line.starts(with: "HTTP/1.1 200 OK\r\n".utf8), "the head of a stream is not 200")
            enter(isChunked ? .size : .data(.max))
        case .size:
            line.append(byte)
            guard line.suffix(2) == [13, 10] else { return mustHold(line.count < 18, "a chunk has no length") }
            let count = Int(String(decoding: line.dropLast(2), as: UTF8.self), radix: 16)
            mustHold(count != nil, "the length of a chunk is not a number")
            enter(count == 0 ? .tail(2) : .data(count ?? 0))
            if count == 0 { line = [0] }
        case .data(let left): phase = left > 1 ? .data(left - 1) : .tail(2)
        case .tail(let left):
            mustHold(byte == (left == 2 ? 13 : 10), "a chunk does not end with CR LF")
            if left == 2 { return phase = .tail(1) }
            enter(line == [0] ? .over : .size)
        case .over: mustHold(false, "data follows the last chunk")
        }
    }

    private func enter(_ next: Phase) {
        line = []
        phase = next
    }
}

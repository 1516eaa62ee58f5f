// The engine behind HTTP/1.1, as its driver uses it: heads, pieces of bodies, answers that are fetched, streams that
// are taken piece by piece or left lying, beside a connection of RSocket.

import Bytes

@testable import Core

func fuzzHTTP1(_ bytes: UnsafeRawBufferPointer) { play(bytes, by: HTTP1Script.self) }

private final class HTTP1Script: BrokerScript {
    private enum State { case idle, asking, asked, answered(left: Int?) }

    private let broker: FuzzBroker
    private let rsocket: RSocketScript
    private var peers: [FuzzPeer?] = [nil, nil, nil]
    private var states: [State] = [.idle, .idle, .idle]
    /// The request is a HEAD: its answer has the length of a GET's, and no body.
    private var isHead = [false, false, false]

    init(_ broker: FuzzBroker) {
        self.broker = broker
        rsocket = RSocketScript(broker)
    }

    func step(_ input: inout FuzzInput) {
        if rsocket.takes(&input) { return }
        let first = input.byte()
        let (place, action) = (Int(first >> 6), first & 31)
        guard let peer = peers[place], !peer.isClosed else {
            let peer = FuzzPeer(broker, place & 1, .http)
            peer.isHTTP1 = true
            broker.act(peer) { shard, id, now in shard.speaksHTTP1(on: id, now: now) }
            peers[place] = peer
            return states[place] = .idle
        }
        switch action {
        case 5...15: go(place, peer, &input)
        case 16...22: fetch(place, peer, &input)
        case 23: broker.act(peer) { shard, id, now in shard.receiveEnd(on: id, now: now) }
        case 24: broker.act(peer) { shard, id, now in shard.lost(id, reason: "gone", now: now) }
        case 25, 26:
            let isLast = input.byte() & 7 == 0
            broker.act(peer) { shard, id, now in shard.exchangeOver(on: id, isLast: isLast, now: now) }
            states[place] = .idle
        default: fetch(place, peer, &input)
        }
    }

    /// The next piece of a request.
    private func go(_ place: Int, _ peer: FuzzPeer, _ input: inout FuzzInput) {
        switch states[place] {
        case .idle:
            let head = head(&input, place)
            broker.act(peer) { shard, id, now in shard.request(head, on: id, now: now) }
            states[place] = .asking
        case .asking:
            let body = input.piece()
            if !body.isEmpty {
                broker.act(peer) { shard, id, now in withCopy(body) { shard.body($0, on: id, now: now) } }
            }
            if input.byte() & 1 == 0 {
                broker.act(peer) { shard, id, now in shard.requestEnded(on: id, now: now) }
                states[place] = .asked
            }
        case .asked, .answered: break
        }
    }

    private func head(_ input: inout FuzzInput, _ place: Int) -> HTTP1Request {
        let kind = input.byte()
        let topic = input.pick(RSocketScript.topics)
        let option = input.pick(["", "?request=2", "?replay=all", "?request=1&buffer=1&overflow=fail", "?gap=tell"])
        var method = kind & 1 == 0 ? "GET" : "POST"
        var target = "/v1/topics/\(topic)/messages" + (kind & 1 == 0 ? option : "")
        if kind & 6 == 6 {
            method = input.part(before: 0).asText
            target = input.part(before: 0).asText
        }
        isHead[place] = method == "HEAD"
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

    /// The answer, and then of its body as much as a buffer takes.
    private func fetch(_ place: Int, _ peer: FuzzPeer, _ input: inout FuzzInput) {
        let count = 1 + Int(input.byte())
        var state = states[place]
        broker.act(peer) { shard, id, now in
            guard case .answered(let left) = state else {
                if case .idle = state { return }
                guard let answer = shard.answer(on: id, atOnce: count & 15 == 0, now: now) else { return }
                mustHold((200...599).contains(answer.status), "the status is \(answer.status)")
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

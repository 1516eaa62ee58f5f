// Random frames, valid and invalid, from a fixed seed: nothing traps, nothing grows beyond its limits, and each
// stream's events are in order with one end.

import HTTP2Frames
import Testing

@testable import HTTP2

@Suite struct FuzzTests {
    /// One random frame, which may be valid.
    private func randomFrame(_ numbers: inout Numbers, _ next: inout UInt32) -> [UInt8] {
        func pick(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &numbers) }
        let stream = UInt32(2 * pick(0...20) + 1)
        switch pick(0...99) {
        case 0..<25:
            next &+= 2
            return pick(0...1) == 0 ? get(next) : post(next, [("a", String(repeating: "b", count: pick(0...300)))])
        case 25..<60:
            let payload = [UInt8](repeating: 5, count: pick(1...2_000))
            return data(next &- UInt32(2 * pick(0...3)), payload, end: pick(0...5) == 0)
        case 60..<75: return windowUpdate(pick(0...2) == 0 ? 0 : next, UInt32(pick(1...5_000)))
        case 75..<80: return reset(next &- UInt32(2 * pick(0...3)), UInt32(pick(0...13)))
        case 80..<84: return ping(UInt8(pick(0...255)), ack: pick(0...1) == 0)
        case 84..<88: return settings((UInt16(pick(1...6)), UInt32(pick(0...100_000))))
        case 88..<92: return frame(Type.priority, stream: stream, u32(UInt32(pick(0...50))) + [3])
        case 92..<94: return headers(next, [("t", "v")], end: true)
        case 94..<97: return frame(UInt8(pick(10...255)), UInt8(pick(0...255)), stream: stream, [1, 2, 3])
        case 97: return frame(UInt8(pick(0...9)), UInt8(pick(0...255)), stream: stream, [0, 1, 2, 3, 4, 5, 6, 7])
        case 98: return frame(Type.headers, UInt8(pick(0...63)), stream: next &+ 2, [0x82, 0x86, 0x84, 0x41, 1, 97])
        default:
            let count = pick(0...40)
            return (0..<count).map { _ in UInt8.random(in: 0...255, using: &numbers) }
        }
    }

    /// Answers requests in one of several ways.
    private func serve(_ peer: Peer, _ events: [String], _ numbers: inout Numbers) {
        for event in events where event.hasPrefix("request") {
            let stream = UInt32(event.split(separator: " ")[1])!
            switch Int.random(in: 0...5, using: &numbers) {
            case 0: peer.respond(stream, complete: true)
            case 1: peer.session.reset(stream, .internalError)
            case 2: break
            default:
                peer.respond(stream)
                peer.send(stream, [UInt8](repeating: 9, count: Int.random(in: 0...9_000, using: &numbers)))
                if Bool.random(using: &numbers) { peer.session.finish(stream, trailers: ["x": "y"]) }
            }
        }
    }

    @Test(arguments: 1...40) func anything(seed: Int) {
        var numbers = Numbers(seed: UInt64(seed) &* 0x9e37_79b9_7f4a_7c15)
        var limits = HTTP2Limits()
        limits.maxStreams = 50
        limits.streamWindow = 65_535
        var reported: [Substring: String] = [:]
        for _ in 0..<10 {
            let peer = Peer(limits: limits)
            var next = UInt32.max
            reported = [:]
            var rest: [UInt8] = []
            for _ in 0..<300 {
                rest += randomFrame(&numbers, &next)
                let count = Int.random(in: 0...rest.count, using: &numbers)
                peer.feed(Array(rest[..<count]))
                rest.removeFirst(count)
                var events = peer.events()
                check(events, &reported)
                serve(peer, events, &numbers)
                if Int.random(in: 0...3, using: &numbers) > 0 {
                    peer.flush(atMost: Int.random(in: 1...30_000, using: &numbers))
                }
                events = peer.events()
                check(events, &reported)
                peer.now += 10_000_000
                peer.session.expire(now: peer.now)
                let (buffered, open) = (peer.session.bufferedBytes, peer.session.openStreams)
                #expect(buffered < 40_000 && open <= 50)
                if peer.session.isFinished { break }
            }
        }
    }

    /// Checks that the events of a stream go from its request to a single end.
    private func check(_ events: [String], _ reported: inout [Substring: String]) {
        for event in events {
            let words = event.split(separator: " ")
            guard ["request", "data", "complete", "reset", "closed"].contains(words[0]) else { continue }
            let state = reported[words[1]]
            switch words[0] {
            case "request": #expect(state == nil, "\(event)")
            case "data": #expect(state == "open", "\(event)")
            case "complete": #expect(state == "open", "\(event)")
            default: #expect(state == "open" || state == "half", "\(event)")
            }
            switch words[0] {
            case "request": reported[words[1]] = event.hasSuffix("END") ? "half" : "open"
            case "complete": reported[words[1]] = "half"
            case "reset", "closed": reported[words[1]] = "gone"
            default: break
            }
        }
    }

    /// Everything that a peer sends in one read has been processed and released, except bodies that the owner does not
    /// take.
    @Test func nothingStays() {
        let peer = Peer()
        for round in 0..<10_000 {
            let stream = UInt32(2 * round + 1)
            peer.feed(post(stream, [("a", "b")]) + data(stream, "some bytes") + reset(stream))
            peer.flush()
            peer.now += 1_000_000_000
            _ = peer.events()
        }
        #expect(peer.fatal == nil)
        let (buffered, open) = (peer.session.bufferedBytes, peer.session.openStreams)
        #expect(buffered < 4_000 && open == 0)
    }
}

// Windows in both directions, turns, slices.

import HTTP2Frames
import Testing

@testable import HTTP2

@Suite struct FlowControlTests {
    private func sum(_ frames: [Received], _ stream: UInt32? = nil) -> Int {
        frames.filter { $0.type == Type.data && (stream == nil || $0.stream == stream) }
            .reduce(0) { $0 + $1.payload.count }
    }

    // MARK: Incoming

    @Test func whatIsNotConsumedIsNotAcknowledged() {
        var limits = HTTP2Limits()
        limits.streamWindow = 100_000
        let peer = Peer(limits: limits)
        peer.consumes = false
        let piece = [UInt8](repeating: 1, count: 10_000)
        var written: [String] = []
        written += peer.talk(post(1))
        for _ in 0..<10 { written += peer.talk(data(1, piece)) }
        #expect(written == [])
        peer.session.consume(1, 60_000)
        #expect(peer.flush() == ["WINDOW_UPDATE 1 60000"])
        // More than was received cannot be consumed.
        peer.session.consume(1, 1_000_000)
        peer.flush()
        let updates = peer.frames.filter { $0.type == Type.windowUpdate && $0.stream == 1 }
        #expect(updates.reduce(0) { $0 + $1.increment } <= 100_000)
    }

    @Test func aPeerBeyondItsWindowIsCutOff() {
        var limits = HTTP2Limits()
        limits.streamWindow = 70_000
        let peer = Peer(limits: limits)
        peer.consumes = false
        peer.feed(post(1))
        for _ in 0..<7 { peer.feed(data(1, [UInt8](repeating: 1, count: 10_000))) }
        #expect(peer.flush() == [])
        peer.feed(data(1, "x"))
        #expect(peer.flush() == ["RST_STREAM 1 3"])
        #expect(peer.events().last == "reset 1 3")
        #expect(peer.serves(3))
        let errors = peer.session.counters.streamErrors
        #expect(errors == 1)
    }

    @Test func whatAnEndedStreamHeldIsGivenBack() {
        var limits = HTTP2Limits()
        limits.streamWindow = 65_535
        limits.connectionWindow = 65_535
        let peer = Peer(limits: limits)
        peer.consumes = false
        for round in 0..<40 {
            let stream = UInt32(2 * round + 1)
            peer.feed(post(stream) + data(stream, [UInt8](repeating: 1, count: 16_000)))
            switch round % 3 {
            case 0: peer.feed(reset(stream))
            case 1: peer.session.reset(stream, .cancel)
            default:
                peer.respond(stream)
                peer.session.finish(stream)
            }
            peer.flush()
        }
        #expect(peer.fatal == nil)
        let updates = peer.frames.filter { $0.type == Type.windowUpdate && $0.stream == 0 }
        #expect(updates.reduce(0) { $0 + $1.increment } > 39 * 16_000 - 65_535)
    }

    /// Otherwise a peer could send more than the connection's window while other streams hold all of it.
    @Test func whatIsConsumedIsGivenBackOnce() {
        var limits = HTTP2Limits()
        limits.streamWindow = 65_535
        limits.connectionWindow = 65_535
        let peer = Peer(limits: limits)
        peer.consumes = false
        let piece = [UInt8](repeating: 1, count: 10_000)
        peer.feed(post(1) + data(1, piece) + data(1, piece))
        peer.session.consume(1, 20_000)
        peer.feed(reset(1) + post(3) + data(3, piece) + data(3, piece))
        peer.session.consume(3, 1)
        #expect(peer.flush() == [], "less than half of the window has been consumed")
        peer.session.consume(3, 19_999)
        #expect(peer.flush() == ["WINDOW_UPDATE 0 40000"])
    }

    // MARK: Outgoing

    @Test func neverMoreThanTheWindows() {
        var numbers = Numbers(seed: 5)
        let peer = Peer(opened: false)
        var streamWindow = [UInt32: Int]()
        var connectionWindow = 65_535
        peer.feed(preface + settings((4, 5_000)))
        for index in 0..<10 {
            let stream = UInt32(2 * index + 1)
            peer.feed(get(stream))
            peer.respond(stream)
            peer.send(stream, [UInt8](repeating: UInt8(index), count: 60_000))
            streamWindow[stream] = 5_000
        }
        for _ in 0..<400 {
            for frame in peer.flushFrames(atMost: Int.random(in: 1...20_000, using: &numbers)) where frame.type == 0 {
                streamWindow[frame.stream]! -= frame.payload.count
                connectionWindow -= frame.payload.count
                #expect(streamWindow[frame.stream]! >= 0 && connectionWindow >= 0)
            }
            let stream = UInt32(2 * Int.random(in: 0..<10, using: &numbers) + 1)
            let increment = Int.random(in: 1...3_000, using: &numbers)
            if Int.random(in: 0..<3, using: &numbers) == 0 {
                connectionWindow += increment
                peer.feed(windowUpdate(0, UInt32(increment)))
            } else {
                streamWindow[stream]! += increment
                peer.feed(windowUpdate(stream, UInt32(increment)))
            }
            peer.now += 50_000_000
            peer.session.expire(now: peer.now)
        }
        #expect(peer.fatal == nil)
        #expect(sum(peer.frames) > 100_000)
        for stream in streamWindow.keys {
            let room = peer.session.room(stream)
            #expect(room == max(0, min(streamWindow[stream]!, connectionWindow)))
        }
    }

    @Test func settingsMoveTheWindowsOfOpenStreams() {
        let peer = Peer()
        peer.feed(settings((4, 1_000)) + get(1))
        peer.respond(1)
        peer.send(1, [UInt8](repeating: 1, count: 10_000))
        peer.flush()
        #expect(sum(peer.frames) == 1_000)
        // The window is below 0 (RFC 9113, 6.9.2): nothing is sent until it is positive again.
        peer.feed(settings((4, 0)) + windowUpdate(1, 900))
        peer.flush()
        #expect(sum(peer.frames) == 1_000)
        _ = peer.events()
        peer.feed(settings((4, 2_000)))
        #expect(peer.events() == ["writable 1"])
        peer.flush()
        #expect(sum(peer.frames) == 2_900)
    }

    @Test func roomIsToldWhenItComes() {
        let peer = Peer()
        peer.feed(settings((4, 0)) + get(1) + get(3))
        let rooms = [UInt32(1), 3].map { peer.session.room($0) }
        #expect(rooms == [0, 0])
        _ = peer.events()
        peer.feed(windowUpdate(3, 10))
        #expect(peer.events() == ["writable 3"])
        peer.feed(windowUpdate(3, 10) + windowUpdate(0, 10))
        #expect(peer.events() == [])
        peer.feed(windowUpdate(1, 99))
        #expect(peer.events() == ["writable 1"])
        let room = peer.session.room(1)
        #expect(room == 99)
    }

    @Test func theEndNeedsNoWindow() {
        let peer = Peer()
        peer.feed(settings((4, 1_000)))
        for stream in [UInt32(1), 3] {
            peer.feed(get(stream))
            peer.respond(stream)
            peer.send(stream, [UInt8](repeating: 1, count: 1_000))
        }
        peer.flush()
        #expect(sum(peer.frames) == 2_000)
        peer.session.finish(1, trailers: ["a": "b"])
        peer.session.finish(3)
        #expect(peer.flush().sorted() == ["HEADERS 1 a=b END", "HEADERS 3  END"])
        #expect(peer.events().suffix(2).sorted() == ["closed 1", "closed 3"])
    }

    /// A peer that opens no window at all still receives the status of its requests.
    @Test(arguments: [false, true]) func trailersBehindNoBodyNeedNoWindow(laterThanTheHead: Bool) {
        let peer = Peer()
        // The client's half of the second request's stream is still open.
        peer.feed(settings((4, 0)) + get(1) + post(3) + get(5))
        _ = peer.flush()
        var written: [String] = []
        for stream in [UInt32(1), 3, 5] { peer.respond(stream) }
        if laterThanTheHead { written += peer.flush() }
        peer.session.finish(1, trailers: ["a": "b"])
        peer.session.finish(3, trailers: ["c": "d"])
        peer.session.finish(5)
        written += peer.flush()
        let heads = [1, 3, 5].map { "HEADERS \($0) :status=200 content-type=text/plain" }
        let ends = ["HEADERS 1 a=b END", "HEADERS 3 c=d END", "RST_STREAM 3 0", "HEADERS 5  END"]
        #expect(written.sorted() == (heads + ends).sorted())
        for stream in [1, 3, 5] {
            let own = written.filter { $0.hasPrefix("HEADERS \(stream) ") }
            #expect(own.first?.contains(":status") == true, "\(own)")
        }
        #expect(peer.events().filter { $0.hasPrefix("closed") }.sorted() == ["closed 1", "closed 3", "closed 5"])
        // Windows that open afterwards cause no more output.
        #expect(peer.talk(settings((4, 1000))) == ["SETTINGS ACK"] && peer.serves(7))
    }

    @Test func theEndWaitsForWhatIsQueued() {
        let peer = Peer()
        peer.feed(settings((4, 1_000)) + get(1))
        peer.respond(1)
        peer.send(1, [UInt8](repeating: 1, count: 1_500))
        peer.session.finish(1, trailers: ["a": "b"])
        #expect(peer.flush().suffix(1) == ["DATA 1 1000"])
        peer.feed(windowUpdate(1, 1_000))
        #expect(peer.flush() == ["DATA 1 500", "HEADERS 1 a=b END"])
    }

    @Test func streamsTakeTurns() {
        let peer = Peer()
        peer.feed(windowUpdate(0, 10_000_000) + settings((4, 1_000_000)))
        let count = 50
        for index in 0..<count {
            let stream = UInt32(2 * index + 1)
            // Whatever priorities the client requests, these are equal.
            peer.feed(
                frame(Type.headers, 0x25, stream: stream, u32(0) + [UInt8(index * 5)] + block(getFields))
                    + frame(Type.priority, stream: stream, u32(0) + [255]))
            peer.respond(stream)
            peer.send(stream, [UInt8](repeating: 1, count: 200_000))
        }
        peer.flush(atMost: 50 * (1 << 14) * 4)
        let sent = (0..<count).map { sum(peer.frames, UInt32(2 * $0 + 1)) }
        #expect(sent.min()! >= 3 << 14 && sent.max()! <= 5 << 14, "\(sent)")
    }

    @Test func aSliceIsASlice() {
        let peer = Peer()
        peer.feed(windowUpdate(0, 1_000_000) + settings((4, 1_000_000)))
        for stream in [UInt32(1), 3, 5] {
            peer.feed(get(stream))
            peer.respond(stream)
            peer.send(stream, [UInt8](repeating: UInt8(stream), count: 100_000))
            peer.session.finish(stream)
        }
        var slices = 0
        while peer.session.wantsOutput {
            let count = peer.session.produce(into: &peer.sink, atMost: 3_000)
            #expect(count <= 3_000 + 9 + HTTP2Limits.minDataFrame && count == peer.sink.output.count)
            let flushed = peer.reader.read(peer.sink.output)
            peer.sink.output = []
            #expect(flushed.allSatisfy { $0.type != Type.data || Set($0.payload).count <= 1 })
            peer.pull()
            slices += 1
        }
        #expect(slices >= 90)
        #expect(peer.events().suffix(3).sorted() == ["closed 1", "closed 3", "closed 5"])
    }

    @Test func aSinkWithNothingIsNotAskedAgain() {
        let peer = Peer()
        for index in 0..<20 {
            let stream = UInt32(2 * index + 1)
            peer.feed(get(stream))
            peer.respond(stream)
            peer.send(stream, [1, 2, 3])
        }
        peer.flush()
        #expect(peer.sink.asked == 20)
        for _ in 0..<5 { peer.flush() }
        #expect(peer.sink.asked == 20)
        peer.send(39, [4])
        peer.flush()
        #expect(peer.sink.asked == 21)
    }
}

// Each attack, its effect, and the effect on the connection's other streams and on busy but honest clients.

import HTTP2Frames
import Testing

@testable import HTTP2

@Suite struct AttackTests {
    /// Expects that the attack ended the connection because of `limit`, with a GOAWAY that gives the reason.
    func expect(
        _ limit: HTTP2Limit, _ peer: Peer, code: UInt32 = 11, location: SourceLocation = #_sourceLocation
    ) {
        peer.flush()
        let counters = peer.session.counters
        #expect(counters.broken == limit, sourceLocation: location)
        #expect(peer.fatal?.limit == limit, sourceLocation: location)
        #expect(peer.frames.last?.description == "GOAWAY \(code)", sourceLocation: location)
        #expect(peer.frames.last?.text == peer.fatal?.message, sourceLocation: location)
        let finished = peer.session.isFinished
        #expect(finished, sourceLocation: location)
    }

    func ids(_ count: Int, from: Int = 0) -> [UInt32] { (from..<from + count).map { UInt32(2 * $0 + 1) } }

    // MARK: Header sections

    @Test(arguments: [1, 5, 1_000_000]) func continuationFlood(size: Int) {
        let peer = Peer()
        var bytes = frame(Type.headers, stream: 1, block(getFields))
        for index in 0..<5 { bytes += frame(Type.continuation, stream: 1, literal("a\(index)", "b")) }
        peer.feed(bytes, by: size)
        #expect(peer.fatal == nil)
        peer.feed(frame(Type.continuation, stream: 1), by: size)
        expect(.continuations, peer)
    }

    @Test(arguments: [1, 1_000_000]) func fiveContinuationsAreFine(size: Int) {
        let peer = Peer()
        for stream in ids(20) {
            var bytes = frame(Type.headers, Flag.end, stream: stream, block(getFields))
            for index in 0..<5 {
                bytes += frame(
                    Type.continuation, index == 4 ? Flag.endHeaders : 0, stream: stream, literal("a\(index)", "b"))
            }
            peer.feed(bytes, by: size)
        }
        #expect(peer.events().count == 20)
        #expect(peer.fatal == nil)
    }

    @Test func aTooLongHeaderListIsAnsweredAlone() {
        let peer = Peer()
        let long = (0..<3).map { ("n\($0)", String(repeating: "x", count: 6_000)) }
        let section = block(getFields + long)
        peer.feed(
            frame(Type.headers, Flag.end, stream: 1, Array(section[..<16_000]))
                + frame(Type.continuation, Flag.endHeaders, stream: 1, Array(section[16_000...])))
        #expect(peer.flush() == ["HEADERS 1 :status=431 END"])
        #expect(peer.events() == [])
        #expect(peer.serves(3))
        peer.feed(
            frame(Type.headers, stream: 5, Array(section[..<16_000]))
                + frame(Type.continuation, Flag.endHeaders, stream: 5, Array(section[16_000...])) + data(5, "abc"))
        #expect(peer.flush() == ["HEADERS 5 :status=431 END", "RST_STREAM 5 0"])
        let counters = peer.session.counters
        #expect(counters.tooLargeHeaders == 2 && counters.requests == 1)
        let left = peer.session.openStreams
        #expect(left == 0)
    }

    @Test func aHeaderBombEndsTheConnection() {
        let peer = Peer()
        // One field of 3,000 bytes is added to the table (RFC 7541, 6.2.1), and then referenced with one byte (6.1).
        let value = String(repeating: "x", count: 3_000)
        let field = [0x40] + literal("bomb", value).dropFirst()
        let bomb = block(getFields) + field + [UInt8](repeating: 0xbe, count: 10_000)
        peer.feed(frame(Type.headers, 5, stream: 1, bomb))
        expect(.headerBomb, peer)
    }

    // MARK: Frames without effect

    @Test func emptyDataFlood() {
        let peer = Peer()
        for row in [1, 2, 16] {
            let empty = Array(repeating: data(1, ""), count: row).joined()
            peer.feed((row == 1 ? post(1) : []) + empty + data(1, "x") + empty + data(1, "y"))
            #expect(peer.fatal == nil)
        }
        for _ in 0..<16 { peer.feed(data(1, "")) }
        #expect(peer.fatal == nil)
        peer.feed(data(1, ""))
        expect(.emptyData, peer)
    }

    @Test func emptyDataOfPadding() {
        let peer = Peer()
        let padded = frame(Type.data, Flag.padded, stream: 1, [3, 0, 0, 0])
        peer.feed(post(1))
        for _ in 0..<16 { peer.feed(padded) }
        #expect(peer.fatal == nil)
        peer.feed(padded)
        expect(.emptyData, peer)
    }

    @Test func pingFlood() {
        let peer = Peer()
        for _ in 0..<200 {
            peer.feed(ping())
            peer.flush()
        }
        #expect(peer.fatal == nil)
        #expect(peer.serves(1))
        // The response allowed one more ping; the second is too many.
        peer.feed(ping() + ping())
        expect(.pings, peer)
    }

    @Test func answersThatNobodyReadsAreBounded() {
        var limits = HTTP2Limits()
        limits.maxPings = 1_000_000
        let peer = Peer(limits: limits)
        for _ in 0..<1_000 { peer.feed(ping()) }
        #expect(peer.fatal == nil)
        let queued = peer.session.queuedFrames
        #expect(queued == 1_000)
        peer.feed(ping())
        expect(.waitingAnswers, peer)
    }

    @Test func settingsFlood() {
        let peer = Peer()
        for _ in 0..<99 {
            peer.feed(settings((4, 100)))
            peer.flush()
        }
        #expect(peer.fatal == nil)
        peer.feed(settings())
        expect(.settings, peer)
    }

    @Test func priorityFlood() {
        let peer = Peer()
        for index in 0..<200 {
            peer.feed(frame(Type.priority, stream: UInt32(2 * index + 1), u32(0) + [1]))
        }
        #expect(peer.fatal == nil)
        peer.feed(frame(0x10, 0, u32(1) + Array("u=1".utf8)))
        expect(.priorities, peer)
    }

    @Test func windowUpdateFlood() {
        let peer = Peer()
        peer.feed(get(1))
        for _ in 0..<2_002 { peer.feed(windowUpdate(1, 1)) }
        #expect(peer.fatal == nil)
        peer.feed(windowUpdate(0, 1))
        expect(.windowUpdates, peer)
    }

    @Test func floodOfUnknownFrames() {
        let peer = Peer()
        // The client's acknowledgement of our SETTINGS counts as one meaningless frame.
        for index in 0..<1_999 { peer.feed(frame(0x20, stream: UInt32(index), [1, 2, 3])) }
        #expect(peer.fatal == nil)
        peer.feed(frame(0xfa))
        expect(.meaningless, peer)
    }

    // MARK: Streams

    @Test func tooManyStreamsAreRefusedAlone() {
        var limits = HTTP2Limits()
        limits.maxStreams = 10
        let peer = Peer(limits: limits)
        for stream in ids(10) { peer.feed(get(stream)) }
        #expect(peer.flush() == [])
        _ = peer.events()
        #expect(peer.talk(get(21)) == ["RST_STREAM 21 7"])
        #expect(peer.talk(post(23) + data(23, "on its way", end: true)) == ["RST_STREAM 23 7"])
        #expect(peer.events() == [])
        let refused = peer.session.counters.refused
        #expect(refused == 2)
        peer.respond(1, complete: true)
        peer.flush()
        #expect(peer.serves(25))
    }

    @Test func bodyBytesBehindTheEndAreBounded() {
        var limits = HTTP2Limits()
        limits.streamWindow = 65_535
        let peer = Peer(limits: limits)
        peer.feed(post(1))
        peer.respond(1, complete: true)
        peer.flush()
        for _ in 0..<4 { peer.feed(data(1, [UInt8](repeating: 0, count: 16_000))) }
        #expect(peer.fatal == nil)
        #expect(peer.serves(3))
        peer.feed(data(1, [UInt8](repeating: 0, count: 16_000)))
        expect(.lateData, peer, code: 5)
    }

    @Test func bodyBytesOnTheirWayAreNoAttack() {
        // The client may use the larger window, and our response crosses its body on the way.
        let peer = Peer(opened: false)
        peer.feed(preface + settings() + post(1))
        peer.respond(1, complete: true)
        peer.flush()
        let body = [UInt8](repeating: 0, count: 16_384)
        peer.feed(frame(Type.settings, Flag.ack))
        for _ in 0..<16 { peer.feed(data(1, body)) }
        #expect(peer.fatal == nil)
        #expect(peer.serves(3))
        peer.feed(data(1, "x"))
        expect(.lateData, peer, code: 5)
    }

    @Test func nothingIsOnItsWayBehindTheFrameThatEndsAStream() {
        let peer = Peer()
        let last = data(1, "abcd", end: true)
        peer.feed(post(1) + last.prefix(11))
        peer.respond(1, complete: true)
        peer.flush()
        peer.feed(Array(last.dropFirst(11)))
        #expect(peer.fatal == nil)
        peer.feed(data(1, "x"))
        expect(.lateData, peer, code: 5)
    }

    @Test func bodiesOfStreamsThatDrainingIgnoresAreBounded() {
        var limits = HTTP2Limits()
        limits.streamWindow = 65_535
        let peer = Peer(limits: limits)
        peer.feed(get(1))
        peer.session.goAway(.noError, "")
        peer.flush()
        peer.feed(post(3))
        for _ in 0..<4 { peer.feed(data(3, [UInt8](repeating: 0, count: 16_000))) }
        #expect(peer.fatal == nil)
        peer.feed(data(3, [UInt8](repeating: 0, count: 16_000)))
        expect(.lateData, peer, code: 5)
    }

    // MARK: A client that reads a few bytes at a time

    @Test func aDribblingReaderIsServedSlowly() {
        let peer = Peer()
        peer.feed(settings((4, 1)) + get(1))
        peer.respond(1)
        peer.send(1, [UInt8](repeating: 1, count: 100_000))
        peer.flush()
        for _ in 0..<500 {
            peer.feed(windowUpdate(1, 1))
            peer.flush()
        }
        func tiny() -> Int { peer.frames.filter { $0.type == Type.data }.count }
        #expect(tiny() == 16)
        let held = peer.session.counters.heldData
        #expect(held == 1)
        // The rest of the window is not lost, and takes only one frame.
        let deadline = peer.session.deadline
        #expect(deadline == peer.now + 100_000_000)
        peer.now = deadline!
        peer.session.expire(now: peer.now)
        peer.flush()
        #expect(tiny() == 17)
        #expect(peer.frames.last?.payload.count == 485)
        #expect(peer.fatal == nil)
        #expect(peer.serves(3))
    }

    @Test func aHeldStreamGoesOnWhenThereIsRoom() {
        let peer = Peer()
        peer.feed(settings((4, 1)) + get(1))
        peer.respond(1)
        peer.send(1, [UInt8](repeating: 1, count: 10_000))
        peer.flush()
        for _ in 0..<20 {
            peer.feed(windowUpdate(1, 1))
            peer.flush()
        }
        let before = peer.frames.count
        peer.feed(windowUpdate(1, 600))
        peer.flush()
        #expect(peer.frames.count == before + 1)
        let deadline = peer.session.deadline
        #expect(deadline == nil)
    }

    @Test func aTinyMessageIsNotATinyWindow() {
        let peer = Peer()
        peer.feed(get(1))
        peer.respond(1)
        for _ in 0..<1_000 {
            peer.send(1, [1, 2, 3])
            peer.flush()
            peer.feed(windowUpdate(1, 3) + windowUpdate(0, 3))
        }
        #expect(peer.frames.filter { $0.type == Type.data && $0.payload.count == 3 }.count == 1_000)
        let held = peer.session.counters.heldData
        #expect(held == 0)
        #expect(peer.fatal == nil)
    }

    // MARK: Busy but honest

    @Test func manyRequestsAtATime() {
        let peer = Peer()
        var next: UInt32 = 1
        for _ in 0..<300 {
            var bytes: [UInt8] = []
            for _ in 0..<100 {
                bytes += get(next)
                next += 2
            }
            peer.feed(bytes)
            for stream in stride(from: next - 200, to: next, by: 2) { peer.respond(stream, complete: true) }
            peer.flush()
            _ = peer.events()
        }
        #expect(peer.fatal == nil)
        let counters = peer.session.counters
        #expect(counters.requests == 30_000)
    }

    @Test func aReaderThatMeasuresItsPath() {
        let peer = Peer()
        peer.feed(get(1))
        peer.respond(1)
        // A ping and two window updates for each message, a thousand a second.
        for _ in 0..<5_000 {
            peer.send(1, [UInt8](repeating: 1, count: 200))
            peer.flush()
            peer.feed(windowUpdate(1, 200) + windowUpdate(0, 200) + ping())
            peer.now += 1_000_000
        }
        // And keep-alive pings on an idle connection.
        for _ in 0..<1_000 {
            peer.feed(ping())
            peer.flush()
            peer.now += 1_000_000_000
        }
        #expect(peer.fatal == nil)
    }
}

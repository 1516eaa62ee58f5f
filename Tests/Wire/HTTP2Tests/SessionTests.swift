// The events and the output of a session when both sides behave correctly.

import HTTP2Frames
import Testing

@testable import HTTP2

@Suite struct SessionTests {
    @Test func aConnectionBeginsWithOurSettings() {
        var limits = HTTP2Limits()
        limits.maxStreams = 77
        let peer = Peer(limits: limits, opened: false)
        let first = peer.flushFrames()
        #expect(first.map(\.description) == ["SETTINGS", "WINDOW_UPDATE 0 \(limits.connectionWindow - 65_535)"])
        let entries = first[0].payload
        #expect(entries.count == 30)
        #expect(Array(entries[0..<6]) == [0, 4, 0, 4, 0, 0])
        #expect(Array(entries.suffix(6)) == [0, 3, 0, 0, 0, 77])
        let before = peer.session.isOpened
        #expect(!before)
        #expect(peer.talk(preface + settings()) == ["SETTINGS ACK"])
        let after = peer.session.isOpened
        #expect(after)
    }

    @Test func aRequestWithoutBody() {
        let peer = Peer()
        peer.feed(get(1, [("a", "b"), ("c", "")]))
        #expect(peer.events() == ["request 1 GET /x a=b c= END"])
        peer.respond(1, complete: true)
        #expect(peer.flush() == ["HEADERS 1 :status=200 content-type=text/plain END"])
        #expect(peer.events() == ["closed 1"])
        let left = peer.session.openStreams
        #expect(left == 0)
    }

    @Test func aBodyAndTrailersFromThePeer() {
        let peer = Peer()
        peer.feed(post(1) + data(1, "hello") + data(1, "world"))
        peer.feed(headers(1, [("grpc-status", "0")], end: true))
        #expect(peer.events() == ["request 1 POST /x", "data 1 5", "data 1 5", "complete 1 grpc-status=0"])
        #expect(peer.bodies[1] == Array("helloworld".utf8))
    }

    @Test func aHeadIsFoundByName() throws {
        var session = ServerSession()
        let bytes = preface + settings() + get(1, [("grpc-timeout", "1S"), ("te", "trailers")])
        bytes.withUnsafeBytes { bytes in
            session.feed(bytes, now: 0)
            guard case .request(1, let head, true) = session.next() else {
                Issue.record("no request")
                return
            }
            #expect(head.fields.first("te").map { String(decoding: $0, as: UTF8.self) } == "trailers")
            #expect(head.fields.first("tee") == nil)
            #expect(String(decoding: head.authority, as: UTF8.self) == "a")
            #expect(String(decoding: head.scheme, as: UTF8.self) == "http")
            let copy = head.fields.copied()
            #expect(copy.count == 2)
        }
    }

    @Test func aBodyOfOursThenTrailers() {
        let peer = Peer()
        peer.feed(get(1))
        peer.respond(1)
        peer.send(1, Array("abc".utf8))
        #expect(peer.flush() == ["HEADERS 1 :status=200 content-type=text/plain", "DATA 1 3"])
        #expect(peer.flush() == [])
        peer.send(1, Array("de".utf8))
        peer.session.finish(1, trailers: ["grpc-status": "0"])
        #expect(peer.flush() == ["DATA 1 2", "HEADERS 1 grpc-status=0 END"])
        #expect(peer.events().last == "closed 1")
    }

    @Test(arguments: [false, true]) func anEndBehindNothing(asked: Bool) {
        let peer = Peer()
        peer.feed(get(1) + get(3))
        for stream in [UInt32(1), 3] { peer.respond(stream) }
        if asked { peer.flush() }
        peer.session.finish(1, trailers: ["x": "y"])
        peer.session.finish(3)
        let written = peer.flush().filter { !$0.contains(":status") }
        #expect(written.sorted() == ["DATA 3 0 END", "HEADERS 1 x=y END"])
        #expect(peer.events().suffix(2).sorted() == ["closed 1", "closed 3"])
    }

    @Test func aResponseThatEndsFirstStopsThePeer() {
        let peer = Peer()
        peer.feed(post(1) + data(1, "ab"))
        peer.respond(1, complete: true)
        peer.feed(data(1, "cd"))
        #expect(peer.events() == ["request 1 POST /x", "data 1 2"])
        #expect(peer.flush().suffix(1) == ["RST_STREAM 1 0"])
        #expect(peer.events() == ["closed 1"])
        #expect(peer.talk(data(1, "ef")) == [])
        let late = peer.session.counters.lateBytes
        #expect(late == 4)
        #expect(peer.serves(3))
    }

    @Test func aResetByThePeerInTheMiddleOfABody() {
        let peer = Peer()
        peer.feed(get(1) + get(3))
        for stream in [UInt32(1), 3] {
            peer.respond(stream)
            peer.send(stream, [UInt8](repeating: 7, count: 30_000))
        }
        peer.flush(atMost: 20_000)
        _ = peer.events()
        peer.feed(reset(1, 8))
        #expect(peer.events() == ["reset 1 8"])
        peer.session.finish(3)
        let rest = peer.flushFrames()
        #expect(rest.allSatisfy { $0.stream == 3 })
        #expect(peer.events() == ["closed 3"])
        let sent = peer.frames.filter { $0.stream == 3 && $0.type == Type.data }.reduce(0) { $0 + $1.payload.count }
        #expect(sent == 30_000)
    }

    @Test func aResetByTheOwnerIsTheEnd() {
        let peer = Peer()
        peer.feed(post(1) + data(1, "x"))
        peer.respond(1)
        peer.send(1, [1, 2, 3])
        _ = peer.events()
        peer.session.reset(1, .cancel)
        #expect(peer.flush().suffix(1) == ["RST_STREAM 1 8"])
        #expect(peer.talk(data(1, "y", end: true)) == [])
        #expect(peer.events() == [])
        #expect(peer.serves(3))
    }

    @Test func whatIsHeldComesLater() {
        let peer = Peer()
        let bytes = post(1) + data(1, "abc") + data(1, "def", end: true) + get(3)
        bytes.withUnsafeBytes { bytes in
            peer.session.feed(bytes, now: peer.now)
            peer.note(peer.session.next()!)
            peer.note(peer.session.next()!)
            peer.session.hold()
        }
        #expect(peer.events() == ["request 1 POST /x", "data 1 3"])
        let held = peer.session.hasPartialFrame
        #expect(held)
        peer.pull()
        #expect(peer.events() == ["data 1 3", "complete 1", "request 3 GET /x END"])
        #expect(peer.bodies[1] == Array("abcdef".utf8))
        peer.feed([])
        let buffered = peer.session.hasPartialFrame
        #expect(!buffered)
    }

    @Test func whatIsUnfinishedIsSeen() {
        let peer = Peer(opened: false)
        func isPartial() -> Bool { peer.session.hasPartialFrame }
        #expect(!isPartial())
        peer.feed(Array(preface.prefix(10)))
        #expect(isPartial())
        peer.feed(preface.dropFirst(10) + settings())
        #expect(!isPartial())
        peer.feed(Array(ping().prefix(4)))
        #expect(isPartial())
        peer.feed(Array(ping().dropFirst(4)))
        #expect(!isPartial())
        peer.feed(frame(Type.headers, Flag.end, stream: 1, block(getFields)))
        #expect(isPartial())
        peer.feed(frame(Type.continuation, Flag.endHeaders, stream: 1))
        #expect(!isPartial())
        #expect(peer.events() == ["request 1 GET /x END"])
    }

    @Test func anInformationalResponseComesFirst() {
        let peer = Peer()
        peer.feed(post(1, [("expect", "100-continue")]))
        peer.session.inform(1, status: 100)
        peer.respond(1, complete: true)
        #expect(
            peer.flush() == [
                "HEADERS 1 :status=100", "HEADERS 1 :status=200 content-type=text/plain END", "RST_STREAM 1 0",
            ])
    }

    @Test func pingsAreAnsweredBothWays() {
        let peer = Peer()
        #expect(peer.talk(ping(9)) == ["PING ACK"])
        #expect(peer.frames.last?.payload == [UInt8](repeating: 9, count: 8))
        peer.session.ping(0x0101_0101_0101_0101)
        #expect(peer.flush() == ["PING"])
        peer.feed(ping(1, ack: true))
        #expect(peer.events() == ["pong \(0x0101_0101_0101_0101)"])
    }

    @Test func drainingServesWhatIsOpen() {
        let peer = Peer()
        peer.feed(get(1))
        peer.session.shutdownNotice()
        let notice = peer.flushFrames()
        #expect(notice.map(\.description) == ["GOAWAY 0"])
        #expect(notice[0].payload.prefix(4) == [0x7f, 0xff, 0xff, 0xff])
        peer.feed(get(3))
        #expect(peer.events() == ["request 1 GET /x END", "request 3 GET /x END"])
        peer.session.goAway(.noError, "the broker is shutting down")
        let last = peer.flushFrames()
        #expect(last[0].payload.prefix(4) == [0, 0, 0, 3])
        #expect(last[0].text == "the broker is shutting down")
        peer.feed(get(5))
        #expect(peer.events() == [])
        for stream in [UInt32(1), 3] { peer.respond(stream, complete: true) }
        let before = peer.session.isFinished
        #expect(!before)
        peer.flush()
        #expect(peer.events() == ["closed 1", "closed 3"])
        let after = peer.session.isFinished
        #expect(after)
    }

    @Test func anErrorOfTheOwnersIsTheLastWord() {
        let peer = Peer()
        peer.feed(get(1))
        peer.respond(1)
        peer.send(1, [UInt8](repeating: 1, count: 1_000))
        peer.session.goAway(.internalError, "it broke")
        #expect(peer.flush().last == "GOAWAY 2")
        #expect(peer.fatal?.message == "it broke")
        let finished = peer.session.isFinished
        let wants = peer.session.wantsOutput
        #expect(finished && !wants)
        #expect(peer.talk(get(3)) == [])
    }

    @Test func thePeersErrorEndsTheConnection() {
        let peer = Peer()
        peer.feed(frame(Type.goAway, 0, u32(0) + u32(2) + Array("oh dear".utf8)) + get(1))
        #expect(peer.events() == ["closed by peer 2 oh dear"])
        let finished = peer.session.isFinished
        #expect(finished)
    }

    @Test func thePeersGoodbyeLetsStreamsEnd() {
        let peer = Peer()
        peer.feed(get(1) + frame(Type.goAway, 0, u32(0) + u32(0)))
        #expect(peer.events() == ["request 1 GET /x END"])
        peer.respond(1, complete: true)
        #expect(peer.flush().count == 1)
        let finished = peer.session.isFinished
        #expect(finished)
    }

    @Test func callsOnStreamsThatAreGoneDoNothing() {
        let peer = Peer()
        peer.session.finish(7)
        peer.session.bodyAvailable(7)
        peer.session.reset(7, .cancel)
        peer.session.consume(7, 100)
        peer.session.respond(7, status: 200, fields: [:], complete: true)
        peer.session.setHandle(3, stream: 7)
        let room = peer.session.room(7)
        let handle = peer.session.handle(of: 7)
        #expect(room == 0 && handle == nil)
        #expect(peer.flush() == [])
        #expect(peer.serves(9))
    }

    /// The same conversation, split into pieces of every size.
    @Test(arguments: [1, 2, 3, 7, 9, 10, 64]) func piecesOfAnySizeMeanTheSame(size: Int) {
        let long = (0..<4).map { ("name-\($0)", String(repeating: "v", count: 3_000)) }
        let section = block(postFields + long)
        let talk =
            preface + settings() + frame(Type.headers, stream: 1, Array(section[..<5_000]))
            + frame(Type.continuation, stream: 1, Array(section[5_000..<9_000]))
            + frame(Type.continuation, Flag.endHeaders, stream: 1, Array(section[9_000...])) + data(1, "some body")
            + ping() + data(1, "", end: true) + get(3) + windowUpdate(0, 10) + headers(5, postFields)
            + headers(5, [("t", "u")], end: true) + reset(3, 5)
        func run(_ size: Int) -> ([String], [UInt32: [UInt8]]) {
            let peer = Peer(opened: false)
            peer.feed(talk, by: size)
            return (peer.events().filter { !$0.hasPrefix("data") }, peer.bodies)
        }
        let (whole, pieces) = (run(.max), run(size))
        #expect(whole.0.count == 6 && whole.1[1] == Array("some body".utf8))
        #expect(pieces.0 == whole.0)
        #expect(pieces.1 == whole.1)
    }
}

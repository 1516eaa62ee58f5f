// What a server MUST do according to RFC 9113. The section is in each test's name.

import HTTP2Frames
import Testing

@testable import HTTP2

private let badRequests: [(section: String, fields: [(String, String)])] = [
    ("8.2.1, upper case", getFields + [("Name", "x")]),
    ("8.2.1, a space in a name", getFields + [("a b", "x")]),
    ("8.2.1, a colon in a name", getFields + [("a:b", "x")]),
    ("8.2.1, NUL in a value", getFields + [("host", "x\0y")]),
    ("8.2.2, connection", getFields + [("connection", "close")]),
    ("8.2.2, keep-alive", getFields + [("keep-alive", "1")]),
    ("8.2.2, proxy-connection", getFields + [("proxy-connection", "close")]),
    ("8.2.2, transfer-encoding", getFields + [("transfer-encoding", "chunked")]),
    ("8.2.2, upgrade", getFields + [("upgrade", "h2c")]),
    ("8.2.2, te other than trailers", getFields + [("te", "gzip")]),
    ("8.3, a pseudo-header behind a field", [(":method", "GET"), (":scheme", "http"), ("a", "b"), (":path", "/")]),
    ("8.3, an unknown pseudo-header", getFields + [(":unknown", "x")]),
    ("8.3, a response's pseudo-header", getFields + [(":status", "200")]),
    ("8.3.1, no method", [(":scheme", "http"), (":path", "/")]),
    ("8.3.1, no scheme", [(":method", "GET"), (":path", "/")]),
    ("8.3.1, no path", [(":method", "GET"), (":scheme", "http")]),
    ("8.3.1, an empty path", [(":method", "GET"), (":scheme", "http"), (":path", "")]),
    ("8.3.1, two methods", [(":method", "GET")] + getFields),
    ("8.3.1, two schemes", getFields.prefix(2) + getFields.suffix(3)),
    ("8.3.1, two paths", getFields + [(":path", "/")]),
    ("8.5, CONNECT with a path", [(":method", "CONNECT"), (":authority", "a"), (":path", "/")]),
    ("8.1.1, content-length beside no body", getFields + [("content-length", "5")]),
    ("8.1.1, two content-lengths", getFields + [("content-length", "0"), ("content-length", "1")]),
]

@Suite struct RFC9113Tests {
    /// Checks that the connection ends with one of `codes`, and that nothing that follows is read.
    private func endsConnection(
        _ bytes: [UInt8], _ codes: UInt32..., after before: [UInt8] = [],
        location: SourceLocation = #_sourceLocation
    ) {
        for size in [1, Int.max] {
            let peer = Peer()
            peer.feed(before)
            peer.feed(bytes + get(1_001), by: size)
            peer.flush()
            let last = peer.frames.last
            let isRight = last?.type == Type.goAway && codes.contains(last?.code ?? 0)
            #expect(isRight, "\(peer.frames)", sourceLocation: location)
            #expect(peer.fatal?.code.rawValue == last?.code, sourceLocation: location)
            #expect(!peer.events().contains { $0.hasPrefix("request 1001") }, sourceLocation: location)
            let finished = peer.session.isFinished
            #expect(finished, sourceLocation: location)
        }
    }

    /// Checks that stream 1 is reset with `code`, that the reset is reported if the request was, and that the
    /// connection continues.
    private func resetsStream(
        _ bytes: [UInt8], _ code: UInt32, _ events: [String]? = nil, location: SourceLocation = #_sourceLocation
    ) {
        for size in [1, Int.max] {
            let peer = Peer()
            peer.feed(bytes, by: size)
            let written = peer.flush()
            #expect(written.contains("RST_STREAM 1 \(code)"), "\(written)", sourceLocation: location)
            let reported = peer.events().filter { !$0.hasPrefix("data") }
            if let events { #expect(reported == events, sourceLocation: location) }
            let left = peer.session.openStreams
            #expect(left == 0, sourceLocation: location)
            #expect(peer.serves(1_001), sourceLocation: location)
        }
    }

    // MARK: 3, 4: starting, frames

    @Test func section3_4_thePrefaceMustBeRight() {
        for bad in ["GET / HTTP/1.1\r\n\r\n........", "PRI * HTTP/2.0\r\n\r\nSM\r\n\rX"] {
            let peer = Peer(opened: false)
            peer.feed(Array(bad.utf8))
            peer.flush()
            #expect(peer.frames.last?.description == "GOAWAY 1")
            #expect(peer.fatal?.message.contains("preface") == true)
        }
    }

    @Test func section3_4_settingsComeFirst() {
        for first in [ping(), get(1), frame(Type.settings, Flag.ack)] {
            let peer = Peer(opened: false)
            peer.feed(preface + first + settings())
            peer.flush()
            #expect(peer.frames.last?.description == "GOAWAY 1")
            #expect(peer.events() == ["fatal 1"])
        }
    }

    @Test func section4_1_unknownFramesAndFlagsAreIgnored() {
        let peer = Peer()
        peer.feed(frame(0x99, 0xff, stream: 5, [1, 2, 3]) + frame(Type.ping, 0xfe, [UInt8](repeating: 0, count: 8)))
        #expect(peer.flush() == ["PING ACK"])
        #expect(peer.serves(1))
    }

    @Test func section4_1_theReservedBitIsIgnored() {
        let peer = Peer()
        #expect(peer.talk(frame(Type.ping, stream: 0x8000_0000, [UInt8](repeating: 0, count: 8))) == ["PING ACK"])
    }

    @Test func section4_2_aFrameBeyondTheMaximum() {
        endsConnection(data(1, [UInt8](repeating: 0, count: 16_385)), 6, after: post(1))
        endsConnection(frame(Type.headers, 5, stream: 1, length: 1 << 24 - 1), 6)
    }

    @Test func section4_2_aFrameAtTheMaximumIsFine() {
        let peer = Peer()
        peer.feed(post(1) + data(1, [UInt8](repeating: 0, count: 16_384)))
        #expect(peer.events().last == "data 1 16384")
    }

    @Test func section4_3_aBadHeaderBlock() {
        endsConnection(frame(Type.headers, 5, stream: 1, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), 9)
        endsConnection(frame(Type.headers, 5, stream: 1, [0x80]), 9)
    }

    @Test func section4_3_nothingComesBetweenContinuations() {
        let begin = frame(Type.headers, 1, stream: 1, block(getFields))
        endsConnection(begin + ping(), 1)
        endsConnection(begin + get(3), 1)
        endsConnection(begin + frame(0x77), 1)
        endsConnection(begin + frame(Type.continuation, Flag.endHeaders, stream: 3), 1)
    }

    // MARK: 5: streams

    @Test func section5_1_idleStreamsTakeNothingButHeaders() {
        endsConnection(data(1, "x"), 1)
        endsConnection(data(1, ""), 1)
        endsConnection(reset(1), 1)
        endsConnection(windowUpdate(1, 5), 1)
    }

    @Test func section5_1_halfClosedStreams() {
        endsConnection(data(1, "x"), 5, after: get(1))
        endsConnection(headers(1, [("a", "b")], end: true), 5, after: get(1))
        let peer = Peer()
        peer.feed(get(1) + windowUpdate(1, 5) + frame(Type.priority, stream: 1, u32(0) + [1]))
        #expect(peer.flush() == [])
        peer.feed(reset(1))
        #expect(peer.events() == ["request 1 GET /x END", "reset 1 8"])
    }

    @Test func section5_1_closedStreams() {
        let peer = Peer()
        #expect(peer.serves(1))
        peer.feed(windowUpdate(1, 5) + reset(1) + frame(Type.priority, stream: 1, u32(0) + [1]))
        #expect(peer.flush() == [])
        peer.feed(data(1, "beyond all that was on its way"))
        #expect(peer.flush() == ["GOAWAY 5"])
    }

    @Test func section5_1_1_streamIdentifiers() {
        endsConnection(get(2), 1)
        endsConnection(get(0), 1)
        // An id lower than the last belongs to a closed stream: its header section updates the compression's state and
        // is ignored.
        let peer = Peer()
        peer.feed(get(5) + get(3))
        #expect(peer.events() == ["request 5 GET /x END"])
        #expect(peer.serves(7))
    }

    @Test func section5_1_1_highestIdentifier() {
        let peer = Peer()
        #expect(peer.serves(0x7fff_ffff))
    }

    @Test func section5_3_aStreamThatDependsOnItself() {
        // An error in RFC 7540 that RFC 9113 dropped together with priorities; nghttp2 still enforces it.
        endsConnection(frame(Type.headers, 0x25, stream: 1, u32(1) + [16] + block(getFields)), 1)
    }

    // MARK: 6: frames

    @Test func section6_1_data() {
        endsConnection(data(0, "x"), 1)
        endsConnection(frame(Type.data, Flag.padded, stream: 1, [9, 1, 2]), 1, after: post(1))
        endsConnection(frame(Type.data, Flag.padded, stream: 1), 1, 6, after: post(1))
    }

    @Test func section6_1_paddingIsNotBody() {
        let peer = Peer()
        peer.feed(post(1) + frame(Type.data, Flag.padded | Flag.end, stream: 1, [2, 65, 66, 0, 0]))
        #expect(peer.bodies[1] == [65, 66])
        #expect(peer.events().last == "complete 1")
    }

    @Test func section6_2_headers() {
        endsConnection(frame(Type.headers, 0x0d, stream: 1, [200] + block(getFields)), 1)
        endsConnection(frame(Type.headers, 0x25, stream: 1, [0, 0]), 6)
    }

    @Test func section6_3_priority() {
        endsConnection(frame(Type.priority, stream: 0, u32(1) + [1]), 1)
        // A stream error that may be treated as a connection error (5.4.1).
        endsConnection(frame(Type.priority, stream: 1, [1, 2, 3]), 6, after: post(1))
    }

    @Test func section6_4_resetStream() {
        endsConnection(reset(0), 1)
        endsConnection(frame(Type.reset, stream: 1, [0, 0, 0]), 6, after: post(1))
    }

    @Test func section6_5_settings() {
        endsConnection(frame(Type.settings, stream: 1), 1)
        endsConnection(frame(Type.settings, 0, [0, 3, 0, 0, 0]), 6)
        endsConnection(frame(Type.settings, Flag.ack, [0, 3, 0, 0, 0, 1]), 6)
    }

    @Test func section6_5_2_values() {
        endsConnection(settings((2, 2)), 1)
        endsConnection(settings((4, 0x8000_0000)), 3)
        endsConnection(settings((5, 16_383)), 1)
        endsConnection(settings((5, 1 << 24)), 1)
        let peer = Peer()
        #expect(peer.talk(settings((5, 1 << 24 - 1), (4, 0x7fff_ffff), (0x99, 7), (1, 0))) == ["SETTINGS ACK"])
        #expect(peer.serves(1))
    }

    @Test func section6_5_3_everySettingsIsAnswered() {
        let peer = Peer()
        #expect(peer.talk(settings() + settings((4, 5)) + settings()).filter { $0 == "SETTINGS ACK" }.count == 3)
    }

    @Test func section6_6_aClientCannotPush() {
        endsConnection(frame(Type.push, Flag.endHeaders, stream: 1, u32(2) + block(getFields)), 1, after: post(1))
    }

    @Test func section6_7_ping() {
        endsConnection(frame(Type.ping, stream: 1, [UInt8](repeating: 0, count: 8)), 1)
        endsConnection(frame(Type.ping, 0, [UInt8](repeating: 0, count: 7)), 6)
        let peer = Peer()
        #expect(peer.talk(ping(ack: true)) == [])
    }

    @Test func section6_8_goAway() {
        endsConnection(frame(Type.goAway, stream: 1, u32(0) + u32(0)), 1)
        endsConnection(frame(Type.goAway, 0, [0, 0, 0]), 6)
    }

    @Test func section6_9_windowUpdate() {
        endsConnection(windowUpdate(0, 0), 1)
        // A stream error that may be treated as a connection error (5.4.1).
        endsConnection(windowUpdate(1, 0), 1, after: post(1))
        endsConnection(frame(Type.windowUpdate, stream: 1, [0, 0, 1]), 6, after: post(1))
    }

    @Test func section6_9_1_windowsHaveAnEnd() {
        endsConnection(windowUpdate(0, 0x7fff_ffff), 3)
        resetsStream(post(1) + windowUpdate(1, 0x7fff_ffff), 3, ["request 1 POST /x", "reset 1 3"])
    }

    @Test func section6_9_2_initialWindowOverflows() {
        let peer = Peer()
        let written = peer.talk(post(1) + windowUpdate(1, 0x7fff_0000) + settings((4, 0x7fff_ffff)))
        // The overflow should be a connection error; nghttp2 ends only the streams whose windows overflow.
        #expect(written == ["SETTINGS ACK", "RST_STREAM 1 3"])
        #expect(peer.events() == ["request 1 POST /x", "reset 1 3"])
    }

    @Test func section6_10_continuation() {
        endsConnection(frame(Type.continuation, Flag.endHeaders, stream: 1, block(getFields)), 1)
        endsConnection(frame(Type.continuation, Flag.endHeaders, stream: 1), 1, after: post(1))
        endsConnection(frame(Type.continuation, Flag.endHeaders, stream: 0), 1)
    }

    // MARK: 8: HTTP

    @Test(arguments: badRequests.indices) func section8_aMalformedRequestIsResetAlone(index: Int) {
        let request = badRequests[index]
        for size in [1, Int.max] {
            let peer = Peer()
            peer.feed(headers(1, request.fields, end: true), by: size)
            #expect(peer.flush() == ["RST_STREAM 1 1"], "\(request.section)")
            #expect(peer.events() == [], "\(request.section)")
            #expect(peer.serves(3), "\(request.section)")
        }
    }

    @Test func section8_1_trailersMustEndTheStream() {
        resetsStream(post(1) + headers(1, [("a", "b")]), 1, ["request 1 POST /x", "reset 1 1"])
    }

    @Test func section8_1_trailersHaveNoPseudoHeaders() {
        resetsStream(post(1) + headers(1, [(":method", "GET")], end: true), 1, ["request 1 POST /x", "reset 1 1"])
    }

    @Test func section8_1_1_contentLengthIsTheBodysLength() {
        let reported = ["request 1 POST /x content-length=3", "reset 1 1"]
        resetsStream(post(1, [("content-length", "3")]) + data(1, "ab", end: true), 1, reported)
        resetsStream(post(1, [("content-length", "3")]) + data(1, "abcd"), 1, reported)
        let peer = Peer()
        peer.feed(post(1, [("content-length", "3")]) + data(1, "a") + data(1, "bc", end: true))
        #expect(peer.events().last == "complete 1")
    }

    @Test func section8_2_2_teMayBeTrailers() {
        let peer = Peer()
        peer.feed(get(1, [("te", "trailers")]))
        #expect(peer.events() == ["request 1 GET /x te=trailers END"])
    }

    @Test func section8_5_connect() {
        let peer = Peer()
        peer.feed(headers(1, [(":method", "CONNECT"), (":authority", "a:1")]))
        #expect(peer.events() == ["request 1 CONNECT "])
    }
}

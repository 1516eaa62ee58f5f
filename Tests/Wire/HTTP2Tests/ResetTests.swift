// Rapid reset (CVE-2023-44487), and similar patterns that are normal ends of streams.

import HTTP2Frames
import Testing

@testable import HTTP2

extension AttackTests {
    @Test func rapidReset() {
        let peer = Peer()
        for stream in ids(1_000) { peer.feed(get(stream) + reset(stream)) }
        #expect(peer.fatal == nil)
        #expect(peer.serves(2_001))
        peer.feed(get(2_003) + reset(2_003))
        expect(.resets, peer)
        let left = peer.session.openStreams
        #expect(left == 0)
    }

    /// A subscription ends in this way: the client resets a stream that has been answered.
    @Test func resetsOfAnsweredStreamsAreFree() {
        let peer = Peer()
        for stream in ids(3_000) {
            peer.feed(get(stream))
            peer.respond(stream)
            peer.flush()
            peer.feed(reset(stream))
        }
        #expect(peer.fatal == nil)
        let left = peer.session.openStreams
        #expect(left == 0)
        #expect(peer.serves(6_001))
    }

    /// The client could not have seen such a response.
    @Test func aResponseThatIsNotWrittenYetIsNone() {
        let peer = Peer()
        for stream in ids(1_001) {
            peer.feed(get(stream))
            peer.respond(stream)
            peer.feed(reset(stream))
        }
        expect(.resets, peer)
    }

    @Test func anInformationalResponseIsNone() {
        let peer = Peer()
        for stream in ids(1_001) {
            peer.feed(post(stream))
            peer.session.inform(stream, status: 100)
            peer.flush()
            peer.feed(reset(stream))
        }
        expect(.resets, peer)
    }

    @Test func resetsOfStreamsThatAreGoneMeanNothing() {
        let peer = Peer()
        peer.feed(get(1))
        peer.respond(1, complete: true)
        peer.flush()
        // The client's acknowledgement of our SETTINGS counts as one meaningless frame.
        for _ in 0..<1_999 { peer.feed(reset(1)) }
        #expect(peer.fatal == nil)
        #expect(peer.serves(3))
        peer.feed(reset(1))
        expect(.meaningless, peer)
    }

    @Test func resetsAreForgottenWithTime() {
        let peer = Peer()
        for stream in ids(3_000) {
            peer.feed(get(stream) + reset(stream))
            peer.flush()
            peer.now += 40_000_000
        }
        #expect(peer.fatal == nil)
    }

    @Test func streamsThatWeMustResetCount() {
        let peer = Peer()
        // Each request is malformed, because it has no :path (RFC 9113, 8.3.1).
        for stream in ids(1_000) {
            peer.feed(headers(stream, [(":method", "GET"), (":scheme", "http")], end: true))
            peer.flush()
        }
        #expect(peer.fatal == nil)
        #expect(peer.serves(2_001))
        peer.feed(headers(2_003, [(":method", "GET"), (":scheme", "http")], end: true))
        expect(.resets, peer)
        let errors = peer.session.counters.streamErrors
        #expect(errors == 1_001)
    }

    @Test func windowsOverrunCount() {
        var limits = HTTP2Limits()
        limits.streamWindow = 65_535
        limits.maxResets = 3
        let peer = Peer(limits: limits)
        for stream in ids(4) {
            // The header says 1 byte (RFC 9113, 8.1.1).
            peer.feed(post(stream, [("content-length", "1")]) + data(stream, "ab"))
            peer.flush()
        }
        expect(.resets, peer)
        #expect(peer.events().filter { $0.hasPrefix("reset") } == ["reset 1 1", "reset 3 1", "reset 5 1"])
    }
}

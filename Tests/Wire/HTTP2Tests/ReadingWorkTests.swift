// The cost of reading is reported to the owner in units of work, not time: headers by their decompressed size, frames
// that cause no event, and streams that are checked for window space.

import HTTP2Frames
import Testing

@testable import HTTP2

@Suite struct ReadingWorkTests {
    /// A thousand frames.
    private let updates: [UInt8] = (0..<1_000).flatMap { _ in windowUpdate(0, 1) }

    private func sum(_ peer: Peer) -> Int { peer.worked.reduce(0, +) }

    /// A block of about 90 bytes that refers about 90 times to a field of `size` bytes in HPACK's table.
    private func primed(_ peer: Peer, size: Int) -> [UInt8] {
        // RFC 7541, 6.2.1.
        let field = [0x40] + literal("a", String(repeating: "x", count: size)).dropFirst()
        peer.feed(frame(Type.headers, Flag.end | Flag.endHeaders, stream: 1, block(getFields) + field))
        return block(getFields)
    }

    /// Streams without a window that have data to send.
    private func blocked(_ count: Int) -> Peer {
        let peer = Peer(opened: false)
        peer.feed(preface + settings((4, 0)) + frame(Type.settings, Flag.ack))
        for index in 0..<count {
            let stream = UInt32(2 * index + 1)
            peer.feed(get(stream))
            peer.respond(stream)
            peer.send(stream, [1])
            _ = peer.session.room(stream)
        }
        peer.flush()
        _ = peer.events()
        return peer
    }

    @Test func headersThatAreRefusedCountByWhatTheyExpandTo() {
        let peer = Peer()
        let head = primed(peer, size: 3_000)
        var bytes: [UInt8] = []
        // The newest entry of the table (RFC 7541, 6.1), 80 times: 240 KiB, too much for a request.
        for stream in 1...50 {
            let fields = head + [UInt8](repeating: 0xbe, count: 80)
            bytes += frame(Type.headers, Flag.end | Flag.endHeaders, stream: UInt32(2 * stream + 1), fields)
        }
        peer.feed(bytes)
        let counters = peer.session.counters
        #expect(counters.tooLargeHeaders == 50)
        let expanded = 50 * 80 * 3_000
        #expect(sum(peer) >= expanded / 512)
        #expect(peer.worked.count >= 50, "each of them by itself")
    }

    @Test func fieldsOfARequestAreCounted() {
        let peer = Peer()
        let head = primed(peer, size: 0)
        let fields = head + [UInt8](repeating: 0xbe, count: 400)
        for stream in 1...20 {
            peer.feed(frame(Type.headers, Flag.end | Flag.endHeaders, stream: UInt32(2 * stream + 1), fields))
        }
        #expect(peer.events().count == 21)
        let expanded = 20 * 400 * 33
        #expect(sum(peer) >= expanded / 512)
    }

    /// nghttp2 silently decodes the header section of such a stream, to keep its table up to date.
    @Test func headersOfAStreamThatIsGoneAreCounted() {
        let peer = Peer()
        _ = primed(peer, size: 0)
        peer.respond(1, complete: true)
        peer.flush()
        peer.feed(frame(Type.headers, Flag.end | Flag.endHeaders, stream: 1, [UInt8](repeating: 0xbe, count: 16_000)))
        #expect(peer.fatal == nil)
        let least = 16_000 * ReadingWork.compressed / 512
        #expect(sum(peer) >= least)
    }

    @Test func framesThatTellNothingAreCounted() {
        let peer = Peer()
        peer.feed(updates)
        #expect(peer.worked.count >= 15 && peer.worked.allSatisfy { $0 < 20 })
    }

    /// The owner may stop at any reported work and continue from there.
    @Test func theOwnerMayStopInBetween() {
        let peer = Peer()
        let bytes = updates + get(1)
        bytes.withUnsafeBytes {
            peer.session.feed($0, now: peer.now)
            let event = peer.session.next()
            guard case .worked? = event else {
                Issue.record("nothing was reported")
                return
            }
            peer.session.hold()
        }
        let read = peer.session.counters.windowUpdates
        #expect(read < 100)
        peer.pull()
        #expect(peer.events().count == 1)
        let all = peer.session.counters.windowUpdates
        #expect(all == 1_000)
    }

    /// A thousand frames do not scan a hundred streams each.
    @Test func streamsAreLookedAtOnceForManyFrames() {
        let peer = blocked(100)
        let before = sum(peer)
        peer.feed(updates)
        #expect(peer.events() == [])
        let each = ReadingWork.frame + 100 * ReadingWork.stream
        let most = 1_000 * each / 512 / 4
        #expect(sum(peer) - before < most)
    }

    /// Window space is reported before the events of later frames.
    @Test func roomIsToldInItsTurn() {
        let peer = Peer()
        peer.feed(get(1))
        peer.respond(1)
        peer.send(1, [UInt8](repeating: 1, count: 100_000))
        peer.feed(windowUpdate(1, 100_000))
        peer.flush()
        let room = peer.session.room(1)
        #expect(room == 0)
        _ = peer.events()
        peer.feed(windowUpdate(0, 1_000) + windowUpdate(0, 1_000) + get(3))
        #expect(peer.events().map { $0.prefix(10) } == ["writable 1", "request 3 "])
        peer.flush()
        peer.feed(windowUpdate(0, 1_000))
        #expect(peer.events() == ["writable 1"])
    }
}

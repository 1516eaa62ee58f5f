// Consecutive items are reported as one run, which has the same meaning as the single items.

import Bytes
import Testing

@testable import RSocket

@Suite struct PayloadRunTests {
    private static let setupAndChannel = encoded {
        FrameWriter.setup(into: &$0)
        write(.requestChannel, nil, Array("first".utf8), stream: 5, complete: false, into: &$0)
    }

    private func item(
        _ count: Int, stream: UInt32 = 5, metadata: [UInt8]? = nil, complete: Bool = false, fragment: Int = 0
    ) -> [UInt8] {
        encoded {
            write(
                .payload, metadata, pattern(count, 7), stream: stream, complete: complete, fragment: fragment, into: &$0
            )
        }
    }

    /// The results of `bytes` on an open channel, with runs allowed and one by one.
    private func run(_ bytes: [UInt8], limits: ConnectionLimits = ConnectionLimits()) -> Peer {
        let together = Peer(limits: limits)
        var without = limits
        without.maxRunData = -1
        let singly = Peer(limits: without)
        for peer in [together, singly] {
            peer.feed(Self.setupAndChannel)
            peer.feed(bytes)
        }
        #expect(singly.runs == 0)
        #expect(together.transcript == singly.transcript)
        return together
    }

    @Test func itemsOfOneReadAreOneRun() {
        let peer = run((0..<500).flatMap { item($0 % 40) })
        #expect(peer.runs == 1)
        #expect(peer.transcript.count == 502)
    }

    @Test func aRunEndsWhereSomethingElseBegins() {
        let keepalive = encoded {
            FrameWriter.keepalive(
                respond: true, position: 0, data: UnsafeRawBufferPointer(start: nil, count: 0), into: &$0)
        }
        let others: [[UInt8]] = [
            keepalive, item(3, metadata: [1, 2]), item(3, complete: true), item(300, fragment: 100),
            item(3, stream: 7), encoded { FrameWriter.requestN(stream: 5, n: 3, into: &$0) },
            encoded { FrameWriter.cancel(stream: 5, into: &$0) },
        ]
        for other in others {
            #expect(run(item(1) + item(2) + other + item(3)).runs >= 1)
        }
    }

    /// Flags and bits that a run does not allow: each such frame is handled separately.
    @Test(arguments: 0..<64) func everyBitOfAHeaderIsLookedAt(bit: Int) {
        var odd = item(20)
        // Length, stream, type and flags: 72 bits, of which the low byte of the length stays intact.
        let place = bit < 16 ? bit / 8 : 1 + bit / 8
        odd[place] ^= 1 << UInt8(bit % 8)
        _ = run(item(1) + odd + item(2) + item(3))
    }

    @Test func anItemThatIsTooLongIsNotPartOfIt() {
        var limits = ConnectionLimits()
        limits.maxRunData = 100
        limits.maxPayload = 200
        let peer = run(item(99) + item(100) + item(101) + item(5), limits: limits)
        #expect(peer.runs == 2)
        #expect(peer.transcript.count == 6)
        limits.maxRunData = 1000
        #expect(run(item(200) + item(201) + item(5), limits: limits).transcript.last?.hasPrefix("refuse 5") == true)
    }

    @Test func whatHasNotComeWholeWaits() {
        let bytes = item(30) + item(40)
        for cut in 0...bytes.count {
            let peer = Peer()
            peer.feed(Self.setupAndChannel)
            peer.feed(bytes[..<cut])
            peer.feed(bytes[cut...])
            #expect(peer.transcript.count == 4)
            #expect(peer.connection.bufferedBytes == 0)
        }
    }

    @Test func nothingIsTakenOfAStreamThatIsNotAnOpenChannel() {
        let other = encoded { write(.requestStream, nil, [], stream: 5, into: &$0) }
        for before in [other, []] {
            let peer = Peer()
            peer.feed(encoded { FrameWriter.setup(into: &$0) } + before + item(1) + item(2))
            #expect(peer.runs == 0)
        }
        let peer = Peer()
        peer.feed(Self.setupAndChannel)
        peer.connection.cancelRequester(stream: 5)
        peer.feed(item(1) + item(2))
        #expect(peer.runs == 0)
        #expect(peer.transcript.count == 2)
    }
}

// The positions and frames of a connection that can be resumed: positions in both directions, frames kept until they
// are acknowledged, and what is discarded with a broken socket.

import Bytes
import Testing

@testable import RSocket

@Suite struct ResumptionTests {
    // The client's direction: positions

    /// The worked example of the protocol's notes: two PAYLOADs of 12 bytes to the client, a request of 27 bytes from
    /// it.
    @Test func theWorkedExample() {
        let request = encoded { write(.requestStream, Array("mm".utf8), pattern(12, 1), into: &$0) }
        #expect(request.count == 3 + 27)
        let peer = Peer()
        peer.feed(encoded { FrameWriter.setup(into: &$0) } + request)
        let received = peer.connection.received
        #expect(received == 0x1b)
        let store = ResumeStore()
        for _ in 0..<2 { _ = store.append { write(.payload, nil, pattern(6, 2), complete: false, into: &$0) } }
        store.took(30)
        #expect(store.rewind(to: 0x18) && store.count == 0 && store.position == 0x18)
        // RESUME with token "t", with 24 of the server's bytes and all of the client's; and the response.
        #expect(
            encoded {
                FrameWriter.resume(
                    token: [0x74], lastReceivedServerPosition: 0x18, firstAvailableClientPosition: 0, into: &$0)
            } == [0, 0, 29, 0, 0, 0, 0, 0x34, 0, 0, 1, 0, 0, 0, 1, 0x74]
                + [0, 0, 0, 0, 0, 0, 0, 0x18, 0, 0, 0, 0, 0, 0, 0, 0])
        #expect(
            encoded { FrameWriter.resumeOK(lastReceivedClientPosition: 0x1b, into: &$0) }
                == [0, 0, 14, 0, 0, 0, 0, 0x38, 0, 0, 0, 0, 0, 0, 0, 0, 0x1b])
    }

    @Test func onlyFramesOfStreamsCount() {
        let peer = Peer()
        peer.feed(encoded { FrameWriter.setup(into: &$0) })
        let cases: [(bytes: [UInt8], counts: Bool)] = [
            (encoded { write(.requestChannel, nil, [1], complete: false, into: &$0) }, true),
            (
                encoded { buffer in
                    bytes("d") { FrameWriter.keepalive(respond: true, position: 9, data: $0, into: &buffer) }
                }, false
            ),
            (encoded { write(.payload, nil, [1, 2], complete: false, into: &$0) }, true),
            (encoded { write(.payload, [7], [1, 2], complete: false, into: &$0) }, true),
            (encoded { FrameWriter.requestN(stream: 1, n: 3, into: &$0) }, true),
            // Frames on streams that are not open, and a frame of a type that is ignored.
            (encoded { FrameWriter.cancel(stream: 77, into: &$0) }, true),
            ([0, 0, 7, 0, 0, 0, 1, 0xFE, 0, 9], true),
            (encoded { FrameWriter.error(stream: 1, code: .canceled, message: "x", into: &$0) }, true),
            (encoded { buffer in bytes("m") { FrameWriter.metadataPush($0, into: &buffer) } }, false),
        ]
        for (bytes, counts) in cases {
            let before = peer.connection.received
            peer.feed(bytes)
            let after = peer.connection.received
            #expect(after - before == (counts ? UInt64(bytes.count - 3) : 0), "\(bytes)")
        }
    }

    /// Wherever a socket breaks, retransmission from the position means the same as unbroken bytes.
    @Test func aBreakAnywhereChangesNothing() {
        var limits = ConnectionLimits()
        limits.maxPayload = 20
        limits.maxMetadata = 4
        let setup = encoded { FrameWriter.setup(into: &$0) }
        let keepalive = encoded { buffer in
            bytes("hi") { FrameWriter.keepalive(respond: true, position: 0, data: $0, into: &buffer) }
        }
        var frames: [[UInt8]] = []
        frames.append(encoded { write(.requestChannel, nil, [1], complete: false, into: &$0) })
        frames.append(encoded { for n in 1...3 { write(.payload, nil, pattern(n, 5), complete: false, into: &$0) } })
        frames.append(encoded { write(.requestResponse, nil, pattern(8, 3), stream: 3, into: &$0) })
        // A request in fragments; and one that is too long, which is judged by its header while the rest is skipped.
        var part = encoded { write(.requestResponse, nil, pattern(9, 4), stream: 5, into: &$0) }
        part[8] |= 0x80
        frames.append(part)
        frames.append(encoded { write(.requestStream, nil, pattern(60, 6), stream: 7, into: &$0) })
        frames.append(encoded { write(.payload, nil, pattern(60, 7), stream: 1, complete: false, into: &$0) })
        frames.append(encoded { write(.payload, nil, pattern(4, 8), stream: 5, into: &$0) })
        frames.append(encoded { FrameWriter.cancel(stream: 1, into: &$0) })
        let whole = Array(frames.joined())
        let steady = Peer(limits: limits)
        steady.feed(setup + whole)
        #expect(steady.transcript.contains("refuse 7 REJECTED") && steady.transcript.contains("refuse 1 REJECTED"))
        for cut in 0...whole.count {
            for second in [0, 3, 9, 30, 61] {
                let peer = Peer(limits: limits)
                peer.feed(setup + whole[..<cut])
                var sent = breakOff(peer, whole)
                peer.feed(keepalive + whole[sent..<min(sent + second, whole.count)])
                sent = breakOff(peer, whole)
                peer.feed(whole[sent...])
                let came = peer.transcript.filter { !$0.hasPrefix("keepalive") }
                #expect(came == steady.transcript, "cut at \(cut) and \(second) after that")
                let (received, all) = (peer.connection.received, steady.connection.received)
                #expect(received == all)
            }
        }
    }

    /// Breaks the socket. Returns the byte of `whole` from which the client retransmits.
    private func breakOff(_ peer: Peer, _ whole: [UInt8]) -> Int {
        peer.connection.detach()
        var position = peer.connection.received
        var offset = 0
        while position > 0 {
            let length = Int(whole[offset]) << 16 | Int(whole[offset + 1]) << 8 | Int(whole[offset + 2])
            position -= UInt64(length)
            offset += 3 + length
        }
        return offset
    }

    @Test func whatIsHeldIsNotReceived() {
        let peer = Peer()
        peer.feed(encoded { FrameWriter.setup(into: &$0) })
        peer.holds = { true }
        let frame = encoded { write(.requestResponse, nil, [1], into: &$0) }
        peer.feed(frame + encoded { write(.requestResponse, nil, [2], stream: 3, into: &$0) })
        let (received, buffered) = (peer.connection.received, peer.connection.bufferedBytes)
        #expect(received == UInt64(frame.count - 3) && buffered > 0)
        peer.connection.detach()
        peer.holds = nil
        peer.drain()
        let left = peer.connection.bufferedBytes
        #expect(left == 0 && peer.transcript.count == 2)
    }

    @Test func unfinishedMessagesOutliveASocket() {
        let peer = Peer()
        peer.feed(encoded { FrameWriter.setup(into: &$0) })
        var part = encoded { write(.requestResponse, nil, [1], into: &$0) }
        part[8] |= 0x80
        peer.feed(part)
        peer.connection.detach()
        peer.connection.extendReassembly(by: 100)
        peer.connection.expireReassembly(startedBefore: 100)
        peer.drain()
        #expect(peer.transcript.count == 1)
        peer.feed(encoded { write(.payload, nil, [2], into: &$0) })
        #expect(peer.transcript.last?.hasSuffix("data=0102") == true)
    }

    // RESUME

    @Test(arguments: [[0, 1, 0, 0], [0, 0, 0, 1]]) func resumeIsToldWithWhatFollows(version: [UInt8]) {
        var bytes = encoded {
            FrameWriter.resume(
                token: [1, 2], lastReceivedServerPosition: 5, firstAvailableClientPosition: 7, into: &$0)
        }
        bytes.replaceSubrange(9..<13, with: version)
        for cut in bytes.indices {
            let peer = Peer()
            peer.feed(bytes[..<cut])
            peer.feed(bytes[cut...] + [9, 9, 9])
            #expect(peer.transcript == ["resume token=0102 server=5 client=7"])
            let (left, isClosed) = (peer.connection.bufferedBytes, peer.connection.isClosed)
            #expect(peer.rest == [9, 9, 9] && left == 0 && isClosed)
        }
    }

    @Test func aResumeThatCannotBeReadIsRefused() {
        let whole = encoded {
            FrameWriter.resume(
                token: [1, 2], lastReceivedServerPosition: 5, firstAvailableClientPosition: 7, into: &$0)
        }
        for length in 6..<whole.count - 3 {
            let peer = Peer()
            peer.feed([0, 0, UInt8(length)] + whole[3..<3 + length])
            #expect(peer.transcript == ["fatal CONNECTION_ERROR"])
        }
        let peer = Peer()
        peer.feed(
            encoded {
                FrameWriter.resume(
                    token: pattern(129, 1), lastReceivedServerPosition: 0, firstAvailableClientPosition: 0, into: &$0)
            })
        #expect(peer.transcript == ["fatal REJECTED_RESUME"] && peer.errors[0].message.contains("128"))
    }
}

@Suite struct ResumeStoreTests {
    /// Frames of these sizes, without their lengths.
    private func store(_ sizes: [Int]) -> ResumeStore {
        let store = ResumeStore()
        for (index, size) in sizes.enumerated() {
            let added = store.append {
                write(.payload, nil, pattern(size - 6, UInt8(index)), complete: false, into: &$0)
            }
            #expect(added == size + 3)
        }
        return store
    }

    @Test func itIsSentInAnyPieces() {
        let store = store([8, 10, 12])
        let whole = Array(store.next)
        var taken: [UInt8] = []
        for size in [1, 9, 2, 20, 7] {
            let inFlight = store.inFlight
            // What is in flight ends at a frame boundary.
            #expect([0, 11, 24, 39].contains(taken.count + inFlight))
            taken += store.next.prefix(size)
            store.took(min(size, store.unsent))
        }
        #expect(taken == whole && store.unsent == 0 && store.count == 39 && store.sent == 39)
    }

    @Test func anAcknowledgementDropsWholeFramesThatWereSent() {
        for (sent, position, left, first) in [
            (39, 0, 39, 0), (39, 7, 39, 0), (39, 8, 28, 8), (39, 17, 28, 8), (39, 18, 15, 18), (39, 30, 0, 30),
            (39, 1000, 0, 30), (24, 30, 15, 18), (23, 30, 28, 8), (10, 30, 39, 0), (0, 30, 39, 0),
        ] {
            let store = store([8, 10, 12])
            store.took(sent)
            store.acknowledge(UInt64(position))
            #expect(store.count == left && store.position == UInt64(first), "\(sent) \(position)")
            #expect(store.unsent == 39 - sent)
            // An old acknowledgement changes nothing.
            store.acknowledge(0)
            #expect(store.count == left)
        }
    }

    @Test func itGoesOnOnlyWhereAFrameThatWasSentBegins() {
        for sent in 0...39 {
            for position in 0...40 {
                let store = store([8, 10, 12])
                let whole = Array(store.next)
                store.took(sent)
                let starts = [0: 0, 8: 11, 18: 24, 30: 39]
                let may = starts[position].map { $0 <= sent } ?? false
                #expect(store.rewind(to: UInt64(position)) == may, "\(sent) \(position)")
                #expect(Array(store.next) == Array(whole[(may ? starts[position]! : sent)...]))
                if may { #expect(store.position == UInt64(position) && store.inFlight == 0) }
            }
        }
    }

    @Test func whatIsWrongWithAPositionIsTold() {
        let store = store([8, 10, 12])
        store.took(27)
        store.acknowledge(8)
        func fault(_ position: UInt64) -> String {
            store.rewind(to: position) ? "none" : "\(store.fault(of: position))"
        }
        #expect(fault(7) == "gone" && fault(9) == "within" && fault(17) == "within")
        // The third frame has only been sent in part.
        #expect(fault(19) == "ahead(upTo: 18)" && fault(30) == "ahead(upTo: 18)")
        #expect(fault(18) == "none" && fault(8) == "gone")
    }

    /// A late RESUME moves the store back; the client still continues after everything that it had already received.
    @Test func itGoesOnBehindWhatAnySocketHasTaken() {
        for again in 0...34 {
            let store = store([8, 10, 12])
            let whole = Array(store.next)
            store.took(34)
            #expect(store.rewind(to: 0) && store.unsent == 39)
            store.took(again)
            #expect(!store.rewind(to: 17) && !store.rewind(to: 30))
            #expect(store.rewind(to: 18) && store.position == 18 && store.inFlight == 0)
            #expect(Array(store.next) == Array(whole[24...]))
            store.took(15)
            #expect(store.rewind(to: 30) && store.count == 0)
        }
    }

    /// Frames that were sent once and dropped before their retransmission can no longer be resumed from.
    @Test func whatIsNotToBeSentAgainIsForgotten() {
        let store = store([8, 10, 12])
        store.took(39)
        #expect(store.rewind(to: 0))
        store.took(1)
        store.dropUnsent()
        #expect(!store.rewind(to: 18) && store.rewind(to: 0) && store.count == 11)
    }

    @Test func whatWasGivenUpCannotBeGoneBackTo() {
        let store = store([8, 10, 12])
        store.took(30)
        store.shorten(to: 28)
        #expect(store.count == 28 && store.position == 8)
        // Unsent frames stay, whatever the limit.
        store.shorten(to: 0)
        #expect(store.count == 15 && store.unsent == 9 && store.inFlight == 9)
        #expect(!store.rewind(to: 0) && !store.rewind(to: 8) && !store.rewind(to: 30))
        #expect(store.rewind(to: 18) && store.unsent == 15)
    }

    @Test func onlyAFrameThatWasBegunIsSentToItsEnd() {
        for (sent, left) in [(0, 0), (1, 11), (11, 11), (12, 24), (39, 39)] {
            let store = store([8, 10, 12])
            store.took(sent)
            store.dropUnsent()
            #expect(store.count == left && store.unsent == left - sent)
        }
    }

    /// With random sends, acknowledgements, cuts and retransmissions, a client receives every byte once.
    @Test(arguments: 0..<50) func nothingIsLostOrDoubled(_ seed: UInt64) {
        var random = SplitMix(seed)
        let store = ResumeStore()
        var whole: [UInt8] = []
        var got: [UInt8] = []
        // The complete frames of `got`, in bytes and as a position.
        func boundary() -> (bytes: Int, position: UInt64) {
            var at = (bytes: 0, position: UInt64(0))
            while at.bytes + 3 <= got.count {
                let size = 3 + Int(got[at.bytes + 1]) << 8 + Int(got[at.bytes + 2])
                if at.bytes + size > got.count { break }
                at = (at.bytes + size, at.position + UInt64(size - 3))
            }
            return at
        }
        for _ in 0..<300 {
            switch random.next() % 5 {
            case 0, 1:
                let frame = encoded {
                    write(.payload, nil, pattern(Int(random.next() % 40), UInt8(whole.count & 0xFF)), into: &$0)
                }
                whole += frame
                store.reserve(frame.count).copyBytes(from: frame)
            case 2:
                let count = Int(random.next() % UInt64(store.unsent + 1))
                got += store.next.prefix(count)
                store.took(count)
            case 3: store.acknowledge(boundary().position)
            default:
                // The end of what was sent is lost, except what was acknowledged.
                let kept = whole.count - store.count
                let arrived = kept + Int(random.next() % UInt64(got.count - kept + 1))
                got.removeSubrange(arrived...)
                let (bytes, position) = boundary()
                got.removeSubrange(bytes...)
                #expect(store.rewind(to: position))
            }
        }
        got += store.next
        #expect(got == whole)
    }
}

// What the conversations do not cover: memory, handles, time.

import Bytes
import Testing

@testable import RSocket

@Suite struct ServerConnectionTests {
    private let setup = encoded { FrameWriter.setup(into: &$0) }

    @Test func anIdleConnectionIsSmall() {
        let peer = Peer()
        peer.feed(setup + encoded { write(.requestStream, nil, [1], into: &$0) })
        let (buffered, streams) = (peer.connection.bufferedBytes, peer.connection.streamCount)
        #expect(buffered == 0)
        #expect(streams == 1)
        #expect(MemoryLayout<ServerConnection>.size <= 256)
        #expect(MemoryLayout<Event>.size <= 64)
    }

    @Test func anAnnouncedLengthReservesNothing() {
        let peer = Peer()
        let request = encoded { write(.requestResponse, nil, [UInt8](repeating: 1, count: 1 << 20), into: &$0) }
        peer.feed(setup + request.prefix(20))
        let (buffered, waiting) = (peer.connection.bufferedBytes, peer.connection.hasPartialFrame)
        #expect(buffered <= 64)
        #expect(waiting)
        peer.feed(request.dropFirst(20))
        #expect(peer.transcript.count == 2)
        let after = peer.connection.bufferedBytes
        #expect(after == 0)
    }

    @Test func whatIsTooLongIsNeverBuffered() {
        let peer = Peer()
        peer.feed(setup)
        let long = [UInt8](repeating: 7, count: 5 << 20)
        let request = encoded { write(.requestResponse, nil, long, into: &$0) }
        var most = 0
        for start in stride(from: 0, to: request.count, by: 65_000) {
            peer.feed(request[start..<min(start + 65_000, request.count)])
            most = max(most, peer.connection.bufferedBytes)
        }
        #expect(most == 0)
        #expect(peer.transcript.last == "refuse 1 REJECTED")
        #expect(peer.errors.last?.message.contains("\(long.count + 6)") == true)
        #expect(peer.errors.last?.message.contains("\(1 << 20)") == true)
        peer.feed(encoded { write(.requestResponse, nil, [1], stream: 3, into: &$0) })
        #expect(peer.transcript.last == "request 3 response n=1 complete=true metadata=- data=01")
    }

    @Test func unfinishedMessagesStayWithinTheirLimit() {
        var limits = ConnectionLimits()
        limits.maxReassembly = 100_000
        let peer = Peer(limits: limits)
        peer.feed(setup)
        let data = [UInt8](repeating: 3, count: 9_000)
        for stream in stride(from: UInt32(1), to: 400, by: 2) {
            var bytes = encoded {
                write(.requestResponse, nil, data, stream: stream, complete: false, into: &$0)
            }
            bytes[8] |= 0x80  // F
            peer.feed(bytes)
            let buffered = peer.connection.bufferedBytes
            // The memory of unfinished messages grows by doubling.
            #expect(buffered <= 2 * limits.maxReassembly)
        }
        #expect(peer.transcript.contains("refuse 399 REJECTED"))
        let oldest = peer.connection.oldestReassembly
        #expect(oldest == 2)
    }

    /// The allocated memory counts, not the bytes in it.
    @Test func theRoomOfUnfinishedMessagesCounts() {
        let peer = Peer()
        peer.feed(setup)
        var bytes = encoded {
            write(.requestResponse, nil, [UInt8](repeating: 3, count: 70_000), stream: 1, complete: false, into: &$0)
        }
        bytes[8] |= 0x80  // F
        peer.feed(bytes)
        let buffered = peer.connection.bufferedBytes
        #expect(buffered >= 128 << 10)
    }

    @Test func thereAreSoManyUnfinishedMessages() {
        let peer = Peer()
        peer.feed(setup)
        let most = ConnectionLimits().maxPartials
        for number in 0...most {
            var bytes = encoded {
                write(.requestResponse, nil, [1], stream: UInt32(2 * number + 1), complete: false, into: &$0)
            }
            bytes[8] |= 0x80  // F
            #expect(!peer.transcript.contains { $0.hasPrefix("refuse") })
            peer.feed(bytes)
        }
        #expect(peer.transcript.last == "refuse \(2 * most + 1) REJECTED")
    }

    @Test func aHandleComesBackUntilItsStreamEnds() {
        let peer = Peer()
        peer.feed(setup + encoded { write(.requestStream, nil, [1], into: &$0) })
        #expect(peer.connection.handle(of: 1) == nil)
        peer.connection.setHandle(42, stream: 1)
        peer.connection.setHandle(43, stream: 3)
        #expect(peer.connection.handle(of: 1) == 42)
        #expect(peer.connection.handle(of: 3) == nil)
        peer.feed(encoded { FrameWriter.requestN(stream: 1, n: 2, into: &$0) })
        #expect(peer.transcript.last == "request-n 1 2 handle=42")
        peer.connection.closeStream(1)
        #expect(peer.connection.handle(of: 1) == nil)
    }

    @Test func onlyOldUnfinishedMessagesExpire() {
        let peer = Peer()
        peer.feed(setup)
        for stream in [1, 3] as [UInt32] {
            var bytes = encoded { write(.requestResponse, nil, [1], stream: stream, into: &$0) }
            bytes[8] |= 0x80
            peer.feed(bytes)
        }
        peer.connection.expireReassembly(startedBefore: 3)
        peer.drain()
        #expect(peer.transcript.dropFirst() == ["refuse 1 REJECTED"])
        let oldest = peer.connection.oldestReassembly
        #expect(oldest == 3)
    }

    @Test func theMetadataFormIsThatOfSetup() {
        for (mime, form) in [
            (MimeType.compositeMetadata, MetadataForm.composite), (MimeType.routing, .routing), ("text/plain", .plain),
        ] {
            var request = SetupRequest()
            request.metadataMime = mime
            let peer = Peer()
            peer.feed(encoded { FrameWriter.setup(request, into: &$0) })
            #expect(peer.connection.metadataForm == form)
        }
    }

    /// Wherever the server pauses, and however the bytes were split, it sees the same events.
    @Test(arguments: 0..<50) func holdingChangesNothing(_ seed: UInt64) {
        var random = SplitMix(seed)
        var bytes = setup
        for stream in stride(from: 1, to: 60, by: 2) as StrideTo<UInt32> {
            let data = pattern(Int(random.next() % 300), UInt8(stream))
            bytes += encoded { write(.requestChannel, [1, 2], data, stream: stream, into: &$0) }
            bytes += encoded { FrameWriter.requestN(stream: stream, n: 3, into: &$0) }
            // A frame that is too long, which is judged by its header; and a request on a stream in use.
            if stream % 9 == 0 { bytes += [0, 8, 0, 0, 0, 0, UInt8(stream), 0x28, 0x20] + pattern(2042, 9) }
            if stream % 7 == 0 { bytes += encoded { write(.requestChannel, nil, [7], stream: stream, into: &$0) } }
        }
        var limits = ConnectionLimits()
        limits.maxPayload = 1000
        limits.maxMetadata = 100
        let steady = Peer(limits: limits)
        let holding = Peer(limits: limits)
        holding.holds = { random.next() % 3 == 0 }
        steady.feed(bytes)
        var rest = bytes[...]
        while !rest.isEmpty {
            let part = rest.prefix(1 + Int(random.next() % 2000))
            rest = rest.dropFirst(part.count)
            holding.feed(part)
        }
        while holding.isHeld { holding.drain() }
        #expect(holding.transcript == steady.transcript)
        #expect(holding.connection.bufferedBytes == 0)
    }

    @Test func nothingComesAfterAFatalError() {
        let peer = Peer()
        peer.feed(setup + [0, 0, 1, 9] + setup)
        peer.feed(encoded { write(.requestResponse, nil, [1], into: &$0) })
        peer.connection.acceptSetup()
        peer.drain()
        #expect(peer.transcript == ["setup keepalive=20000 lifetime=90000", "fatal CONNECTION_ERROR"])
    }
}

// What the conversations do not show: memory, handles, time.

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
            #expect(buffered <= limits.maxReassembly)
        }
        #expect(peer.transcript.contains("refuse 399 REJECTED"))
        let oldest = peer.connection.oldestReassembly
        #expect(oldest == 2)
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

    @Test func nothingComesAfterAFatalError() {
        let peer = Peer()
        peer.feed(setup + [0, 0, 1, 9] + setup)
        peer.feed(encoded { write(.requestResponse, nil, [1], into: &$0) })
        peer.connection.acceptSetup()
        peer.drain()
        #expect(peer.transcript == ["setup keepalive=20000 lifetime=90000", "fatal CONNECTION_ERROR"])
    }
}

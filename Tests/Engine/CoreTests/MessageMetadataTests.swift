// The metadata that `meta=on` adds to a message.

import Bytes
import RSocket
import Replay
import Testing

@testable import Core

/// Whatever the sizes, frames stay within the limit, metadata precedes the payload, and both are decoded unchanged.
@Suite struct MessageMetadataTests {
    @Test(
        arguments: [0, 1, 127, 65_000, 65_469, 65_470, 65_471, 65_536, 65_537, 131_072, 200_000],
        [0, 1, 100, 30_000, 65_400, 65_470, 65_471, 65_536])
    func messagesWithMetadata(_ size: Int, _ carried: Int) {
        let budget = MemoryBudget(limit: .max)
        let log = Log()
        let payload = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let entries = (0..<carried).map { UInt8(truncatingIfNeeded: $0 &* 7 + 1) }
        payload.withUnsafeBytes { payload in
            entries.withUnsafeBytes { entries in
                _ = log.append(
                    metadata: carried > 0 ? entries : nil, payload: payload, timestamp: 5, budget: budget)
            }
        }
        let piece = log.piece(of: SequenceNumber(1))
        let message = piece.chunk.entry(0)
        let info = MessageMetadata(epoch: 9, sequence: SequenceNumber(1), timestamp: 5, droppedBefore: 3)
        let room = MessageMetadata.framed(payload: size, carried: carried)
        let target = UnsafeMutableRawBufferPointer.allocate(byteCount: room, alignment: 1)
        defer { target.deallocate() }
        info.write(piece.chunk, message, stream: 77, to: target)
        #expect(shared(piece.chunk, message, info) == Array(target), "the shared form has the same bytes")

        var metadata: [UInt8] = []
        var data: [UInt8] = []
        let bytes = UnsafeRawBufferPointer(target)
        var offset = 0
        while offset < bytes.count {
            let length = bytes.u24(at: offset)
            let frame = bytes.slice(offset + 3..<offset + 3 + length)
            offset += 3 + length
            guard let decoded = try? Frame.decode(frame.bytes),
                case .payload(let next, let complete, let content) = decoded.body
            else {
                Issue.record("undecodable")
                return
            }
            #expect(decoded.stream == 77 && next && !complete)
            #expect(decoded.follows == (offset < bytes.count))
            if let range = content.metadata {
                #expect(data.isEmpty, "metadata after payload")
                metadata += frame.slice(range)
            }
            data += frame.slice(content.data)
            #expect(content.data.count + (content.metadata?.count ?? 0) <= Limits.fragment)
            // rsocket-java rejects a short following fragment, except the last.
            #expect(length >= 61 || !decoded.follows || metadata.count + data.count == length)
        }
        #expect(data == payload)
        #expect(metadata == info.bytes + entries)
    }

    /// The bytes for a socket if the payload is sent from the log.
    private func shared(_ chunk: Chunk, _ message: Chunk.Entry, _ info: MessageMetadata) -> [UInt8] {
        var output = Output(pool: BlockPool(budget: MemoryBudget(limit: .max)))
        info.share(chunk, message, stream: 77, in: &output)
        var bytes: [UInt8] = []
        withUnsafeTemporaryAllocation(of: UnsafeRawBufferPointer.self, capacity: 16) { pieces in
            while !output.isEmpty {
                let count = output.gather(into: pieces)
                // A part at a time, so that frames are split.
                let part = min(50_000, pieces[..<count].reduce(0) { $0 + $1.count })
                var rest = part
                for piece in pieces[..<count] {
                    bytes += piece.prefix(rest)
                    rest -= min(rest, piece.count)
                }
                output.wrote(part, blocked: false)
            }
        }
        return bytes
    }
}

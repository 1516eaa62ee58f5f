// A connection's output: order, frame boundaries, memory, conflation.

import Bytes
import RSocket
import Replay
import Testing

@testable import Core

/// Whatever the socket takes at a time, the bytes are those that were handed over, in order, and control frames stand
/// between whole frames.
@Suite struct OutputTests {
    struct Random {
        var state: UInt64
        mutating func next(_ bound: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int((state >> 33) % UInt64(bound))
        }
    }

    @Test(arguments: 0..<200)
    func anyWritesGiveTheSameStream(_ seed: Int) {
        let budget = MemoryBudget(limit: .max)
        let pool = BlockPool(budget: budget)
        var random = Random(state: UInt64(seed))
        var output = Output(pool: pool)
        let chunk = Chunk(first: SequenceNumber(1), hasMetadata: false, capacity: 64 << 10, budget: budget)
        for index in 0..<100 {
            let payload = [UInt8](repeating: UInt8(index), count: random.next(300))
            payload.withUnsafeBytes {
                chunk.append(
                    metadata: nil, payload: $0, framed: PayloadFraming.framed($0.count), timestamp: 0, chargedBefore: 0)
            }
        }
        var messages: [UInt8] = []
        var controls: [UInt8] = []
        var written: [UInt8] = []
        var next = 0
        for step in 0..<400 {
            switch random.next(5) {
            case 0 where next < 100:
                let count = min(100 - next, 1 + random.next(4))
                for _ in 0..<count {
                    let entry = chunk.entry(next)
                    let bytes = chunk.bytes(Int(entry.offset), Int(entry.framed))
                    output.append(bytes, of: chunk)
                    messages += bytes
                    next += 1
                }
            case 1:
                var frame = ByteBuffer()
                let payload = [UInt8](repeating: 0xEE, count: random.next(200))
                payload.withUnsafeBytes {
                    FrameWriter.payload(
                        stream: 3, next: true, complete: false, metadata: nil, data: $0, fragment: 1 << 20, into: &frame
                    )
                }
                output.reserve(frame.count).copyMemory(from: frame.readable)
                messages += frame.readable
            case 2:
                output.control { FrameWriter.requestN(stream: UInt32(step), n: 7, into: &$0) }
                var frame = ByteBuffer()
                FrameWriter.requestN(stream: UInt32(step), n: 7, into: &frame)
                controls += frame.readable
            default:
                write(&output, &random, into: &written)
            }
        }
        while !output.isEmpty { write(&output, &random, into: &written) }
        // Take the stream apart by frames: messages and controls each come in their own order.
        var seenMessages: [UInt8] = []
        var seenControls: [UInt8] = []
        written.withUnsafeBytes { bytes in
            var offset = 0
            while offset < bytes.count {
                let length = 3 + bytes.u24(at: offset)
                let frame = bytes.slice(offset..<offset + length)
                if frame[7] >> 2 == FrameType.requestN.rawValue { seenControls += frame } else { seenMessages += frame }
                offset += length
            }
        }
        #expect(seenMessages == messages)
        #expect(seenControls == controls)
        #expect(output.count == 0)
    }

    private func write(_ output: inout Output, _ random: inout Random, into written: inout [UInt8]) {
        withUnsafeTemporaryAllocation(of: UnsafeRawBufferPointer.self, capacity: 3) { pieces in
            let count = output.gather(into: pieces)
            let offered = pieces[..<count].reduce(0) { $0 + $1.count }
            let taken = random.next(3) == 0 ? offered : random.next(offered + 1)
            var rest = taken
            for piece in pieces[..<count] {
                let part = min(rest, piece.count)
                written += piece[..<part]
                rest -= part
            }
            output.wrote(taken, blocked: taken < offered)
        }
    }

    @Test func aBlockedSocketKeepsNoChunk() {
        let budget = MemoryBudget(limit: .max)
        var output = Output(pool: BlockPool(budget: budget))
        weak var gone: Chunk?
        do {
            let chunk = Chunk(first: SequenceNumber(1), hasMetadata: false, capacity: 4096, budget: budget)
            let payload = [UInt8](repeating: 1, count: 500)
            payload.withUnsafeBytes {
                chunk.append(
                    metadata: nil, payload: $0, framed: PayloadFraming.framed($0.count), timestamp: 0, chargedBefore: 0)
            }
            output.append(chunk.bytes(0, 509), of: chunk)
            gone = chunk
        }
        #expect(gone != nil)
        output.wrote(100, blocked: true)
        #expect(gone == nil)
        #expect(output.count == 409)
        output.control { FrameWriter.requestN(stream: 1, n: 1, into: &$0) }
        withUnsafeTemporaryAllocation(of: UnsafeRawBufferPointer.self, capacity: 8) { pieces in
            let count = output.gather(into: pieces)
            // The rest of the frame in flight goes before the control frame.
            #expect(pieces[..<count].map(\.count) == [409, 13])
        }
    }

    @Test func keepalivesThatAreNotSentAreReplaced() {
        var output = Output(pool: BlockPool(budget: MemoryBudget(limit: .max)))
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        output.blocked = true
        for _ in 0..<1000 {
            output.keepalive { FrameWriter.keepalive(respond: false, position: 0, data: none, into: &$0) }
        }
        #expect(output.controlCount == 17)
    }
}

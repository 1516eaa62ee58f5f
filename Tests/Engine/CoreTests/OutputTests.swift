// A connection's output: order, frame boundaries, memory, conflation.

import Bytes
import RSocket
import Replay
import Testing

@testable import Core

/// Bytes that outputs reference.
private final class SharedBytes: Region, @unchecked Sendable {
    private var used = 0

    init() { super.init(capacity: 1 << 20, budget: MemoryBudget(limit: .max)) }

    func add(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        precondition(used + bytes.count <= capacity)
        let place = UnsafeMutableRawBufferPointer(start: base + used, count: bytes.count)
        place.copyMemory(from: bytes)
        used += bytes.count
        return UnsafeRawBufferPointer(place)
    }
}

/// One connection's output, and the bytes it must produce, split into messages and control frames, each in their own
/// order.
private final class Receiver {
    var output: Output
    var messages: [UInt8] = []
    var controls: [UInt8] = []
    /// What the socket accepted.
    var written: [UInt8] = []

    init(_ pool: BlockPool) { output = Output(pool: pool) }

    /// Messages of a chunk, on `stream`; with `isCopied`, as they are sent when the next one is not contiguous.
    func append(_ positions: Range<Int>, of chunk: Chunk, stream: UInt32, isCopied: Bool = false) {
        let first = chunk.entry(positions.lowerBound)
        let last = chunk.entry(positions.upperBound - 1)
        let bytes = chunk.bytes(Int(first.offset), Int(last.offset) + Int(last.framed) - Int(first.offset))
        if isCopied { output.copy(bytes, stream: stream) } else { output.append(bytes, of: chunk, stream: stream) }
        messages += Receiver.with(stream: stream, bytes)
    }

    func reserve(_ payload: Int) {
        let frame = OutputTests.frame(payload)
        output.reserve(frame.count).copyMemory(from: frame.readable)
        messages += frame.readable
    }

    /// A frame whose header and first bytes are made for this connection, and whose rest is in shared memory.
    func share(_ payload: Int, from region: SharedBytes, own: Int) {
        let frame = OutputTests.frame(payload)
        let place = region.add(frame.readable)
        let head = min(frame.count, PayloadFraming.header + own)
        output.reserve(head).copyMemory(from: place.slice(0..<head))
        // In two parts, as metadata and payload.
        let middle = head + (frame.count - head) / 2
        output.append(place.slice(head..<middle), of: region, isTail: true)
        output.append(place.slice(middle..<frame.count), of: region, isTail: true)
        messages += frame.readable
    }

    func answer() {
        let frame = OutputTests.frame(3)
        output.answer(frame.readable)
        messages += frame.readable
    }

    func control(_ number: UInt32) {
        var frame = ByteBuffer()
        FrameWriter.requestN(stream: number, n: 7, into: &frame)
        controls += frame.readable
        output.control { $0.append(frame.readable) }
    }

    /// The socket accepts `taken` of the bytes that it is offered. It is blocked if these are fewer, unless `mayBlock`
    /// is false. Returns how many bytes it was offered.
    @discardableResult
    func write(pieces capacity: Int = 3, mayBlock: Bool = true, _ taken: (Int) -> Int) -> Int {
        withUnsafeTemporaryAllocation(of: UnsafeRawBufferPointer.self, capacity: capacity) { pieces in
            let count = output.gather(into: pieces)
            let offered = pieces[..<count].reduce(0) { $0 + $1.count }
            let taken = taken(offered)
            var rest = taken
            for piece in pieces[..<count] {
                let part = min(rest, piece.count)
                written += piece[..<part]
                rest -= part
            }
            output.wrote(taken, blocked: mayBlock && taken < offered)
            return offered
        }
    }

    /// Writes until nothing is left; calls `between` after each write.
    func drain(mayBlock: Bool = true, _ taken: (Int) -> Int, between: () -> Void = {}) {
        while !output.isEmpty {
            guard write(mayBlock: mayBlock, taken) > 0 else {
                Issue.record("nothing is offered of \(output.count) bytes")
                return
            }
            between()
        }
    }

    /// - Parameter isCut: messages after the one in flight were dropped.
    func check(isCut: Bool = false, _ comment: Comment) {
        var seenMessages: [UInt8] = []
        var seenControls: [UInt8] = []
        written.withUnsafeBytes { bytes in
            var offset = 0
            while offset + PayloadFraming.header <= bytes.count {
                let end = offset + 3 + bytes.u24(at: offset)
                guard end <= bytes.count else { break }
                let frame = bytes.slice(offset..<end)
                if frame[7] >> 2 == FrameType.requestN.rawValue { seenControls += frame } else { seenMessages += frame }
                offset = end
            }
            #expect(offset == bytes.count, "the last frame is truncated, \(comment)")
        }
        #expect(isCut ? messages.starts(with: seenMessages) : messages == seenMessages, comment)
        #expect(controls == seenControls, comment)
        #expect(output.count == 0 && output.isEmpty, comment)
    }

    /// Sets the stream of each frame, as simply as possible.
    private static func with(stream: UInt32, _ frames: UnsafeRawBufferPointer) -> [UInt8] {
        var bytes = Array(frames)
        var offset = 0
        while offset < bytes.count {
            for byte in 0..<4 { bytes[offset + 3 + byte] = UInt8(truncatingIfNeeded: stream >> (24 - 8 * byte)) }
            offset += 3 + Int(bytes[offset]) << 16 + Int(bytes[offset + 1]) << 8 + Int(bytes[offset + 2])
        }
        return bytes
    }
}

/// However many bytes the socket accepts at a time, they are those that were queued, in order, and control frames are
/// between complete frames.
@Suite struct OutputTests {
    struct Random {
        var state: UInt64
        mutating func next(_ bound: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int((state >> 33) % UInt64(bound))
        }
        mutating func pick<T>(_ values: [T]) -> T { values[next(values.count)] }
    }

    private let budget = MemoryBudget(limit: .max)

    /// Messages of these sizes.
    private func chunk(_ sizes: [Int], _ budget: MemoryBudget? = nil) -> Chunk {
        let budget = budget ?? self.budget
        let needed = sizes.reduce(0) { $0 + PayloadFraming.framed($1) + Chunk.entrySize }
        let chunk = Chunk(first: SequenceNumber(1), hasMetadata: false, capacity: needed, budget: budget)
        for (index, size) in sizes.enumerated() {
            [UInt8](repeating: UInt8(truncatingIfNeeded: index), count: size).withUnsafeBytes {
                chunk.append(
                    metadata: nil, payload: $0, framed: PayloadFraming.framed(size), timestamp: 0, chargedBefore: 0)
            }
        }
        return chunk
    }

    fileprivate static func frame(_ payload: Int) -> ByteBuffer {
        var frame = ByteBuffer()
        [UInt8](repeating: 0xEE, count: payload).withUnsafeBytes {
            FrameWriter.payload(
                stream: 3, next: true, complete: false, metadata: nil, data: $0, fragment: 1 << 20, into: &frame)
        }
        return frame
    }

    /// Two connections of one topic, which share the scratch. Seeds differ in the sizes of messages and scratch: some
    /// frames never fit, and the waiting data often exceeds the scratch.
    @Test(arguments: 0..<300)
    func anyWritesGiveTheSameStream(_ seed: Int) {
        var random = Random(state: UInt64(seed))
        // With some seeds there is no memory for copies.
        let budget = MemoryBudget(limit: random.pick([0, 40_000, .max]))
        let pool = BlockPool(budget: budget, scratch: random.pick([150, 700, Scratch.size]))
        let region = SharedBytes()
        let isUniform = seed % 3 == 0
        let isLarge = seed % 10 == 1
        let chunk = chunk(
            (0..<100).map { isLarge && $0 % 30 == 7 ? 70_000 + random.next(1000) : isUniform ? 128 : random.next(300) })
        let mayBlock = random.next(4) > 0
        let writes = random.pick([2, 5, 20])
        let receivers = [Receiver(pool), Receiver(pool)]
        var next = [0, 0]
        for step in 0..<500 {
            let index = random.next(2)
            let receiver = receivers[index]
            switch random.next(10 + writes) {
            case 0...3 where next[index] < 100:
                let upper = min(100, next[index] + 1 + random.next(6))
                receiver.append(
                    next[index]..<upper, of: chunk, stream: random.pick([1, 3, 3, 0x7FFF_FFFF]),
                    isCopied: random.next(6) == 0)
                next[index] = upper
            case 4: receiver.reserve(random.next(200))
            case 5: receiver.answer()
            case 6: receiver.control(UInt32(step))
            case 7: receiver.output.blocked = false
            case 8: receiver.share(random.next(300), from: region, own: random.next(40))
            default:
                guard !receiver.output.blocked || random.next(3) == 0 else { break }
                receiver.write(pieces: random.pick([3, 16]), mayBlock: mayBlock) {
                    random.next(3) == 0 ? $0 : random.next($0 + 1)
                }
            }
        }
        for receiver in receivers {
            let isCut = random.next(4) == 0
            if isCut { receiver.output.dropMessages() }
            receiver.drain { random.next(2) == 0 ? $0 : random.next($0 + 1) }
            receiver.check(isCut: isCut, "seed \(seed)")
        }
    }

    /// A first write that ends at any byte, then one byte at a time, with another connection's bytes in the scratch in
    /// between.
    @Test(arguments: [(150, true), (150, false), (40, true), (20, false)])
    func writesMayEndAnywhere(_ scratch: Int, _ mayBlock: Bool) {
        let chunk = chunk([0, 5, 5, 1, 9, 3, 3, 30])
        for cut in 0...160 {
            let pool = BlockPool(budget: budget, scratch: scratch)
            let receiver = Receiver(pool)
            let other = Receiver(pool)
            receiver.append(0..<3, of: chunk, stream: 0x0102_0304)
            receiver.append(3..<4, of: chunk, stream: 1)
            receiver.append(4..<5, of: chunk, stream: 7)
            receiver.control(11)
            receiver.write(pieces: 16, mayBlock: mayBlock) { min(cut, $0) }
            receiver.control(13)
            // The next messages of the same stream, which may go into the same segment.
            receiver.append(5..<8, of: chunk, stream: 7)
            receiver.drain(mayBlock: mayBlock) {
                min(1, $0)
            } between: {
                other.append(0..<8, of: chunk, stream: 0x0A0B_0C0D)
                other.write { $0 }
            }
            receiver.check("cut \(cut)")
        }
    }

    @Test func anotherStreamIsCopiedOnce() {
        let pool = BlockPool(budget: budget)
        let chunk = chunk([Int](repeating: 128, count: 1000))
        let receiver = Receiver(pool)
        let before = budget.used
        for round in 0..<100 { receiver.append(round * 10..<round * 10 + 10, of: chunk, stream: 3) }
        #expect(receiver.output.copied == 0 && budget.used == before)
        receiver.write(pieces: 1) { $0 }
        receiver.check("all in one piece")
        #expect(receiver.output.copied == 137_000 && budget.used == before)
    }

    /// Data beyond the scratch's size is offered once the scratch has been accepted, from the next frame boundary on.
    @Test func moreThanTheScratchGoesBitByBit() {
        let chunk = chunk([Int](repeating: 91, count: 100))
        let receiver = Receiver(BlockPool(budget: budget, scratch: 1050))
        receiver.append(0..<100, of: chunk, stream: 3)
        var writes: [Int] = []
        receiver.drain { offered in
            writes.append(offered)
            return offered
        }
        #expect(writes == [Int](repeating: 1000, count: 10))
        receiver.check("ten writes")
        #expect(receiver.output.copied == 10_000)
    }

    /// A connection copies the last few bytes that its socket has not accepted, into memory of their size; if memory is
    /// short, it keeps a reference to the chunk instead.
    @Test(arguments: [(1, false), (3, false), (1, true), (3, true)])
    func aBlockedSocketKeepsNoChunkForAFewBytes(_ stream: UInt32, _ isShort: Bool) {
        let budget = MemoryBudget(limit: isShort ? 0 : .max)
        let receiver = Receiver(BlockPool(budget: budget))
        weak var gone: Chunk?
        do {
            let chunk = chunk([500], budget)
            receiver.append(0..<1, of: chunk, stream: stream)
            gone = chunk
        }
        #expect(gone != nil)
        let before = budget.used
        receiver.write { _ in 100 }
        #expect((gone == nil) == !isShort)
        #expect(isShort ? budget.used == before : budget.used == 416)
        #expect(receiver.output.count == 409)
        receiver.control(1)
        withUnsafeTemporaryAllocation(of: UnsafeRawBufferPointer.self, capacity: 8) { pieces in
            let count = receiver.output.gather(into: pieces)
            // The rest of the frame in flight is sent before the control frame.
            #expect(pieces[..<count].map(\.count) == [409, 13])
        }
        receiver.write { $0 }
        receiver.check("stream \(stream)")
        #expect(gone == nil && budget.used == 0)
    }

    /// However many connections are stuck in a large message, memory holds only that message, and what follows it.
    @Test(arguments: [1, 3], [5, 100, 100_000])
    func thoseWhoAreStuckInOneMessageShareIt(_ stream: UInt32, _ taken: Int) {
        let budget = MemoryBudget(limit: 64 << 20)
        let pool = BlockPool(budget: budget)
        let chunk = chunk([1 << 20, 20_000, 20_000], budget)
        let receivers = (0..<200).map { _ in Receiver(pool) }
        for receiver in receivers {
            receiver.append(0..<1, of: chunk, stream: stream)
            receiver.write { _ in taken }
            receiver.append(1..<3, of: chunk, stream: stream)
        }
        #expect(budget.used <= chunk.capacity + receivers.count * 16)
        for receiver in receivers {
            receiver.drain { $0 }
            receiver.check("all of it")
        }
    }

    /// Where copies would exceed their share of the memory, each copy that is made is charged.
    @Test func copiesTakeNoMoreThanTheirShare() {
        let budget = MemoryBudget(limit: 1 << 20)
        let pool = BlockPool(budget: budget)
        let chunk = chunk([Int](repeating: 1000, count: 100), budget)
        let before = budget.used
        let receivers = (0..<500).map { _ in Receiver(pool) }
        for receiver in receivers {
            receiver.append(0..<1, of: chunk, stream: 3)
            receiver.write { _ in 10 }
        }
        #expect(budget.used - before <= (1 << 20) / BlockPool.share)
        pool.look()
        for receiver in receivers { receiver.reserve(50) }
        #expect(receivers.allSatisfy { $0.output.room(256 << 10) < Output.sip })
        #expect(budget.used - before <= (1 << 20) / BlockPool.share + 500 * 64)
        for receiver in receivers { receiver.drain { $0 } }
        pool.removeSpares()
        #expect(budget.used == before)
    }

    /// A chunk is released once it has been sent, however much waits after it.
    @Test func whatIsSentKeepsNoChunk() {
        let receiver = Receiver(BlockPool(budget: budget))
        weak var gone: Chunk?
        do {
            let chunk = chunk([500])
            receiver.append(0..<1, of: chunk, stream: 1)
            gone = chunk
        }
        let waiting = chunk([500, 500])
        receiver.append(0..<2, of: waiting, stream: 1)
        #expect(gone != nil)
        receiver.write(mayBlock: false) { _ in 600 }
        #expect(gone == nil && receiver.output.count == 3 * 509 - 600)
        receiver.drain(mayBlock: false) { $0 }
        receiver.check("what waited")
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

// The log: framing, eviction, byte limits, and views of it.

import Bytes
import RSocket
import Replay
import Testing

@testable import Core

@Suite struct LogTests {
    private func fill(_ log: Log, _ sizes: [Int], metadata: [Int] = [], budget: MemoryBudget) {
        for (index, size) in sizes.enumerated() {
            let payload = [UInt8](repeating: UInt8(truncatingIfNeeded: index), count: size)
            let carried = [UInt8](repeating: 7, count: index < metadata.count ? metadata[index] : 0)
            payload.withUnsafeBytes { payload in
                carried.withUnsafeBytes { carried in
                    _ = log.append(
                        metadata: carried.count > 0 ? carried : nil, payload: payload, timestamp: Int64(index),
                        budget: budget)
                }
            }
        }
    }

    /// The second removal takes a whole chunk; the chunk before it still has messages of the first.
    @Test func messagesThatWereRemovedTwiceDoNotComeBack() {
        let budget = MemoryBudget(limit: .max)
        let log = Log()
        fill(log, [1, 2, 3], budget: budget)
        for size in [4, 5] {
            log.removeAll(from: SequenceNumber(2))
            fill(log, [size], budget: budget)
        }
        let piece = log.piece(of: SequenceNumber(2))
        #expect(log.end == SequenceNumber(3))
        #expect(piece.chunk.entry(SequenceNumber(2) - piece.first).payload == 5)
    }

    /// Chunks grow with the number of them, but not while memory is full, and not after a store has refused messages.
    @Test func chunksAreSmallWhileMemoryIsFullAndAfterARemoval() {
        let budget = MemoryBudget(limit: .max)
        let log = Log()
        fill(log, Array(repeating: 1000, count: 100), budget: budget)
        #expect(log.allPieces.map(\.chunk.capacity) == [4, 8, 16, 32, 64].map { $0 << 10 })
        budget.limit = budget.used - 1
        fill(log, Array(repeating: 1000, count: 40) + [20_000], budget: budget)
        #expect(log.allPieces.suffix(2).map(\.chunk.capacity) == [4 << 10, 20_048])
        budget.limit = .max
        fill(log, Array(repeating: 1000, count: 7), budget: budget)
        #expect(log.allPieces.last?.chunk.capacity == 8 << 10)
        log.removeAll(from: log.end.advanced(by: -1))
        fill(log, [1000], budget: budget)
        #expect(log.allPieces.last?.chunk.capacity == 4 << 10)
    }

    @Test func messagesStandFramed() {
        let budget = MemoryBudget(limit: .max)
        let log = Log()
        let sizes = [0, 1, 128, 65_536, 65_537, 200_000, 5]
        fill(log, sizes, metadata: [0, 0, 3, 0, 9], budget: budget)
        for (index, size) in sizes.enumerated() {
            let sequence = SequenceNumber(UInt64(index) + 1)
            let piece = log.piece(of: sequence)
            let entry = piece.chunk.entry(sequence - piece.first)
            #expect(entry.payload == size)
            #expect(entry.timestamp == index)
            let frames = piece.chunk.bytes(Int(entry.offset), Int(entry.framed))
            var offset = 0
            var payload = 0
            var fragments = 0
            while offset < frames.count {
                let length = frames.u24(at: offset)
                payload += length - 6
                fragments += 1
                #expect(frames.bigEndian(at: offset + 3, as: UInt32.self) == 1)
                let isLast = offset + 3 + length == frames.count
                #expect(frames.bigEndian(at: offset + 7, as: UInt16.self) == (isLast ? 0x2820 : 0x28A0))
                offset += 3 + length
            }
            #expect(payload == size)
            #expect(fragments == max(1, (size + 65_535) / 65_536))
        }
    }

    /// A run is stored just as its messages would be if they were appended one by one, on any stream and across the
    /// ends of chunks.
    @Test(arguments: [1, 5] as [UInt32]) func aRunStandsAsItsMessagesSingly(stream: UInt32) throws {
        let budget = MemoryBudget(limit: .max)
        var random = LedgerRandom(state: UInt64(stream))
        let (singly, together) = (Log(), Log())
        for round in 0..<300 {
            let sizes = (0...random.next(60)).map { _ in random.next(random.next(8) == 0 ? 20_000 : 300) }
            let first = singly.end
            fill(singly, sizes, budget: budget)
            var frames = ByteBuffer()
            for (index, size) in sizes.enumerated() {
                [UInt8](repeating: UInt8(truncatingIfNeeded: index), count: size).withUnsafeBytes {
                    FrameWriter.payload(
                        stream: stream, next: true, complete: false, metadata: nil, data: $0, fragment: 0, into: &frames
                    )
                }
            }
            together.append(
                PayloadRun(checked: frames.readable, stream: stream, count: sizes.count, longest: sizes.max()!),
                timestamp: Int64(round), budget: budget)
            #expect(together.end == singly.end && together.charged == singly.charged)
            for index in sizes.indices {
                let (one, other) = (
                    singly.piece(of: first.advanced(by: index)), together.piece(of: first.advanced(by: index))
                )
                let (a, b) = (
                    one.chunk.entry(first.advanced(by: index) - one.first),
                    other.chunk.entry(first.advanced(by: index) - other.first)
                )
                #expect(a.offset == b.offset && a.chargedBefore == b.chargedBefore && b.timestamp == round)
                #expect(b.payload == sizes[index] && b.metadata == 0)
                let (left, right) = (
                    one.chunk.bytes(Int(a.offset), Int(a.framed)), other.chunk.bytes(Int(b.offset), Int(b.framed))
                )
                try #require(left.elementsEqual(right))
            }
            let keep = singly.end.advanced(by: -Swift.min(500, singly.end - singly.head))
            singly.evict(before: keep)
            together.evict(before: keep)
        }
    }

    /// The charge is the memory held, or nearly: a topic's byte limit limits memory.
    @Test(arguments: [
        [10], [1000], [9_000], [70_000], [100_000], [131_000], [200_000], [255_000], [1 << 20],
        [
            10, 100_000,
        ], [200_000, 10, 60_000],
    ])
    func chunksAreFilled(_ sizes: [Int]) {
        let budget = MemoryBudget(limit: .max)
        let log = Log()
        while log.bytes < 8 << 20 { fill(log, sizes, budget: budget) }
        #expect(budget.used < log.bytes + log.bytes / 2, "\(budget.used) for \(log.bytes)")
    }

    @Test func publishersWithAndWithoutMetadataShareChunks() {
        let budget = MemoryBudget(limit: .max)
        let log = Log()
        for _ in 0..<1000 { fill(log, [1000, 1000, 1000], metadata: [0, 20], budget: budget) }
        #expect(budget.used < log.bytes + log.bytes / 4)
        // When only messages without metadata are left, messages are contiguous again.
        fill(log, Array(repeating: 1000, count: 2000), budget: budget)
        #expect(log.allPieces.last!.chunk.hasMetadata == false)
    }

    @Test func evictionFreesChunksAndKeepsCount() {
        let budget = MemoryBudget(limit: .max)
        let log = Log()
        fill(log, Array(repeating: 100, count: 20_000), budget: budget)
        #expect(log.bytes == 20_000 * 164)
        let before = budget.used
        let limit = 164 * 500
        let first = log.firstWithin(limit)
        #expect(first == SequenceNumber(19_501))
        log.evict(before: first)
        #expect(log.bytes == limit)
        #expect(log.window.count == 500)
        #expect(budget.used < before / 4)
        #expect(log.firstWithin(0) == log.end)
        log.evict(before: log.end)
        #expect(log.bytes == 0)
        fill(log, [10], budget: budget)
        #expect(log.bytes == 74)
    }

    /// A chunk is freed with its last message, not only when the first message of the next chunk goes.
    @Test func aChunkGoesWithItsLastMessage() {
        let budget = MemoryBudget(limit: .max)
        let log = Log()
        // Each message has a separate chunk.
        fill(log, [100_000, 100_000, 100_000], budget: budget)
        let each = budget.used / 3
        for left in [2, 1] {
            log.evict(before: log.head.advanced(by: 1))
            #expect(budget.used == left * each)
        }
    }

    @Test func theFirstWithinALimitIsWhatGoingOverAllFinds() {
        let budget = MemoryBudget(limit: .max)
        let log = Log()
        let sizes = (0..<300).map { $0 * 37 % 900 }
        fill(log, sizes, budget: budget)
        for limit in stride(from: 0, to: log.bytes + 1000, by: 997) {
            var left = limit
            var first = 301
            while first > 1, left >= sizes[first - 2] + 64 {
                left -= sizes[first - 2] + 64
                first -= 1
            }
            #expect(log.firstWithin(limit) == SequenceNumber(UInt64(first)), "limit \(limit)")
        }
    }

    /// A message gets the timestamp of the one before it if the clock has been set back, also after all are gone.
    @Test func timestampsNeverDecrease() throws {
        let budget = MemoryBudget(limit: .max)
        let log = Log()
        var frames = ByteBuffer()
        FrameWriter.payload(
            stream: 1, next: true, complete: false, metadata: nil, data: .nothing, fragment: 0, into: &frames)
        var expected: [Int64] = []
        for (index, clock) in ([5, 5, 3, 9, 8, 7, 20, -4, 21, 2] as [Int64]).enumerated() {
            if index % 2 == 0 {
                _ = log.append(metadata: nil, payload: .nothing, timestamp: clock, budget: budget)
            } else {
                log.append(
                    PayloadRun(checked: frames.readable, stream: 1, count: 1, longest: 0), timestamp: clock,
                    budget: budget)
            }
            expected.append(Swift.max(clock, expected.last ?? clock))
        }
        #expect((1...10).map { log.timestamp(SequenceNumber($0)) } == expected)
        log.evict(before: log.end)
        log.releaseLastChunk()
        _ = log.append(metadata: nil, payload: .nothing, timestamp: 4, budget: budget)
        #expect(log.timestamp(SequenceNumber(11)) == 21)
    }

    /// The search for a time, against going over all messages: with times that many messages share, over many chunks,
    /// after evictions, and in a view that ends before the log does.
    @Test(arguments: 1...20 as ClosedRange<UInt64>) func theFirstAtOrAfterATimeIsWhatGoingOverAllFinds(seed: UInt64) {
        let budget = MemoryBudget(limit: .max)
        let log = Log()
        var random = LedgerRandom(state: seed)
        #expect(log.first(atOrAfter: 0) == nil)
        var clock: Int64 = 1000
        var times: [Int64] = []
        let payload = [UInt8](repeating: 1, count: 3000)
        var view = Log()
        for _ in 0..<40 {
            for _ in 0..<random.next(60) {
                payload[..<random.next(3000)].withUnsafeBytes {
                    _ = log.append(metadata: nil, payload: $0, timestamp: clock, budget: budget)
                }
                times.append(Swift.max(clock, times.last ?? clock))
                if random.next(3) == 0 { clock += Int64(random.next(6)) - 1 }
            }
            if random.next(4) == 0 { log.evict(before: log.head.advanced(by: random.next(log.end - log.head + 1))) }
            if random.next(4) == 0 {
                view = Log()
                view.begin(
                    TopicSnapshot(
                        epoch: 1, state: .live, head: log.head, end: log.end, charged: log.charged,
                        pieces: log.allPieces, retained: log.head, lost: log.head, store: nil, typical: 0))
            }
            for log in [log, view] {
                for time in stride(from: Int64(990), to: clock + 10, by: 1 + random.next(4)) {
                    let held = Int(log.head.value - 1)..<Int(log.end.value - 1)
                    let first = held.first { times[$0] >= time } ?? held.upperBound
                    let expected = first > held.lowerBound ? SequenceNumber(UInt64(first) + 1) : nil
                    #expect(log.first(atOrAfter: time) == expected, "time \(time) in \(log.window)")
                }
            }
        }
    }

    @Test func aViewSeesWhatItWasToldOf() {
        let budget = MemoryBudget(limit: .max)
        let log = Log()
        fill(log, Array(repeating: 50, count: 100), budget: budget)
        let view = Log()
        view.begin(
            TopicSnapshot(
                epoch: 1, state: .live, head: log.head, end: log.end, charged: log.charged, pieces: log.allPieces,
                retained: log.head, lost: log.head, store: nil, typical: 0))
        let reported = log.end
        fill(log, Array(repeating: 60, count: 5000), budget: budget)
        #expect(view.end == reported)
        #expect(view.piece(of: SequenceNumber(100)).end == reported)
        view.advance(to: log.end, charged: log.charged, fresh: log.pieces(from: reported, upTo: log.end))
        #expect(view.bytes == log.bytes)
        for sequence in stride(from: 1, through: 5100, by: 77) {
            let number = SequenceNumber(UInt64(sequence))
            let piece = view.piece(of: number)
            #expect(piece.first <= number && number < piece.end)
        }
    }
}

// A log with holes, against a list of its sequences: look-ups, pieces, charges, eviction, and a view of it.

import Replay
import Testing

@testable import Core

@Suite struct HoledLogTests {
    private enum Place { case message(charge: Int, time: Int64), skipped, lost }

    /// A log, a view of it, and what they should hold.
    private struct Logs {
        let budget = MemoryBudget(limit: .max)
        let log = Log()
        var view = Log()
        /// From sequence 1 on. The last one is a message.
        var places: [Place] = []
        /// Holes after the last message.
        var ahead: [Place] = []
        var clock: Int64 = 1000

        var range: Range<UInt64> { log.head.value..<log.end.value }

        func place(_ sequence: UInt64) -> Place { places[Int(sequence) - 1] }
        func isMessage(_ sequence: UInt64) -> Bool {
            if case .message = place(sequence) { true } else { false }
        }
        func messages(_ range: Range<UInt64>) -> [UInt64] { range.filter(isMessage) }
        func next(_ sequence: UInt64) -> UInt64 { (sequence..<log.end.value).first(where: isMessage)! }
        /// The charge of the messages from each sequence on.
        func charges() -> [UInt64: Int] {
            var charges = [log.end.value: 0]
            for sequence in range.reversed() {
                charges[sequence] = charges[sequence + 1]!
                if case .message(let charge, _) = place(sequence) { charges[sequence]! += charge }
            }
            return charges
        }

        mutating func append(_ random: inout LedgerRandom) {
            let size = random.next(4) == 0 ? random.next(5000) : random.next(100)
            [UInt8](repeating: 1, count: size).withUnsafeBytes {
                _ = log.append(metadata: nil, payload: $0, timestamp: clock, budget: budget)
            }
            places += ahead + [.message(charge: Log.charge(payload: size, metadata: 0), time: clock)]
            ahead = []
            if random.next(3) == 0 { clock += Int64(random.next(4)) }
        }

        mutating func skip(_ count: Int, isLost: Bool) {
            log.skip(to: log.next.advanced(by: count), isLost: isLost)
            ahead += Array(repeating: isLost ? .lost : .skipped, count: count)
        }

        mutating func advanceView() {
            let range = SequenceRange(lower: Swift.max(view.end, log.head), upper: log.end)
            view.advance(
                to: log.end, charged: log.charged, fresh: log.pieces(from: range.lower, upTo: range.upper),
                holes: log.holes.within(range))
            view.evict(before: log.head)
        }
    }

    @Test(arguments: 1...20 as ClosedRange<UInt64>) func equalsAList(seed: UInt64) throws {
        var random = LedgerRandom(state: seed)
        var logs = Logs()
        for _ in 0..<30 {
            for _ in 0..<random.next(12) {
                if random.next(4) == 0 { logs.skip(random.next(5), isLost: random.next(2) == 0) }
                logs.append(&random)
            }
            logs.skip(random.next(3), isLost: random.next(2) == 0)
            if random.next(3) == 0 {
                logs.log.evict(before: logs.log.head.advanced(by: random.next(logs.log.end - logs.log.head + 1)))
                if random.next(2) == 0 { logs.log.releaseLastChunk() }
            }
            if random.next(2) == 0 { logs.advanceView() }
            #expect(logs.log.end.value - 1 == UInt64(logs.places.count))
            check(logs, logs.log)
            checkPieces(logs, &random)
            checkStarts(logs, &random)
            if logs.view.window == logs.log.window { check(logs, logs.view) }
            if random.next(10) == 0 {
                logs.view = Log()
                logs.view.begin(
                    TopicSnapshot(
                        epoch: 1, state: .live, head: logs.log.head, end: logs.log.end, charged: logs.log.charged,
                        pieces: logs.log.pieces(from: logs.log.head, upTo: logs.log.end),
                        holes: logs.log.holes.within(logs.log.window), retained: logs.log.head, lost: logs.log.head,
                        store: nil, typical: 0))
                check(logs, logs.view)
            }
        }
    }

    private func check(_ logs: Logs, _ log: Log) {
        let range = logs.range
        let charges = logs.charges()
        #expect(log.window == logs.log.window)
        for sequence in range {
            let number = SequenceNumber(sequence)
            let next = logs.next(sequence)
            guard case .message(_, let time) = logs.place(next) else { return }
            #expect(log.timestamp(number) == time)
            #expect(log.holds(number) == logs.isMessage(sequence))
            #expect(log.bytes(from: number) == charges[sequence])
            switch logs.place(sequence) {
            case .message:
                #expect(log.holes.hole(at: number) == nil)
                let piece = log.piece(of: number)
                #expect(piece.first <= number && number < piece.end)
            case .skipped: #expect(log.holes.hole(at: number)?.isLost == false)
            case .lost: #expect(log.holes.hole(at: number)?.isLost == true)
            }
        }
        #expect(log.hasHoles == !log.holes.isEmpty)
        for limit in stride(from: 0, to: log.bytes + 500, by: 1999) {
            let first = range.first { charges[$0]! <= limit } ?? range.upperBound
            #expect(log.firstWithin(limit).value == first, "limit \(limit)")
        }
        // In a hole, the message before it decides.
        for time in Int64(998)...logs.clock {
            guard let found = log.first(atOrAfter: time) else { continue }
            let expected = logs.messages(range).first {
                if case .message(_, let stamp) = logs.place($0) { stamp >= time } else { false }
            }
            let after = found == log.end ? nil : logs.next(found.value)
            #expect(after == expected, "time \(time)")
        }
    }

    private func checkPieces(_ logs: Logs, _ random: inout LedgerRandom) {
        let range = logs.range
        for _ in 0..<20 {
            let bounds = [random.next(range.count + 1), random.next(range.count + 1)].sorted()
            let part = range.lowerBound + UInt64(bounds[0])..<range.lowerBound + UInt64(bounds[1])
            let pieces = logs.log.pieces(
                from: SequenceNumber(part.lowerBound), upTo: SequenceNumber(part.upperBound))
            let found = pieces.flatMap { $0.first.value..<$0.end.value }
            #expect(found.filter { $0 >= part.lowerBound } == logs.messages(part))
            #expect(pieces.allSatisfy { $0.visible > 0 && $0.end.value > part.lowerBound })
        }
    }

    private func checkStarts(_ logs: Logs, _ random: inout LedgerRandom) {
        let range = logs.range
        let messages = logs.messages(range)
        for count in [0, 1, 2, random.next(messages.count + 2), messages.count, Int.max] {
            let (start, window) = logs.log.placed(.last(UInt64(count)), in: logs.log.window)
            guard case .last(let sequences) = start else {
                Issue.record("\(start)")
                return
            }
            let first = Swift.max(logs.log.end.value - sequences, window.lower.value)
            #expect(logs.messages(first..<range.upperBound) == Array(messages.suffix(count)))
            #expect(sequences == 0 || logs.isMessage(first))
        }
        for sequence in range {
            let (start, window) = logs.log.placed(.from(SequenceNumber(sequence)), in: logs.log.window)
            guard case .from(let first) = start else {
                Issue.record("\(start)")
                return
            }
            let next = logs.next(sequence)
            let begin = Swift.max(first, window.lower).value
            #expect(logs.next(begin) == next, "from \(sequence)")
            #expect((begin..<next).allSatisfy { if case .skipped = logs.place($0) { true } else { false } })
            let isLost = (sequence..<next).contains { if case .lost = logs.place($0) { true } else { false } }
            #expect((begin > first.value) == isLost, "from \(sequence)")
        }
    }

    @Test func adjacentHolesOfOneKindAreOne() {
        var holes = Holes()
        func hole(_ lower: UInt64, _ upper: UInt64, isLost: Bool = false) -> Hole {
            Hole(
                range: SequenceRange(lower: SequenceNumber(lower), upper: SequenceNumber(upper)), isLost: isLost)
        }
        holes.append(hole(3, 3))
        holes.append(hole(3, 5))
        holes.append(hole(5, 6))
        holes.append(hole(6, 7, isLost: true))
        holes.append(hole(8, 9, isLost: true))
        #expect(holes.all == [hole(3, 6), hole(6, 7, isLost: true), hole(8, 9, isLost: true)])
        #expect(holes.count(in: SequenceRange(lower: SequenceNumber(4), upper: SequenceNumber(9))) == 4)
        holes.evict(before: SequenceNumber(5))
        #expect(holes.all.count == 3)
        holes.evict(before: SequenceNumber(7))
        #expect(holes.all == [hole(8, 9, isLost: true)])
    }

    /// Without a message between them, holes of both kinds are bounded, too.
    @Test func alternatingHolesAreBounded() {
        let log = Log()
        for count in 1...3 * UInt64(Holes.most) {
            log.skip(to: SequenceNumber(1 + count), isLost: count % 2 == 0)
        }
        #expect(log.holes.all.count == Holes.most && log.holes.all.last?.isLost == true)
        #expect(log.next == SequenceNumber(1 + 3 * UInt64(Holes.most)) && log.end == .first && log.isEmpty)
    }
}

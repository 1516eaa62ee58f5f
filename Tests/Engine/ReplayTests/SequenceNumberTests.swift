// Sequence numbers saturate at both ends; names of policies round-trip.

import ForebayWire
import Replay
import Testing

struct SequenceNumberTests {
    @Test(
        arguments: [
            (5, 3, 8), (5, -3, 2), (5, -6, 0), (0, .min, 0), (.max, 1, .max), (.max - 1, 1, .max), (.max, -1, .max - 1),
            (.max, .max, .max), (1 << 63, .min, 0), (7, 0, 7),
        ] as [(UInt64, Int, UInt64)])
    func advances(from: UInt64, by: Int, to: UInt64) {
        #expect(sequence(from) + by == sequence(to))
        #expect(sequence(from).advanced(by: by).value == to)
    }

    @Test(
        arguments: [
            (5, 3, 2), (3, 5, -2), (4, 4, 0), (.max, 0, .max), (0, .max, -.max), (.max, .max - 1, 1),
            (1 << 63, 0, .max),
        ] as [(UInt64, UInt64, Int)])
    func differs(_ a: UInt64, _ b: UInt64, by difference: Int) {
        #expect(sequence(a) - sequence(b) == difference)
    }

    @Test func ranges() {
        #expect(window(3..<7).count == 4)
        #expect(!window(3..<7).isEmpty)
        #expect(window(3..<3).isEmpty)
        #expect(window(0..<(.max)).count == .max)
        let inverted = SequenceRange(lower: sequence(7), upper: sequence(3))
        #expect(inverted.isEmpty)
        #expect(inverted.count == 0)
        #expect(sequence(3) < sequence(4))
    }

    @Test func policyNames() {
        let names = ["drop-oldest", "drop-newest", "replace-newest", "latest", "fail", "block"]
        #expect(Overflow.allCases.map(\.name) == names)
        #expect(names.map { Overflow(name: $0) } == Overflow.allCases)
        for unknown in ["", "drop", "Latest", "drop_oldest", "fail "] {
            #expect(Overflow(name: unknown) == nil)
        }
    }
}

// What several suites use: a seeded generator, and short ways to write sequences.

@testable import Replay

/// splitmix64: the same numbers for the same seed, everywhere.
struct Random {
    var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }

    mutating func int(_ range: ClosedRange<Int>) -> Int {
        range.lowerBound + Int(next() % UInt64(range.count))
    }

    mutating func chance(_ percent: Int) -> Bool { int(1...100) <= percent }

    mutating func pick<T>(_ choices: [T]) -> T { choices[int(0...choices.count - 1)] }
}

func sequence(_ value: UInt64) -> SequenceNumber { SequenceNumber(value) }

func window(_ range: Range<UInt64>) -> SequenceRange {
    SequenceRange(lower: SequenceNumber(range.lowerBound), upper: SequenceNumber(range.upperBound))
}

func credit(_ n: UInt32, _ mode: Credit.Mode = .outstanding) -> Credit {
    var credit = Credit(mode: mode)
    if n > 0 { _ = credit.add(n) }
    return credit
}

extension Subscription {
    /// The numbers of the messages that wait.
    var waitingSequences: [UInt64] { waitingMessages.flatMap { $0.lower.value..<$0.upper.value } }

    /// Hands over what credit and `room` allow, and returns it.
    mutating func flush(room: inout Int) -> [Delivery] {
        var deliveries: [Delivery] = []
        while room > 0 {
            let range = deliverable
            let count = min(range.count, room)
            if count == 0 { break }
            let before = droppedBeforeNext
            handOver(count)
            for n in 0..<count {
                deliveries.append(Delivery(sequence: range.lower.value + UInt64(n), droppedBefore: n == 0 ? before : 0))
            }
            room -= count
        }
        return deliveries
    }
}

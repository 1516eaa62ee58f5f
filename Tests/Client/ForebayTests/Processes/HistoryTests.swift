// The checker of histories finds faults planted in a valid one.

import Testing

@testable import Forebay

@Suite struct HistoryTests {
    private static func message(_ sequence: UInt64, epoch: UInt64 = 7, gap: Gap? = nil) -> Message {
        Message(
            payload: bytes(Int(sequence)), sequence: sequence, epoch: epoch, timestamp: 1, gap: gap)
    }

    /// 1 to 10; 30 to 35, after a reported gap; and 1 to 5 of another epoch.
    private static let good =
        (1...10).map { message($0) } + [message(30, gap: Gap(.dropped, lost: 19))] + (31...35).map { message($0) }
        + [message(1, epoch: 8, gap: Gap(.newEpoch(previous: 7), lost: nil))] + (2...5).map { message($0, epoch: 8) }

    private func faults(_ messages: [Message], newest: UInt64 = 39) -> [String] {
        var history = History(retained: 10, isWhole: true)
        for message in messages { history.take(message, newest: newest) }
        return history.faults
    }

    @Test func aGoodHistoryHasNoFault() {
        #expect(faults(Self.good) == [])
        #expect(faults([]) == [])
    }

    struct Plant: CustomTestStringConvertible, Sendable {
        var testDescription: String
        var change: @Sendable (inout [Message]) -> Void
    }

    static let plants = [
        Plant(testDescription: "lost") { $0.remove(at: 4) },
        Plant(testDescription: "lost at the start") { $0.remove(at: 0) },
        Plant(testDescription: "lost at the start of an epoch") { $0.remove(at: 16) },
        Plant(testDescription: "the second of an epoch lost") { $0.remove(at: 17) },
        Plant(testDescription: "doubled") { $0.insert($0[4], at: 5) },
        Plant(testDescription: "doubled later") { $0.insert($0[4], at: 9) },
        Plant(testDescription: "the first doubled") { $0.insert($0[0], at: 1) },
        Plant(testDescription: "exchanged") { $0.swapAt(4, 5) },
        Plant(testDescription: "a gap not told") { $0[10].gap = nil },
        Plant(testDescription: "a gap reported with another number") { $0[10].gap = Gap(.dropped, lost: 18) },
        Plant(testDescription: "a gap reported as another") { $0[10].gap = Gap(.reconnected, lost: nil) },
        Plant(testDescription: "a gap that is none") { $0[5].gap = Gap(.dropped, lost: 1) },
        Plant(testDescription: "a gap at the start") { $0[0].gap = Gap(.dropped, lost: 1) },
        Plant(testDescription: "a gap reported too late") {
            $0[11].gap = $0[10].gap
            $0[10].gap = nil
        },
        Plant(testDescription: "an epoch not told") { $0[16].gap = nil },
        Plant(testDescription: "an epoch behind the wrong one") { $0[16].gap = Gap(.newEpoch(previous: 9), lost: nil) },
        Plant(testDescription: "an epoch reported twice") { $0[17].gap = $0[16].gap },
        Plant(testDescription: "an epoch that comes back") {
            $0.append(HistoryTests.message(36, gap: Gap(.newEpoch(previous: 8), lost: nil)))
        },
    ]

    @Test(arguments: plants) func aPlantedFaultIsFound(_ plant: Plant) {
        var messages = Self.good
        plant.change(&messages)
        #expect(faults(messages) != [])
    }

    /// 29 is gone once 39 exists, and not before, because the topic retains ten.
    @Test func whatWasHeldMayNotBeMissed() {
        #expect(faults(Self.good, newest: 38) != [])
        #expect(faults(Self.good, newest: 39) == [])
    }

    @Test func whatIsAcknowledgedIsDeliveredAsItWas() {
        func faults(_ acknowledged: [UInt64: Int]) -> [String] {
            var history = History(retained: 10, isWhole: true)
            for sequence in 1...5 { history.take(Self.message(UInt64(sequence))) }
            history.check(acknowledged: acknowledged)
            return history.faults
        }
        #expect(faults([1: 1, 5: 5]) == [])
        #expect(faults([1: 1, 6: 6]) != [], "it never arrived")
        #expect(faults([1: 1, 5: 4]) != [], "it is a different message")
    }
}

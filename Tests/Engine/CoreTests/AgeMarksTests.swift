// Expiry by age, however the clock is set.

import Bytes
import Replay
import Testing

@testable import Core

@Suite struct AgeMarksTests {
    private static let hour: Int64 = 3600 * 1_000_000_000

    @Test func marksAreFewAndMessagesStayHardlyLongerThanTheyShould() {
        var marks = AgeMarks()
        let age: UInt64 = 64_000
        var (oldest, early, late, taken): (UInt64, Int, Int, Int) = (1, 0, 0, 0)
        for now in UInt64(1)...200_000 {
            // One message at each moment; its sequence is the moment.
            marks.note(end: SequenceNumber(now + 1), age: age, now: now)
            if let end = marks.takeOld(age: age, now: now) {
                oldest = end.value
                taken += 1
            }
            if oldest > 1, oldest - 1 + age > now { early += 1 }
            if oldest + age + age / AgeMarks.count < now { late += 1 }
        }
        #expect(early == 0 && late == 0)
        #expect(taken > 100 && taken < 200)
    }

    @Test func nothingNewMakesNoMark() {
        var marks = AgeMarks()
        for now in UInt64(1)...1000 { marks.note(end: SequenceNumber(5), age: 64, now: now) }
        #expect(marks.takeOld(age: 64, now: 64) == nil)
        #expect(marks.takeOld(age: 64, now: 65) == SequenceNumber(5))
        #expect(marks.takeOld(age: 64, now: 5000) == nil)
    }

    @Test func messagesThatWereRemovedHaveNoAge() {
        var marks = AgeMarks()
        marks.note(end: SequenceNumber(5), age: 64, now: 1)
        marks.note(end: SequenceNumber(9), age: 64, now: 10)
        marks.remove(from: SequenceNumber(7))
        marks.note(end: SequenceNumber(9), age: 64, now: 20)
        #expect(marks.takeOld(age: 64, now: 70) == SequenceNumber(5))
        #expect(marks.takeOld(age: 64, now: 80) == SequenceNumber(7))
        #expect(marks.takeOld(age: 64, now: 90) == SequenceNumber(9))
    }

    @Test(arguments: [-hour, hour])
    func aStepOfTheClockMakesNothingOlderOrYounger(_ step: Int64) {
        var limits = Limits()
        limits.retainAge = 5 * Limits.second
        let broker = TestBroker(limits: limits)
        let client = broker.connect()
        client.publish("t", "before", stream: 1)
        broker.advance(seconds: 2)
        broker.now.wall += step
        broker.advance(seconds: 1)
        client.publish("t", "behind", stream: 3)
        _ = client.received()
        client.subscribe("t?replay=all", stream: 5)
        #expect(client.received() == ["5:before", "5:behind"])
        broker.advance(seconds: 3)
        client.subscribe("t?replay=all", stream: 7)
        #expect(client.received() == ["7:behind"])
        broker.advance(seconds: 3)
        client.subscribe("t?replay=all", stream: 9)
        #expect(client.received() == [])
    }

    @Test func anAgeThatIsSetLaterHoldsForWhatIsThere() {
        var limits = Limits()
        let broker = TestBroker(limits: limits)
        let client = broker.connect()
        for index in 0..<300 {
            client.publish("t", "\(index)", stream: UInt32(2 * index + 1))
            if index == 149 { broker.advance(seconds: 10) }
        }
        _ = client.received()
        limits.retainAge = 5 * Limits.second
        for shard in broker.shards { shard.adopt(limits, now: broker.now) }
        broker.advance(seconds: 0.5)
        client.subscribe("t?replay=all", stream: 1001)
        let left = client.received()
        // The number is exact to within one of the intervals into which the marks divide the time.
        #expect(left.count >= 150 && left.count <= 155 && left.last == "1001:299")
        broker.advance(seconds: 5)
        client.subscribe("t?replay=all", stream: 1003)
        #expect(client.received() == [])
    }
}

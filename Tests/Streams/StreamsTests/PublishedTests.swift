// Published and ObservableObject.

import Streams
import StreamsTestSupport
import Testing

@Suite("Published, ObservableObject")
struct PublishedTests {
    class Dial: ObservableObject, @unchecked Sendable {
        @Published var level = 0
        @Published var name = "a"
        var other = 1
    }

    final class Gauge: Dial, @unchecked Sendable {
        @Published var limit = 9
    }

    @Test("the current value first, then each before it is stored; without demand the latest waits")
    func publishes() {
        let meter = Dial()
        nonisolated(unsafe) var stored: [Int] = []
        let recorder = Recorder<Int, Never>(demand: .unlimited)
        recorder.onValue = { _, _ in
            stored.append(meter.level)
            return .none
        }
        meter.$level.subscribe(recorder)
        let slow = meter.$level.record(demand: .none)
        meter.level += 1
        meter.level = 5
        #expect(recorder.values == [0, 1, 5] && stored == [0, 0, 1] && meter.level == 5)
        slow.request(.max(2))
        #expect(slow.values == [5])
        recorder.cancel()
        meter.level = 6
        #expect(recorder.values == [0, 1, 5] && slow.values == [5, 6])
    }

    @Test("an object notifies before each change of a published property, also a superclass's, by one publisher")
    func objectWillChange() {
        let gauge = Gauge()
        let publisher = gauge.objectWillChange
        nonisolated(unsafe) var seen: [String] = []
        let cancellable = publisher.sink { seen.append("\(gauge.level) \(gauge.name) \(gauge.limit)") }
        gauge.level = 1
        gauge.name = "b"
        gauge.other = 2
        gauge.limit = 8
        #expect(seen == ["0 a 9", "1 a 9", "1 b 9"])
        #expect(gauge.objectWillChange === publisher)
        cancellable.cancel()
        gauge.level = 2
        #expect(seen.count == 3)
    }

    @Test("two properties stay independent when one is assigned to the other")
    func projectedValueIsSet() {
        let (first, second) = (Dial(), Dial())
        second.level = 2
        let recorder = first.$level.record()
        first.$level = second.$level
        second.level = 3
        first.level = 1
        #expect(recorder.values == [0, 1] && second.level == 3)
    }

    @Test("an object may have its own publisher")
    func publisherOfItsOwn() {
        final class Custom: ObservableObject {
            let objectWillChange = PassthroughSubject<String, Never>()
            var value = 0 { willSet { objectWillChange.send("\(newValue)") } }
        }
        let object = Custom()
        let recorder = object.objectWillChange.record()
        object.value = 3
        #expect(recorder.values == ["3"])
    }

    @Test("assign(to: &$property) stores values as long as the property exists")
    func assigns() {
        let subject = PassthroughSubject<Int, Never>()
        nonisolated(unsafe) var cancelled = 0
        var meter: Dial? = Dial()
        weak let weakMeter = meter
        nonisolated(unsafe) var changes = 0
        let cancellable = meter!.objectWillChange.sink { changes += 1 }
        subject.handleEvents(receiveCancel: { cancelled += 1 }).assign(to: &meter!.$level)
        [7, 8].publisher.assign(to: &meter!.$level)
        subject.send(9)
        #expect(meter?.level == 9 && changes == 3)
        meter = nil
        #expect(weakMeter == nil && cancelled == 1)
        subject.send(10)
        #expect(changes == 3)
        cancellable.cancel()
    }

    @Test("subscribers do not retain the object, and its publishers do not end with it")
    func released() {
        weak var weakMeter: Dial?
        let recorder = Recorder<Int, Never>(demand: .unlimited)
        do {
            let meter = Dial()
            weakMeter = meter
            meter.$level.subscribe(recorder)
            meter.level = 1
        }
        #expect(weakMeter == nil)
        #expect(recorder.events == [0, 1].asEvents())
    }
}

// Row 4: timers of Dispatch and of Foundation; and notifications.

import Foundation
import Streams
import StreamsTestSupport
import Testing

@Suite("row 4: Publishers.timer(queue:interval:leeway:times:)", .timeLimit(.minutes(10)))
struct TimerTests {
    private static let key = DispatchSpecificKey<Int>()

    private func queue() -> DispatchQueue {
        let queue = DispatchQueue(label: "timer")
        queue.setSpecific(key: TimerTests.key, value: 1)
        return queue
    }

    /// A recorder that reports each event.
    private func recorder<Output>(
        demand: Subscribers.Demand, _ happened: DispatchSemaphore
    ) -> Recorder<Output, Never> {
        let recorder = Recorder<Output, Never>(demand: demand)
        recorder.onValue = { _, _ in
            happened.signal()
            return .none
        }
        recorder.onCompletion = { _, _ in happened.signal() }
        return recorder
    }

    private func wait(_ semaphore: DispatchSemaphore, times: Int = 1, _ location: SourceLocation = #_sourceLocation) {
        for _ in 0..<times {
            #expect(semaphore.wait(timeout: .now() + 20) == .success, sourceLocation: location)
        }
    }

    @Test("emits the time on the queue, `times` times, and finishes")
    func times() {
        let happened = DispatchSemaphore(value: 0)
        let recorder: Recorder<DispatchTime, Never> = recorder(demand: .unlimited, happened)
        recorder.onValue = { _, _ in
            #expect(DispatchQueue.getSpecific(key: TimerTests.key) == 1)
            return .none
        }
        let start = DispatchTime.now()
        Publishers.timer(queue: queue(), interval: .milliseconds(10), times: .max(3)).subscribe(recorder)
        wait(happened)
        #expect(recorder.values.count == 3 && recorder.completion == .finished)
        for (index, time) in recorder.values.enumerated() {
            #expect(time.uptimeNanoseconds - start.uptimeNanoseconds >= (index + 1) * 10_000_000)
        }
        #expect("\(recorder.subscription!)" == "DispatchTimer")
    }

    @Test("the defaults: no queue, no leeway, no end")
    func defaults() {
        let timer = Publishers.timer(interval: .milliseconds(1))
        #expect(timer.queue == nil && timer.leeway == .nanoseconds(0) && timer.times == .unlimited)
        let happened = DispatchSemaphore(value: 0)
        let recorder: Recorder<DispatchTime, Never> = recorder(demand: .unlimited, happened)
        timer.subscribe(recorder)
        wait(happened, times: 5)
        recorder.cancel()
    }

    @Test("starts at the first demand; a tick without demand emits nothing and is not counted")
    func demand() {
        let happened = DispatchSemaphore(value: 0)
        let recorder: Recorder<DispatchTime, Never> = recorder(demand: .none, happened)
        Publishers.timer(queue: queue(), interval: .milliseconds(20), times: .max(3)).subscribe(recorder)
        // Another timer measures the time that passes.
        let other = DispatchSemaphore(value: 0)
        let clock: Recorder<DispatchTime, Never> = self.recorder(demand: .unlimited, other)
        Publishers.timer(interval: .milliseconds(20)).subscribe(clock)
        wait(other, times: 3)
        let asked = DispatchTime.now()
        recorder.request(.max(2))
        wait(happened, times: 2)
        #expect(recorder.values[0].uptimeNanoseconds - asked.uptimeNanoseconds >= 20_000_000)
        wait(other, times: 3)
        #expect(recorder.values.count == 2 && recorder.completion == nil)
        recorder.request(.max(1))
        wait(happened, times: 2)
        #expect(recorder.values.count == 3 && recorder.completion == .finished)
        clock.cancel()
    }

    @Test("cancel stops it at once, also from within a value; zero times finish without demand")
    func cancelled() {
        let happened = DispatchSemaphore(value: 0)
        let recorder: Recorder<DispatchTime, Never> = recorder(demand: .unlimited, happened)
        recorder.onValue = { recorder, _ in
            recorder.cancel()
            happened.signal()
            return .max(5)
        }
        let queue = queue()
        Publishers.timer(queue: queue, interval: .milliseconds(5)).subscribe(recorder)
        wait(happened)
        recorder.request(.unlimited)
        let other = DispatchSemaphore(value: 0)
        let clock: Recorder<DispatchTime, Never> = self.recorder(demand: .unlimited, other)
        Publishers.timer(queue: queue, interval: .milliseconds(5), times: .max(3)).subscribe(clock)
        wait(other, times: 4)
        #expect(recorder.values.count == 1 && recorder.completion == nil)
        #expect(Publishers.timer(interval: .seconds(1), times: .none).record(demand: .none).completion == .finished)
    }

    @Test("a cancelled timer releases its subscriber, whether it was ever requested or not", arguments: [0, 1])
    func released(demand: Int) {
        weak var object: Recorder<DispatchTime, Never>?
        do {
            let recorder = Publishers.timer(interval: .seconds(1000)).record(demand: .max(demand))
            object = recorder
            recorder.cancel()
        }
        #expect(object == nil)
    }

    @Test("Foundation's Timer: nothing before it is connected, one timer for all, nothing after")
    func foundationTimer() {
        let publisher = Timer.publish(every: 0.01, on: .current, in: .default)
        let all = publisher.record()
        let two = publisher.record(demand: .max(2))
        #expect(all.history == [.subscription])
        let start = Date()
        let connection = publisher.connect()
        while all.values.count < 4, Date().timeIntervalSince(start) < 20 {
            _ = RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.1))
        }
        connection.cancel()
        #expect(all.values.count >= 4 && two.values == Array(all.values.prefix(2)))
        #expect(all.values[0].timeIntervalSince(start) >= 0.009)
        let count = all.values.count
        _ = RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.05))
        #expect(all.values.count == count && all.completion == nil)
    }

    @Test("notifications go to subscribers that requested them, where they are posted, until cancelled")
    func notifications() {
        let center = NotificationCenter()
        let name = Notification.Name("test")
        let object = NSObject()
        let all = center.publisher(for: name).record()
        let one = center.publisher(for: name, object: object).record(demand: .max(1))
        center.post(name: name, object: nil)
        center.post(name: Notification.Name("other"), object: object)
        center.post(name: name, object: object)
        center.post(name: name, object: object)
        #expect(all.values.count == 3 && one.values.count == 1)
        all.cancel()
        center.post(name: name, object: nil)
        #expect(all.values.count == 3)
    }
}

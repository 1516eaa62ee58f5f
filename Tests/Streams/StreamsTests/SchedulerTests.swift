// Row 20: schedulers, and delivery on them.

import Foundation
import Streams
import StreamsTestSupport
import Testing

private enum Broken: Error { case once }

/// Waits for an action of another thread.
private struct Event: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)

    func happens() { semaphore.signal() }
    func wait(_ location: SourceLocation = #_sourceLocation) {
        #expect(semaphore.wait(timeout: .now() + 20) == .success, sourceLocation: location)
    }
}

/// A thread with its own run loop, which ends on request.
private final class LoopThread: @unchecked Sendable {
    private(set) var loop: RunLoop!
    private(set) var thread = pthread_self()
    private let isReady = Event()
    private var isOver = false

    init() {
        Thread.detachNewThread {
            self.thread = pthread_self()
            self.loop = RunLoop.current
            // Without a source a run loop does not wait.
            let anchor = Timer(fire: .distantFuture, interval: 1000, repeats: true) { _ in }
            self.loop.add(anchor, forMode: .default)
            self.isReady.happens()
            while !self.isOver, RunLoop.current.run(mode: .default, before: .distantFuture) {}
            anchor.invalidate()
        }
        isReady.wait()
    }

    func end() { loop.schedule { self.isOver = true } }
}

@Suite("row 20: Scheduler: ImmediateScheduler, DispatchQueue, OperationQueue, RunLoop", .timeLimit(.minutes(10)))
struct SchedulerTests {
    private static let key = DispatchSpecificKey<String>()

    private static func queue(_ attributes: DispatchQueue.Attributes = []) -> DispatchQueue {
        let queue = DispatchQueue(label: "test", attributes: attributes)
        queue.setSpecific(key: key, value: "test")
        return queue
    }

    /// Immediately, later, and repeatedly until cancelled.
    private func check<S: Scheduler>(_ scheduler: S, isThere: @escaping @Sendable () -> Bool = { true }) {
        nonisolated(unsafe) let scheduler = scheduler
        let (now, later, again) = (Event(), Event(), Event())
        let start = scheduler.now
        nonisolated(unsafe) var count = 0
        scheduler.schedule {
            #expect(isThere(), "\(S.self)")
            now.happens()
        }
        now.wait()
        scheduler.schedule(after: start.advanced(by: .milliseconds(30)), tolerance: .milliseconds(1)) {
            #expect(isThere() && scheduler.now >= start.advanced(by: .milliseconds(29)), "\(S.self)")
            later.happens()
        }
        later.wait()
        let lock = NSLock()
        let repeated = scheduler.schedule(after: scheduler.now, interval: .milliseconds(5)) {
            #expect(isThere(), "\(S.self)")
            lock.withLock { count += 1 }
            again.happens()
        }
        for _ in 0..<3 { again.wait() }
        repeated.cancel()
        let barrier = Event()
        scheduler.schedule { barrier.happens() }
        barrier.wait()
        // A repetition that had already started may still be counted.
        let counted = lock.withLock { count }
        scheduler.schedule(after: scheduler.now.advanced(by: .milliseconds(40))) { barrier.happens() }
        barrier.wait()
        #expect(lock.withLock { count } <= counted + 1)
    }

    @Test("a DispatchQueue executes immediately, later, and repeatedly")
    func dispatchQueue() {
        check(SchedulerTests.queue(), isThere: { DispatchQueue.getSpecific(key: SchedulerTests.key) == "test" })
    }

    @Test("an OperationQueue executes immediately, later, and repeatedly")
    func operationQueue() {
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 1
        check(queue, isThere: { OperationQueue.current === queue })
    }

    @Test("a RunLoop executes immediately, even if called from another thread, later, and repeatedly")
    func runLoop() {
        let thread = LoopThread()
        check(thread.loop, isThere: { pthread_equal(pthread_self(), thread.thread) != 0 })
        thread.end()
    }

    @Test("the immediate scheduler executes before the call returns, and its clock stands still")
    func immediate() {
        let scheduler = ImmediateScheduler.shared
        nonisolated(unsafe) var log: [Int] = []
        scheduler.schedule { log.append(1) }
        scheduler.schedule(after: scheduler.now.advanced(by: 100)) { log.append(2) }
        let cancellable = scheduler.schedule(after: scheduler.now, interval: 10) { log.append(3) }
        #expect(log == [1, 2, 3] && "\(cancellable)" == "Empty")
        #expect(scheduler.now == scheduler.now.advanced(by: 100) && scheduler.minimumTolerance == 0)
        typealias Stride = ImmediateScheduler.SchedulerTimeType.Stride
        #expect(Stride(14) == 14.6 && Stride(-4) * 5 == -20 && Stride(3) < 4 && Stride(4) - 1 + 2 == 5)
        #expect(Stride.seconds(1.2) == 0 && Stride.milliseconds(3) == 0 && Stride(exactly: 7 as UInt8) == 7)
    }

    @Test("durations on a DispatchQueue are nanoseconds, and excessive ones are clamped to the largest")
    func dispatchStride() throws {
        typealias Time = DispatchQueue.SchedulerTimeType
        typealias Stride = Time.Stride
        #expect(Stride.seconds(2).magnitude == 2_000_000_000 && Stride.seconds(1.5).magnitude == 1_500_000_000)
        #expect(Stride.milliseconds(2) == 0.002 && Stride.microseconds(2).magnitude == 2000)
        #expect((2 as Stride).timeInterval == .nanoseconds(2_000_000_000))
        for limit in [
            Stride.seconds(.max), .milliseconds(.max), .seconds(1e300), Stride(.never), Stride(.seconds(.max)),
        ] {
            #expect(limit.magnitude == .max)
        }
        #expect(Stride(.microseconds(.min)).magnitude == .min && Stride.seconds(-1e300).magnitude == .min)
        #expect(
            Stride.nanoseconds(.max) + 1 == .nanoseconds(.max) && Stride.nanoseconds(.min) - 1 == .nanoseconds(.min))
        #expect(Stride.seconds(3) * .seconds(2) == .seconds(6) && Stride.nanoseconds(18) * .microseconds(1) == 0)
        #expect(Stride(exactly: UInt64.max) == nil && Stride(exactly: 2 as UInt64) == 2)
        let (early, late) = (
            Time(DispatchTime(uptimeNanoseconds: 10_000)), Time(DispatchTime(uptimeNanoseconds: 10_431))
        )
        #expect(early.distance(to: late) == .nanoseconds(431) && late.distance(to: early) == .nanoseconds(-431))
        #expect(early.distance(to: Time(.distantFuture)) == .nanoseconds(.max))
        #expect(early.advanced(by: .nanoseconds(431)) == late && early < late && early.hashValue != late.hashValue)
        #expect(early.advanced(by: .nanoseconds(.max)).dispatchTime == .distantFuture)
        let encoded = try JSONEncoder().encode([early])
        #expect(String(decoding: encoded, as: UTF8.self) == "[10000]")
        #expect(try JSONDecoder().decode([Time].self, from: encoded) == [early])
        let stride = try JSONEncoder().encode([Stride.nanoseconds(42)])
        #expect(String(decoding: stride, as: UTF8.self) == #"[{"_nanoseconds":42}]"#)
        #expect(try JSONDecoder().decode([Stride].self, from: stride) == [.nanoseconds(42)])
    }

    @Test("times of RunLoop and OperationQueue are dates, and durations seconds")
    func dateStride() {
        let time = RunLoop.SchedulerTimeType(Date(timeIntervalSince1970: 100))
        #expect(time.advanced(by: 1.5).date.timeIntervalSince1970 == 101.5)
        #expect(time.distance(to: RunLoop.SchedulerTimeType(Date(timeIntervalSince1970: 90))) == -10)
        #expect(OperationQueue.SchedulerTimeType.Stride.milliseconds(1500) == 1.5)
    }

    // receive(on:), subscribe(on:)

    @Test("receive(on:) delivers in order, only on the scheduler, one at a time", arguments: [false, true])
    func receiveOn(isConcurrent: Bool) {
        let queue = SchedulerTests.queue(isConcurrent ? .concurrent : [])
        let ended = Event()
        let recorder = Recorder<Int, Never>(demand: .max(1))
        nonisolated(unsafe) var isReceiving = false
        recorder.onValue = { _, _ in
            #expect(DispatchQueue.getSpecific(key: SchedulerTests.key) == "test" && !isReceiving)
            isReceiving = true
            defer { isReceiving = false }
            return .max(1)
        }
        recorder.onCompletion = { _, _ in
            #expect(DispatchQueue.getSpecific(key: SchedulerTests.key) == "test")
            ended.happens()
        }
        (1...2000).publisher.receive(on: queue).subscribe(recorder)
        ended.wait()
        #expect(recorder.values == Array(1...2000) && recorder.completion == .finished)
    }

    @Test("receive(on:) is interleaved with other scheduled work")
    func receiveInTurn() {
        let scheduler = VirtualTimeScheduler()
        let subject = PassthroughSubject<Int, Never>()
        nonisolated(unsafe) var log: [String] = []
        let cancellable = subject.receive(on: scheduler).sink { log.append("\($0)") }
        subject.send(1)
        scheduler.schedule { log.append("between") }
        subject.send(2)
        #expect(log == [])
        scheduler.advance()
        #expect(log == ["1", "between", "2"])
        cancellable.cancel()
    }

    @Test("a value sent before the scheduled demand arrives is lost on a PassthroughSubject")
    func receiveLoses() {
        let scheduler = VirtualTimeScheduler()
        let subject = PassthroughSubject<Int, Broken>()
        let recorder = subject.receive(on: scheduler).record(demand: .max(1))
        recorder.onValue = { _, _ in .max(1) }
        subject.send(1)
        subject.send(2)
        scheduler.advance()
        subject.send(3)
        subject.send(completion: .failure(.once))
        #expect(recorder.values == [1])
        scheduler.advance()
        #expect(recorder.events == [1, 3].asEvents(failure: Broken.self, completion: .failure(.once)))
    }

    @Test("buffer(…) before receive(on:) loses nothing")
    func bufferBefore() {
        let scheduler = VirtualTimeScheduler()
        let subject = PassthroughSubject<Int, Broken>()
        let recorder = subject.buffer(size: 100, prefetch: .byRequest, whenFull: .dropOldest)
            .receive(on: scheduler).record(demand: .max(1))
        recorder.onValue = { _, _ in .max(1) }
        subject.send(sequence: 1...50, completion: .failure(.once))
        #expect(recorder.history == [.subscription])
        scheduler.run()
        #expect(recorder.events == Array(1...50).asEvents(failure: Broken.self, completion: .failure(.once)))
    }

    @Test("what waits for the scheduler is not delivered after cancel")
    func receiveCancelled() {
        let scheduler = VirtualTimeScheduler()
        let subject = PassthroughSubject<Int, Broken>()
        let recorder = subject.receive(on: scheduler).record()
        subject.send(1)
        recorder.cancel()
        subject.send(completion: .finished)
        scheduler.run()
        #expect(recorder.difference(from: [.subscription]) == nil)
    }

    @Test("subscribe(on:): subscription, demand and cancellation are scheduled; values are not")
    func subscribeOn() {
        let scheduler = VirtualTimeScheduler()
        let subject = PassthroughSubject<Int, Broken>()
        nonisolated(unsafe) var log: [String] = []
        let upstream = subject.handleEvents(
            receiveSubscription: { _ in log.append("subscribed") }, receiveCancel: { log.append("cancelled") },
            receiveRequest: { log.append("\($0)") })
        let recorder = upstream.subscribe(on: scheduler).record(demand: .max(2))
        #expect(log == [] && recorder.history == [])
        scheduler.schedule { subject.send(0) }
        scheduler.advance()
        // The subject had a subscriber, but its demand had not arrived when the value was sent.
        #expect(log == ["subscribed", "max(2)"] && recorder.history == [.subscription])
        subject.send(1)
        #expect(recorder.values == [1])
        recorder.cancel()
        #expect(log.last == "max(2)")
        subject.send(2)
        scheduler.advance()
        #expect(log.last == "cancelled" && recorder.values == [1])
    }

    @Test("subscribe(on:) a queue: a slow publisher does not block the subscriber")
    func subscribeOnQueue() {
        let ended = Event()
        let held = Event()
        let source = Deferred { () -> Publishers.Sequence<[Int], Never> in
            held.wait()
            #expect(DispatchQueue.getSpecific(key: SchedulerTests.key) == "test")
            return [1, 2].publisher
        }
        let recorder = Recorder<Int, Never>(demand: .unlimited)
        recorder.onCompletion = { _, _ in ended.happens() }
        source.subscribe(on: SchedulerTests.queue()).subscribe(recorder)
        held.happens()
        ended.wait()
        #expect(recorder.events == [1, 2].asEvents(completion: .finished))
    }

    @Test("delay, debounce, throttle and timeout by a real clock")
    func realClock() {
        let queue = SchedulerTests.queue()
        let subject = PassthroughSubject<Int, Broken>()
        let start = DispatchTime.now()
        let ended = Event()
        func record(_ publisher: some Publisher<Int, Broken>) -> Recorder<Int, Broken> {
            let recorder = Recorder<Int, Broken>(demand: .unlimited)
            recorder.onCompletion = { _, _ in ended.happens() }
            publisher.subscribe(recorder)
            return recorder
        }
        let late = record(subject.delay(for: .milliseconds(20), scheduler: queue))
        let quiet = record(subject.debounce(for: .milliseconds(20), scheduler: queue).prefix(1))
        let seldom = record(subject.throttle(for: .seconds(100), scheduler: queue, latest: false).prefix(1))
        let impatient = record(subject.timeout(.milliseconds(40), scheduler: queue, customError: { .once }))
        subject.send(1)
        subject.send(2)
        for _ in 0..<3 { ended.wait() }
        subject.send(completion: .finished)
        ended.wait()
        #expect(DispatchTime.now().uptimeNanoseconds - start.uptimeNanoseconds >= 40_000_000)
        #expect(late.events == [1, 2].asEvents(failure: Broken.self, completion: .finished))
        #expect(quiet.values == [2] && seldom.values == [1])
        #expect(impatient.events == [1, 2].asEvents(failure: Broken.self, completion: .failure(.once)))
    }
}

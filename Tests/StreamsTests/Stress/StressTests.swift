// Row 25: many threads at once. `make test-tsan` runs this under the thread sanitizer, which is what it is for.

import Foundation
import Streams
import StreamsTestSupport
import Testing

/// A publisher into which values are sent, as the tests need it.
struct StressLine: @unchecked Sendable, CustomStringConvertible {
    let name: String
    /// A subscriber that asks for all gets all.
    let isLossless: Bool
    let make: () -> Source

    struct Source: @unchecked Sendable {
        let publisher: AnyPublisher<Mark, Never>
        let send: (Mark) -> Void
        let finish: () -> Void
    }

    var description: String { name }

    /// - Parameter apply: what stands between the subject and the subscribers.
    init<P: Publisher>(
        _ name: String, isLossless: Bool = true, _ apply: @escaping (PassthroughSubject<Mark, Never>) -> P
    ) where P.Output == Mark, P.Failure == Never {
        self.init(name, isLossless: isLossless, PassthroughSubject.init, apply)
    }

    init<S: Subject, P: Publisher>(
        _ name: String, isLossless: Bool = true, _ subject: @escaping () -> S, _ apply: @escaping (S) -> P
    ) where S.Output == Mark, S.Failure == Never, P.Output == Mark, P.Failure == Never {
        self.name = name
        self.isLossless = isLossless
        make = {
            let subject = subject()
            return Source(
                publisher: apply(subject).eraseToAnyPublisher(), send: { subject.send($0) },
                finish: { subject.send(completion: .finished) })
        }
    }

    static let concurrent = DispatchQueue(label: "concurrent", attributes: .concurrent)
    static let serial = DispatchQueue(label: "serial")
    static let operations = OperationQueue()

    static let all: [StressLine] = [
        StressLine("PassthroughSubject") { $0 },
        StressLine(
            "CurrentValueSubject", isLossless: false, { CurrentValueSubject(Mark(sender: -1, number: 0)) }, { $0 }),
        StressLine("BufferSubject", isLossless: false, { BufferSubject(limit: 16) }, { $0 }),
        StressLine("shareReplay") { $0.shareReplay(capacity: 16) },
        StressLine("map, scan, filter") {
            $0.map { $0 }.scan(Mark(sender: -1, number: -1)) { $1 }.filter { $0.number >= 0 }.removeDuplicates()
        },
        StressLine("handleEvents") { $0.handleEvents(receiveOutput: { _ in }, receiveRequest: { _ in }) },
        StressLine("receive(on: serial)") { $0.receive(on: serial) },
        StressLine("receive(on: concurrent)") { $0.receive(on: concurrent) },
        StressLine("receive(on: operations)") { $0.receive(on: operations) },
        StressLine("delay") { $0.delay(for: .microseconds(100), scheduler: concurrent) },
        StressLine("debounce", isLossless: false) { $0.debounce(for: .microseconds(10), scheduler: concurrent) },
        StressLine("throttle", isLossless: false) {
            $0.throttle(for: .microseconds(10), scheduler: serial, latest: true)
        },
        StressLine("timeout") { $0.timeout(.seconds(100), scheduler: concurrent) },
        StressLine("collect(byTimeOrCount)", isLossless: false) {
            $0.collect(.byTimeOrCount(concurrent, .microseconds(50), 5)).map { (group: [Mark]) -> Mark in group[0] }
        },
    ]
}

@Suite("row 25: concurrent send, subscribe, request and cancel from many threads", .serialized, .timeLimit(.minutes(5)))
struct StressTests {
    private static let senders = 3
    private static let values = 300

    private func sending(_ source: StressLine.Source) -> [@Sendable () -> Void] {
        (0..<StressTests.senders).map { sender in
            { for number in 1...StressTests.values { source.send(Mark(sender: sender, number: number)) } }
        }
    }

    @Test("senders against subscribers that come, ask in turns, and go", arguments: StressLine.all)
    func comeAndGo(line: StressLine) {
        let source = line.make()
        let probes = Shared(NSMutableArray())
        let lock = NSLock()
        let coming: [@Sendable () -> Void] = (0..<3).map { thread in
            {
                var dice = Dice(thread + 1)
                for _ in 0..<60 {
                    let limit = Int.random(in: 1...20, using: &dice)
                    let probe = StressProbe<Never>(onValue: { probe, count in
                        if count == limit { probe.cancel() }
                        return count % 3 == 0 ? .max(1) : .none
                    })
                    source.publisher.subscribe(probe)
                    lock.withLock { probes.value.add(probe) }
                    for _ in 0..<Int.random(in: 1...10, using: &dice) {
                        probe.request(Int.random(in: 1...3, using: &dice))
                    }
                }
            }
        }
        // Threads that use the subscriptions of others.
        let meddling: [@Sendable () -> Void] = (0..<2).map { thread in
            {
                var dice = Dice(thread + 100)
                for step in 0..<600 {
                    let probe = lock.withLock { () -> StressProbe<Never>? in
                        guard probes.value.count > 0 else { return nil }
                        let index = Int.random(in: 0..<probes.value.count, using: &dice)
                        return probes.value[index] as? StressProbe<Never>
                    }
                    if step % 5 == 0 { probe?.cancel() } else { probe?.request(2) }
                }
            }
        }
        inParallel(sending(source) + coming + meddling)
        source.finish()
        drain()
        for case let probe as StressProbe<Never> in probes.value { #expect(probe.breaches == []) }
    }

    @Test("who stays gets every value of each sender in order, and the end once, last", arguments: StressLine.all)
    func stay(line: StressLine) {
        let source = line.make()
        let ended = DispatchGroup()
        let probes = (0..<4).map { _ in
            ended.enter()
            return StressProbe<Never>(onEnd: { ended.leave() })
        }
        for probe in probes { source.publisher.subscribe(probe) }
        // From several threads each.
        inParallel(
            probes.flatMap { probe in
                (0..<3).map { _ -> @Sendable () -> Void in { for _ in 0..<1000 { probe.request(1) } } }
            })
        inParallel(sending(source))
        source.finish()
        #expect(ended.wait(timeout: .now() + 60) == .success)
        for probe in probes {
            #expect(probe.breaches == [] && probe.completions == 1)
            guard line.isLossless else { continue }
            #expect(probe.count == StressTests.senders * StressTests.values)
            #expect(probe.last.values.allSatisfy { $0 == StressTests.values })
        }
    }

    @Test("the end races with values, demand and cancellation", arguments: StressLine.all)
    func end(line: StressLine) {
        for _ in 0..<20 {
            let source = line.make()
            let probes = (0..<3).map { _ in StressProbe<Never>(onValue: { _, _ in .max(1) }) }
            for probe in probes { source.publisher.subscribe(probe) }
            inParallel([
                { for number in 1...30 { source.send(Mark(sender: 0, number: number)) } },
                { source.finish() },
                { probes.forEach { $0.request(5) } },
                { source.publisher.subscribe(StressProbe()) },
                { probes[0].cancel() },
            ])
            drain()
            for probe in probes { #expect(probe.breaches == []) }
        }
    }

    /// Waits until the queues have carried out what was scheduled for now. What they are still to do later concerns
    /// subscribers that are not looked at any more, or goes through the queue too.
    private func drain() {
        StressLine.operations.waitUntilAllOperationsAreFinished()
        for _ in 0..<3 {
            StressLine.serial.sync {}
            let later = DispatchSemaphore(value: 0)
            StressLine.concurrent.asyncAfter(deadline: .now() + .milliseconds(2)) { later.signal() }
            later.wait()
            StressLine.concurrent.sync(flags: .barrier) {}
        }
    }

    @Test("timers that are asked and cancelled from many threads")
    func timers() {
        let ended = DispatchGroup()
        let finishing = (0..<4).map { _ -> Recorder<DispatchTime, Never> in
            ended.enter()
            let recorder = Recorder<DispatchTime, Never>()
            recorder.onCompletion = { _, _ in ended.leave() }
            Publishers.timer(interval: .microseconds(200), times: .max(30)).subscribe(recorder)
            return recorder
        }
        let cancelled = (0..<4).map { _ in Publishers.timer(interval: .microseconds(200)).record() }
        inParallel([
            { for _ in 0..<10 { finishing.forEach { $0.request(.max(2)) } } },
            { for _ in 0..<10 { finishing.forEach { $0.request(.max(2)) } } },
            { for recorder in cancelled { recorder.cancel() } },
            { for recorder in cancelled.reversed() { recorder.cancel() } },
        ])
        #expect(ended.wait(timeout: .now() + 60) == .success)
        for recorder in finishing { #expect(recorder.values.count == 30 && recorder.history.last == .finished) }
    }

    @Test("an AnyCancellable, cancelled and let go of at once, cancels once")
    func cancellables() {
        for _ in 0..<200 {
            let lock = NSLock()
            let count = Shared(NSMutableArray())
            let cancellable = AnyCancellable { lock.withLock { count.value.add(1) } }
            inParallel((0..<3).map { _ in { cancellable.cancel() } })
            #expect(count.value.count == 1)
        }
    }

    @Test("values of a subject under send from many threads, and tasks that are cancelled")
    func asyncValues() async {
        let subject = PassthroughSubject<Mark, Never>()
        let started = AsyncStream.makeStream(of: Void.self)
        let publisher = Shared(subject.handleEvents(receiveRequest: { _ in started.continuation.yield() }))
        let readers = (0..<4).map { index in
            Task {
                var count = 0
                for await _ in publisher.value.values {
                    count += 1
                    if index % 2 == 0, count == 20 { break }
                }
                return count
            }
        }
        var requests = started.stream.makeAsyncIterator()
        for _ in 0..<4 { await requests.next() }
        let senders = (0..<3).map { sender in
            Task { for number in 0..<2000 { subject.send(Mark(sender: sender, number: number)) } }
        }
        readers[1].cancel()
        for sender in senders { await sender.value }
        subject.send(completion: .finished)
        for reader in readers { #expect(await reader.value <= 6000) }
    }

    @Test("publishers of asynchronous sequences that are asked and cancelled from many threads")
    func asyncPublishers() {
        let elements = (0..<6).map { _ in
            AsyncStream<Int> { continuation in
                for value in 0..<200 { continuation.yield(value) }
                continuation.finish()
            }
        }
        let ended = DispatchGroup()
        let recorders = elements.enumerated().map { index, stream in
            let recorder = Recorder<Int, Never>()
            // The first two are cancelled.
            if index >= 2 {
                ended.enter()
                recorder.onCompletion = { _, _ in ended.leave() }
            }
            stream.publisher.subscribe(recorder)
            return recorder
        }
        inParallel([
            { for _ in 0..<101 { recorders.forEach { $0.request(.max(1)) } } },
            { for _ in 0..<100 { recorders.forEach { $0.request(.max(1)) } } },
            {
                recorders[0].cancel()
                recorders[1].cancel()
            },
            { recorders[1].cancel() },
        ])
        #expect(ended.wait(timeout: .now() + 60) == .success)
        for recorder in recorders[2...] {
            #expect(recorder.values == Array(0..<200) && recorder.history.last == .finished)
        }
    }
}

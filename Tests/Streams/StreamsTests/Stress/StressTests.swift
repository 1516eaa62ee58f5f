// Row 25: many threads at once. Meant for `make test-tsan`, which runs it under the thread sanitizer.

import Foundation
import Streams
import StreamsTestSupport
import Testing

@Suite(
    "row 25: concurrent send, subscribe, request and cancel from many threads", .serialized, .timeLimit(.minutes(10)))
struct StressTests {
    private static let senders = 3
    private static let values = StressSize.of(300)

    private func check(_ probe: StressProbe<Never>, _ line: StressLine) {
        #expect(probe.breaches == [])
        if line.isOrdered { #expect(probe.disorder == []) }
    }

    private func sending(_ source: StressLine.Source) -> [@Sendable () -> Void] {
        (0..<StressTests.senders).map { sender in
            { for number in 1...StressTests.values { source.send(Mark(sender: sender, number: number)) } }
        }
    }

    @Test("senders against subscribers that come, request in turns, and go", arguments: StressLine.all)
    func comeAndGo(line: StressLine) {
        let source = line.make()
        let probes = Shared(NSMutableArray())
        let lock = NSLock()
        let coming: [@Sendable () -> Void] = (0..<3).map { thread in
            {
                var dice = Dice(thread + 1)
                for _ in 0..<StressSize.of(60) {
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
        // Threads that use other threads' subscriptions.
        let meddling: [@Sendable () -> Void] = (0..<2).map { thread in
            {
                var dice = Dice(thread + 100)
                for step in 0..<StressSize.of(600) {
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
        for case let probe as StressProbe<Never> in probes.value { check(probe, line) }
    }

    @Test("subscribers that stay get all values of a sender in order, then the end", arguments: StressLine.all)
    func stay(line: StressLine) {
        let source = line.make()
        let ended = DispatchGroup()
        let probes = (0..<4).map { _ in
            ended.enter()
            return StressProbe<Never>(onEnd: { ended.leave() })
        }
        for probe in probes { source.publisher.subscribe(probe) }
        probes[0].request(.max)
        // Each probe requests from several threads.
        inParallel(
            probes[1...].flatMap { probe in
                (0..<3).map { _ -> @Sendable () -> Void in
                    { for _ in 0..<StressTests.senders * StressTests.values { probe.request(1) } }
                }
            })
        inParallel(sending(source))
        source.finish()
        #expect(ended.wait(timeout: .now() + 60) == .success)
        for (index, probe) in probes.enumerated() {
            check(probe, line)
            #expect(probe.completions == 1)
            guard line.reach == .all || line.reach == .unlimited && index == 0 else { continue }
            #expect(probe.count == StressTests.senders * StressTests.values)
            if line.isOrdered { #expect(probe.last.values.allSatisfy { $0 == StressTests.values }) }
        }
    }

    @Test("the end races with values, demand and cancellation", arguments: StressLine.all)
    func end(line: StressLine) {
        for _ in 0..<StressSize.of(20) {
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
            for probe in probes { check(probe, line) }
        }
    }

    /// Waits until the queues have executed what was scheduled for now. Later work concerns subscribers that are no
    /// longer checked, or goes through the queue too.
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

    @Test("timers that are requested and cancelled from many threads")
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

    @Test("an AnyCancellable, cancelled and released at the same time, cancels once")
    func cancellables() {
        for _ in 0..<200 {
            let lock = NSLock()
            let count = Shared(NSMutableArray())
            let cancellable = AnyCancellable { lock.withLock { count.value.add(1) } }
            inParallel((0..<3).map { _ in { cancellable.cancel() } })
            #expect(count.value.count == 1)
        }
    }

    @Test("values of a subject with senders on many threads, and tasks that are cancelled")
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

    @Test("publishers of asynchronous sequences that are requested and cancelled from many threads")
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
            // The first two recorders are cancelled, so nothing waits for their ends.
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

    @Test("sinks that are resumed from many threads while values arrive")
    func sinks() {
        let subject = PassthroughSubject<Mark, Never>()
        let demanding = StressProbe<Never>()
        let sink = DemandSink<Mark, Never>(
            demand: 5, receiveCompletion: { demanding.receive(completion: $0) },
            receiveValue: { _ = demanding.receive($0) })
        demanding.request(5)
        let pausing = StressProbe<Never>()
        pausing.request(.max)
        let buffered = subject.buffer(size: 4000, prefetch: .byRequest, whenFull: .dropNewest)
        let ended = DispatchSemaphore(value: 0)
        let pausable = buffered.pausableSink(
            receiveCompletion: {
                pausing.receive(completion: $0)
                ended.signal()
            },
            receiveValue: {
                _ = pausing.receive($0)
                return $0.number % 3 != 0
            })
        subject.subscribe(sink)
        let resuming = Shared(pausable)
        let telling: @Sendable () -> Void = {
            for _ in 0..<200 {
                // The demand is counted before it is requested.
                demanding.request(2)
                sink.increaseDemand(2)
                resuming.value.resume()
            }
        }
        let sending = (0..<3).map { sender -> @Sendable () -> Void in
            { for number in 1...500 { subject.send(Mark(sender: sender, number: number)) } }
        }
        inParallel(sending + [telling, telling])
        subject.send(completion: .finished)
        while ended.wait(timeout: .now()) != .success { pausable.resume() }
        #expect(demanding.breaches == [] && demanding.completions == 1 && demanding.count <= 805)
        #expect(pausing.breaches == [] && pausing.disorder == [] && pausing.count == 1500 && pausing.completions == 1)
    }

    @Test("a MergeInput takes publishers, subscribers and values from many threads, and is cancelled")
    func mergeInput() {
        for round in 0..<20 {
            let input = MergeInput<Mark>()
            let probes = (0..<3).map { _ in StressProbe<Never>() }
            let subjects = (0..<3).map { _ in PassthroughSubject<Mark, Never>() }
            for probe in probes {
                input.subscribe(probe)
                probe.request(.max)
            }
            inParallel(
                subjects.enumerated().map { sender, subject in
                    {
                        subject.merge(into: input)
                        for number in 1...100 { subject.send(Mark(sender: sender, number: number)) }
                    }
                } + [
                    { input.subscribe(StressProbe<Never>()) },
                    { if round % 2 == 1 { input.cancel() } },
                ])
            for probe in probes {
                #expect(probe.breaches == [] && probe.disorder == [] && probe.completions == 0)
                if round % 2 == 0 { #expect(probe.count == 300) }
            }
        }
    }
    @Test("a MergeInput holds its publishers back and loses nothing, whatever its subscribers request")
    func mergeInputHoldsBack() {
        let count = StressSize.of(300)
        let input = MergeInput<Mark>(buffer: 4)
        let probes = (0..<3).map { _ in StressProbe<Never>() }
        for probe in probes { input.subscribe(probe) }
        let merging: [@Sendable () -> Void] = (0..<3).map { sender in
            { (1...count).publisher.map { Mark(sender: sender, number: $0) }.merge(into: input) }
        }
        let requesting: [@Sendable () -> Void] = probes.map { probe in
            { for _ in 0..<3 * count { probe.request(1) } }
        }
        let passing: @Sendable () -> Void = {
            for round in 0..<count {
                let probe = StressProbe<Never>()
                input.subscribe(probe)
                probe.request(round % 3 + 1)
                probe.cancel()
            }
        }
        inParallel(merging + requesting + [passing])
        for probe in probes {
            #expect(probe.breaches == [] && probe.disorder == [] && probe.count == 3 * count)
        }
        input.cancel()
    }
}

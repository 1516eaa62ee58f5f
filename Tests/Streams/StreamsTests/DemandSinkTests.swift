// Rows 7, 8, 9 and 19 of the library's guarantees: sinks that limit their own demand.

import Streams
import StreamsTestSupport
import Testing

@Suite("Sinks that limit their demand")
struct DemandSinkTests {
    @Test("row 7: 1, pause, 2 3, pause, 4 5, pause, 6, finished, resumed by a timer")
    func pauses() {
        let scheduler = VirtualTimeScheduler()
        nonisolated(unsafe) var log: [String] = []
        let sink: any Pausable & Cancellable = (1...6).publisher.pausableSink(
            receiveCompletion: { _ in log.append("finished") },
            receiveValue: {
                log.append("\($0)")
                return $0 % 2 == 0
            })
        #expect(sink.paused)
        let timer = scheduler.schedule(after: scheduler.now.advanced(by: .seconds(1)), interval: .seconds(1)) {
            if sink.paused { log.append("resume") }
            sink.resume()
        }
        for _ in 0..<5 { scheduler.advance(by: .seconds(1)) }
        timer.cancel()
        #expect(log == ["1", "resume", "2", "3", "resume", "4", "5", "resume", "6", "finished"])
        sink.cancel()
    }

    @Test("row 7: resume from within the closure, before the pause, prevents the pause")
    func resumesWithin() {
        nonisolated(unsafe) var values: [Int] = []
        let sink = Subscribers.PausableSink<Int, Never>(receiveCompletion: { _ in }, receiveValue: { _ in false })
        let pausing = Subscribers.PausableSink<Int, Never>(
            receiveCompletion: { _ in },
            receiveValue: {
                values.append($0)
                sink.resume()
                return false
            })
        (1...3).publisher.subscribe(pausing)
        #expect(values == [1] && pausing.paused)
        pausing.resume()
        #expect(values == [1, 2] && pausing.paused)
        pausing.cancel()
        pausing.resume()
        #expect(values == [1, 2])
    }

    @Test("row 8: an infinite sequence five at a time, one batch a second, without ever running ahead")
    func resumes() {
        let scheduler = VirtualTimeScheduler()
        var computed = 0
        nonisolated(unsafe) var values: [Int] = []
        let numbers = sequence(first: 1) {
            computed += 1
            return $0 + 1
        }
        let sink = numbers.publisher.resumableSink(receiveCompletion: { _ in }, receiveValue: { values.append($0) })
        let timer = scheduler.schedule(after: scheduler.now.advanced(by: .seconds(1)), interval: .seconds(1)) {
            sink.resume(.max(5))
        }
        #expect(values == [])
        for second in 1...4 {
            scheduler.advance(by: .seconds(1))
            #expect(values == Array(1...5 * second))
            // One value is computed in advance, to find out whether the sequence has another.
            #expect(computed <= 5 * second + 1)
        }
        timer.cancel()
        sink.cancel()
    }

    @Test("row 9: a gate takes n values, closes for an interval, opens again")
    func gates() {
        let scheduler = VirtualTimeScheduler()
        nonisolated(unsafe) var asked: [Subscribers.Demand] = []
        nonisolated(unsafe) var log: [String] = []
        let gate = (1...7).publisher.handleEvents(receiveRequest: { asked.append($0) }).batchSink(
            size: 3, every: .seconds(2), scheduler: scheduler,
            receiveCompletion: { _ in log.append("finished") }, receiveValue: { log.append("\($0)") })
        #expect(log == ["1", "2", "3"])
        scheduler.advance(by: .seconds(1))
        #expect(log == ["1", "2", "3"])
        scheduler.advance(by: .seconds(1))
        #expect(log == ["1", "2", "3", "4", "5", "6"])
        scheduler.advance(by: .seconds(2))
        #expect(log.suffix(2) == ["7", "finished"])
        #expect(asked == [.max(3), .max(3), .max(3)])
        gate.cancel()
    }

    @Test("row 9: opened twice, the gate is open for one batch; cancelled, for none")
    func gateOpensOnce() {
        var opens: [() -> Void] = []
        nonisolated(unsafe) var values: [Int] = []
        let gate = Subscribers.BatchGate<Int, Never>(
            size: 2, reopen: { opens.append($0) }, receiveCompletion: { _ in }, receiveValue: { values.append($0) })
        (1...).publisher.subscribe(gate)
        let open = opens[0]
        open()
        #expect(values == [1, 2, 3, 4])
        gate.cancel()
        opens.last?()
        #expect(values == [1, 2, 3, 4])
    }

    @Test("row 19: demand 2 sees 1 2 of 1…3; 2 more see 4 5 of 4…6; then finished")
    func increasesDemand() {
        let subject = PassthroughSubject<Int, Never>()
        nonisolated(unsafe) var events: [Subscribers.Event<Int, Never>] = []
        let sink = DemandSink<Int, Never>(
            demand: 2, receiveCompletion: { events.append(.completion($0)) },
            receiveValue: { events.append(.value($0)) })
        subject.subscribe(sink)
        subject.send(sequence: 1...3)
        sink.increaseDemand(2)
        subject.send(sequence: 4...6, completion: .finished)
        #expect(events == [1, 2, 4, 5].asEvents(completion: .finished))
    }

    @Test("row 19: demand increased before the subscription adds up; a second subscription is cancelled")
    func demandBeforeSubscription() {
        nonisolated(unsafe) var values: [Int] = []
        let sink = DemandSink<Int, Never>(
            demand: .max(1), receiveCompletion: { _ in }, receiveValue: { values.append($0) })
        sink.increaseDemand(.max(2))
        (1...9).publisher.subscribe(sink)
        nonisolated(unsafe) var cancelled = 0
        (11...19).publisher.handleEvents(receiveCancel: { cancelled += 1 }).subscribe(sink)
        #expect(values == [1, 2, 3] && cancelled == 1)
        sink.cancel()
        sink.increaseDemand(1)
        #expect(values == [1, 2, 3])
    }
}

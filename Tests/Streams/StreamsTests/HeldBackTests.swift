// Row 20: a slow subscriber downstream of a scheduler holds upstream back; the values that wait for it are bounded.

import Streams
import StreamsTestSupport
import Testing

private enum Late: Error { case late }

@Suite("row 20: what waits for a scheduler is bounded")
struct HeldBackTests {
    private static let room = 1024

    /// The demand sent upstream, and the number of values sent in return.
    private final class Account: @unchecked Sendable {
        var asked = Subscribers.Demand.none
        var sent = 0
    }

    private func counted(_ account: Account) -> some Publisher<Int, Never> {
        (0...).publisher.handleEvents(
            receiveOutput: { _ in account.sent += 1 }, receiveRequest: { account.asked += $0 })
    }

    @Test("receive(on:) and timeout request no more than they have room for", arguments: [false, true])
    func unlimitedDemand(timeout: Bool) {
        let scheduler = VirtualTimeScheduler()
        let account = Account()
        let upstream = counted(account)
        let delivered =
            timeout
            ? upstream.timeout(1_000_000, scheduler: scheduler).eraseToAnyPublisher()
            : upstream.receive(on: scheduler).eraseToAnyPublisher()
        nonisolated(unsafe) var received = 0
        let cancellable = delivered.prefix(10_000).sink { _ in
            received += 1
            #expect(account.sent <= received + Self.room + 1)
            #expect(account.asked <= .max(received + Self.room + 1))
        }
        #expect(account.sent <= Self.room)
        scheduler.run()
        #expect(received == 10_000)
        cancellable.cancel()
    }

    /// Two values arrive each second.
    @Test("delay holds all values that arrive in its interval")
    func delayed() {
        let scheduler = VirtualTimeScheduler()
        let subject = PassthroughSubject<Int, Never>()
        nonisolated(unsafe) var asked = Subscribers.Demand.none
        let recorder = subject.handleEvents(receiveRequest: { asked += $0 })
            .delay(for: 10, scheduler: scheduler).record(demand: .unlimited)
        for number in 0..<5000 {
            subject.send(number)
            if number % 2 == 0 { scheduler.advance(by: 1) }
        }
        scheduler.run()
        #expect(recorder.values == Array(0..<5000), "values within the time limit are not lost")
        #expect(asked > .max(5000) && asked <= .max(5000 + Self.room))
    }

    @Test("delay requests no more while much is overdue")
    func overdue() {
        let scheduler = VirtualTimeScheduler()
        let subject = PassthroughSubject<Int, Never>()
        nonisolated(unsafe) var asked = Subscribers.Demand.none
        let recorder = subject.handleEvents(receiveRequest: { asked += $0 })
            .delay(for: 1, scheduler: scheduler).record(demand: .unlimited)
        // The subscriber is busy with the first value while the others arrive and become overdue.
        recorder.onValue = { _, value in
            guard value == 0 else { return .none }
            for number in 1..<5000 {
                subject.send(number)
                scheduler.advance(by: 1)
            }
            return .none
        }
        subject.send(0)
        scheduler.advance(by: 1)
        #expect(recorder.values.count <= Self.room + 2 && asked <= .max(2 * Self.room + 2))
    }

    @Test("demand is passed on at once as long as there is room")
    func limitedDemand() {
        let scheduler = VirtualTimeScheduler()
        let account = Account()
        let recorder = counted(account).receive(on: scheduler).record(demand: .max(3))
        #expect(account.asked == .max(3))
        recorder.request(.max(4))
        #expect(account.asked == .max(7))
        scheduler.run()
        #expect(recorder.values == Array(0..<7) && account.asked == .max(7))
        recorder.cancel()
    }

    @Test("demand without room is passed on later")
    func muchDemand() {
        let scheduler = VirtualTimeScheduler()
        let account = Account()
        let recorder = counted(account).receive(on: scheduler).record(demand: .max(5000))
        scheduler.run()
        #expect(recorder.values == Array(0..<5000) && account.asked == .max(5000))
        recorder.cancel()
    }

    @Test("a timeout does not count the time in which a slow subscriber holds upstream back")
    func patientTimeout() {
        let scheduler = VirtualTimeScheduler()
        let subject = PassthroughSubject<Int, Late>()
        let recorder = subject.timeout(10, scheduler: scheduler, customError: { .late }).record(demand: .unlimited)
        nonisolated(unsafe) var isSlow = true
        recorder.onValue = { _, _ in
            // The subscriber takes 100 units of time for the first value.
            if isSlow { scheduler.advance(by: 100) }
            isSlow = false
            return .none
        }
        for number in 0..<Self.room { subject.send(number) }
        scheduler.advance()
        #expect(recorder.completion == nil)
        scheduler.advance(by: 9)
        #expect(recorder.completion == nil)
        scheduler.advance(by: 1)
        #expect(recorder.completion == .failure(.late) && recorder.values.count == Self.room)
    }
}

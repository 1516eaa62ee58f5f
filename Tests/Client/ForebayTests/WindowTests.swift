// What an iteration holds: messages that arrived together are handed over together.

import Streams
import Testing

@testable import Forebay

@Suite struct WindowTests {
    private func message(_ sequence: UInt64) -> Message {
        Message(payload: [], sequence: sequence, epoch: 1, timestamp: 0)
    }

    @Test func whoWaitsIsWokenAtTheEndOfTheTurn() async {
        let subscriber = WindowSubscriber(4)
        subscriber.receive(subscription: Subscriptions.empty)
        let first = Task { await subscriber.next(isolation: nil) }
        while !subscriber.isAwaited { await Task.yield() }
        for sequence in 1...3 { #expect(subscriber.receive(message(UInt64(sequence))) == .none) }
        #expect(subscriber.isAwaited, "the turn continues")
        #expect(subscriber.turnEnded() == .none, "half of the window was not taken")
        for sequence in 1...3 as ClosedRange<UInt64> {
            let next = sequence == 1 ? await first.value : await subscriber.next(isolation: nil)
            guard case .message(let message) = next else {
                Issue.record("\(sequence) is missing")
                return
            }
            #expect(message.sequence == sequence)
        }
    }

    @Test func anEndInTheSameTurnComesAfterTheMessages() async {
        let subscriber = WindowSubscriber(4)
        subscriber.receive(subscription: Subscriptions.empty)
        let first = Task { await subscriber.next(isolation: nil) }
        while !subscriber.isAwaited { await Task.yield() }
        _ = subscriber.receive(message(1))
        subscriber.receive(completion: .finished)
        guard case .message(let message) = await first.value else {
            Issue.record("the message is missing")
            return
        }
        #expect(message.sequence == 1)
        guard case .ended(nil) = await subscriber.next(isolation: nil) else {
            Issue.record("the end is missing")
            return
        }
    }
}

// The outbox: the order in which messages are sent, again, and refused.

import Core
import Replay
import Testing

@testable import Upstream

@Suite struct OutboxTests {
    private func message(_ number: UInt64, chain: UInt64? = nil) -> SharedPublish {
        SharedPublish(
            use: TopicUse(topic: "t", number: 1), ticket: PublishTicket(number), chain: chain.map { PublishTicket($0) },
            metadata: nil,
            payload: UnsafeRawBufferPointer(start: nil, count: 0))
    }

    /// Sends everything that is ready, and returns the tickets.
    private func send(_ outbox: inout Outbox, now: UInt64) -> [UInt64] {
        var sent: [UInt64] = []
        while let next = outbox.nextReady() {
            outbox.sent(next.publish.ticket, now: now)
            sent.append(next.publish.ticket.value)
        }
        return sent
    }

    @Test func singleMessagesAreSentAtOnceAndInOrder() {
        var outbox = Outbox()
        for number in [3, 1, 2] as [UInt64] { outbox.add(message(number), now: 0) }
        #expect(send(&outbox, now: 1) == [3, 1, 2])
        #expect(send(&outbox, now: 2) == [])
        outbox.remove(PublishTicket(1), now: 5)
        #expect(outbox.count == 2)
    }

    @Test func messagesOfAChainAreSentOneByOne() {
        var outbox = Outbox()
        for number in 1...3 as ClosedRange<UInt64> { outbox.add(message(number, chain: 1), now: 0) }
        outbox.add(message(4, chain: 4), now: 0)
        #expect(send(&outbox, now: 1) == [1, 4])
        outbox.acknowledged(PublishTicket(1), at: SequenceNumber(1))
        #expect(send(&outbox, now: 2) == [], "it has not been read from the stream")
        outbox.remove(PublishTicket(1), now: 5)
        #expect(send(&outbox, now: 3) == [2])
        outbox.remove(PublishTicket(2), now: 5)
        outbox.remove(PublishTicket(3), now: 5)
        // The chain is over; a later message begins it again.
        outbox.add(message(5, chain: 1), now: 0)
        #expect(send(&outbox, now: 4) == [5])
    }

    @Test func aRefusalTakesTheRestOfTheChain() {
        var outbox = Outbox()
        for number in 1...3 as ClosedRange<UInt64> { outbox.add(message(number, chain: 1), now: 0) }
        outbox.add(message(4), now: 0)
        #expect(outbox.refuse(PublishTicket(4), now: 5) == [PublishTicket(4)])
        #expect(outbox.refuse(PublishTicket(1), now: 5) == [1, 2, 3].map { PublishTicket($0) })
        #expect(outbox.isEmpty && send(&outbox, now: 1) == [])
        #expect(outbox.refuse(PublishTicket(9), now: 5) == [])
    }

    @Test func unacknowledgedMessagesAreSentAgainFirst() {
        var outbox = Outbox()
        for number in 1...3 as ClosedRange<UInt64> { outbox.add(message(number), now: 0) }
        #expect(send(&outbox, now: 10) == [1, 2, 3])
        outbox.acknowledged(PublishTicket(2), at: SequenceNumber(7))
        outbox.add(message(4), now: 11)
        outbox.resend(sentBefore: 10)
        #expect(send(&outbox, now: 12) == [4], "nothing was sent before")
        outbox.resend(sentBefore: 12)
        // Not twice while it is in the queue.
        outbox.resend(sentBefore: 12)
        #expect(send(&outbox, now: 20) == [1, 3])
        #expect(outbox.overdue(since: 1)?.publish.ticket == PublishTicket(1))
        #expect(outbox.overdue(since: 0) == nil)
    }

    /// A message that waits behind others is not late, however many there are.
    @Test func timeBeginsWithTheTurn() {
        var outbox = Outbox()
        for number in 1...3 as ClosedRange<UInt64> { outbox.add(message(number, chain: 1), now: 0) }
        #expect(send(&outbox, now: 1) == [1])
        outbox.remove(PublishTicket(1), now: 100)
        #expect(outbox.overdue(since: 50) == nil)
        #expect(outbox.overdue(since: 101)?.publish.ticket == PublishTicket(2))
        #expect(outbox.refuseChain(PublishTicket(2)) == [2, 3].map { PublishTicket($0) } && outbox.isEmpty)
    }
}

// The client's decisions, without a network: demand and position of a subscription, messages of a channel, waits.

import Client
import ForebayWire
import Streams
import Testing

@testable import Forebay

/// Random numbers that are all the same.
private struct Constant: RandomNumberGenerator {
    var value: UInt64

    mutating func next() -> UInt64 { value }
}

@Suite struct BackoffTests {
    private func waits(_ policy: ReconnectPolicy, _ count: Int, _ random: UInt64) -> [UInt64?] {
        var backoff = Backoff(policy)
        var generator = Constant(value: random)
        return (0..<count).map { _ in backoff.next(using: &generator).map { $0 / 1_000_000 } }
    }

    @Test func waitsDoubleBetweenHalfAndAllOfTheirCeiling() {
        let policy = ReconnectPolicy(first: .milliseconds(100), longest: .milliseconds(1000), attempts: 6)
        #expect(waits(policy, 7, 0) == [50, 100, 200, 400, 500, 500, nil])
        #expect(waits(policy, 7, .max) == [100, 200, 400, 800, 1000, 1000, nil])
    }

    @Test func successBeginsAnew() {
        var backoff = Backoff(ReconnectPolicy(first: .milliseconds(100), longest: .seconds(10), attempts: 2))
        var random = Constant(value: .max)
        for _ in 0..<2 { #expect(backoff.next(using: &random) != nil) }
        #expect(backoff.next(using: &random) == nil)
        backoff.reset()
        #expect(backoff.next(using: &random) == 100_000_000)
    }

    @Test func extremesStayInBounds() {
        let forever = Duration.seconds(Int64.max)
        let policy = ReconnectPolicy(first: .zero, longest: forever)
        #expect(waits(policy, 200, 0).allSatisfy { $0 != nil })
        #expect(waits(ReconnectPolicy(first: forever, longest: .zero), 3, .max).allSatisfy { $0 != nil })
        #expect(waits(ReconnectPolicy(first: .seconds(-1), longest: .seconds(-1)), 2, .max) == [1, 1])
    }
}

extension SubscriptionState {
    fileprivate mutating func receive(epoch: UInt64, sequence: UInt64, dropped: UInt64) -> Verdict {
        receive(MessageInfo(epoch: epoch, sequence: sequence, timestamp: 0, dropped: dropped))
    }
}

@Suite struct SubscriptionStateTests {
    private func state(_ start: SubscribeOptions.Start, demand: Subscribers.Demand = .none) -> SubscriptionState {
        var options = SubscribeOptions()
        options.start = start
        var state = SubscriptionState(options)
        state.request(demand)
        return state
    }

    @Test func itSubscribesWithTheFirstDemand() {
        var state = state(.all)
        #expect(state.opening() == nil && state.credit() == 0)
        state.request(.max(3))
        let opening = state.opening()
        #expect(opening?.n == 3 && opening?.options.start == .all)
        #expect(state.credit() == 0)
        state.request(.max(2))
        state.request(.max(1))
        #expect(state.credit() == 3, "requests of one turn are combined")
    }

    @Test(arguments: [
        (Subscribers.Demand.unlimited, CreditWindow.unbounded),
        (.max(Int(CreditWindow.unbounded) + 1), SubscriptionState.largestCredit),
        (.max(Int.max), SubscriptionState.largestCredit),
        (.max(1), 1),
    ])
    func noDemandIsTakenForAnother(_ demand: Subscribers.Demand, _ n: UInt32) {
        var state = state(.next, demand: demand)
        #expect(state.opening()?.n == n)
        #expect(state.credit() == 0)
        _ = state.receive(epoch: 1, sequence: 1, dropped: 0)
        #expect(state.credit() == 0, "a large remainder is not requested one by one")
        state.request(.unlimited)
        #expect(state.credit() == (demand == .unlimited ? 0 : CreditWindow.unbounded))
    }

    @Test func afterALossItGoesOnWhereItStood() {
        var state = state(.last(5), demand: .max(10))
        #expect(state.opening()?.n == 10)
        for sequence in 7...9 {
            #expect(state.receive(epoch: 42, sequence: UInt64(sequence), dropped: 0) == .deliver(nil))
        }
        state.lost()
        #expect(state.credit() == 0)
        let opening = state.opening()
        #expect(opening?.n == 7, "only what has not arrived is requested again")
        #expect(opening?.options.start == .from(10, epoch: 42))
        #expect(state.receive(epoch: 42, sequence: 9, dropped: 0) == .skip)
        #expect(state.credit() == 1, "the count of undelivered messages is wrong")
        #expect(state.receive(epoch: 42, sequence: 10, dropped: 0) == .deliver(nil))
        #expect(state.receive(epoch: 42, sequence: 13, dropped: 2) == .deliver(Gap(.dropped, lost: 2)))
        #expect(state.receive(epoch: 42, sequence: 15, dropped: 0) == .deliver(Gap(.dropped, lost: 1)))
        let next = state.receive(epoch: 43, sequence: 1, dropped: 3)
        #expect(next == .deliver(Gap(.newEpoch(previous: 42), lost: nil)))
        #expect(state.receive(epoch: 43, sequence: 2, dropped: 0) == .deliver(nil))
    }

    @Test(arguments: [
        (SubscribeOptions.Start.next, true), (.last(3), true), (.all, false), (.from(1, epoch: nil), false),
        (.from(1, epoch: 9), false), (.since(.at(5)), false), (.since(.ago(5)), true),
    ])
    func aLossBeforeTheFirstMessageIsTold(_ start: SubscribeOptions.Start, _ isReported: Bool) {
        let gap = isReported ? Gap(.reconnected, lost: nil) : nil
        var state = state(start, demand: .unlimited)
        _ = state.opening()
        state.lost()
        #expect(state.opening()?.options.start == start)
        #expect(state.receive(epoch: 9, sequence: 1, dropped: 0) == .deliver(gap))
        #expect(state.receive(epoch: 9, sequence: 2, dropped: 0) == .deliver(nil))
    }

    @Test func aRefusedPatternIsRequestedAgain() {
        let refusal = ClientError(.invalid, ErrorWord.invalid.text("There are too many."))
        var state = SubscriptionState(SubscribeOptions(), ofPattern: true)
        state.request(.max(3))
        #expect(state.opening()?.n == 3)
        let isFinal = !state.refused(refusal)
        #expect(isFinal)
        state = SubscriptionState(SubscribeOptions(), ofPattern: true)
        state.request(.max(3))
        _ = state.opening()
        _ = state.receive(MessageInfo(epoch: 1, sequence: 4, timestamp: 9, dropped: 0, topic: "t"))
        state.lost()
        let opening = state.opening()
        #expect(opening?.options.positions == [ResumePosition(topic: "t", epoch: 1, sequence: 5)])
        #expect(opening?.n == 2)
        let isRepeated = state.refused(refusal)
        #expect(isRepeated && state.credit() == 0)
        let next = state.opening()
        #expect(next?.options.positions == [] && next?.options.start == .since(.at(9)) && next?.n == 2)
    }

    @Test func theLastSequenceOfAllIsNoEnd() {
        var state = state(.all, demand: .unlimited)
        _ = state.opening()
        #expect(state.receive(epoch: 1, sequence: .max, dropped: 0) == .deliver(nil))
        #expect(state.receive(epoch: 1, sequence: 1, dropped: 0) == .skip)
    }
}

@Suite struct ChannelStateTests {
    private func item(_ number: UInt8) -> Outgoing { Outgoing(payload: [number]) }

    /// Requests a message and receives it.
    private func fill(_ state: inout ChannelState, _ numbers: ClosedRange<UInt8>) {
        for number in numbers {
            let isTaken = state.receive(item(number))
            #expect(isTaken)
        }
    }

    @Test func thePublisherIsAskedForWhatIsGranted() {
        var state = ChannelState(repeats: false)
        #expect(state.ask(credit: nil) == 1, "one to open the channel")
        #expect(state.ask(credit: nil) == 0)
        fill(&state, 1...1)
        let isTaken = state.receive(item(9))
        #expect(!isTaken, "it was not requested")
        state.didSend()
        #expect(state.ask(credit: 0) == 0)
        #expect(state.ask(credit: 5) == 5)
        #expect(state.ask(credit: 8) == 3, "grants add up")
        fill(&state, 2...4)
        #expect(state.ask(credit: 8) == 0, "waiting messages are sent for that credit")
        state.finish()
        #expect(state.ask(credit: 100) == 0 && !state.isSent)
        for _ in 2...4 { state.didSend() }
        #expect(state.isSent && !state.isAcknowledged)
        state.acknowledge(9)
        #expect(state.acknowledged == 0, "an excess over the messages sent is ignored")
        state.acknowledge(3)
        state.acknowledge(2)
        #expect(state.acknowledged == 3)
        state.acknowledgeAll()
        #expect(state.acknowledged == 4 && state.isAcknowledged)
    }

    @Test(arguments: [false, true]) func whatIsNotAcknowledgedIsRepeatedOrUnknown(_ repeats: Bool) {
        var state = ChannelState(repeats: repeats)
        _ = state.ask(credit: 6)
        fill(&state, 1...4)
        for _ in 1...3 { state.didSend() }
        state.acknowledge(1)
        #expect(state.lost() == (repeats ? .resumes : .unknown))
        #expect(state.acknowledged == 1)
        guard repeats else { return }
        fill(&state, 5...6)
        // More messages were requested, and have arrived, than the new connection grants: no more are requested until
        // these messages are sent.
        #expect(state.ask(credit: 3) == 0)
        var sent: [UInt8] = []
        while let next = state.next {
            sent += next.payload
            state.didSend()
        }
        #expect(sent == [2, 3, 4, 5, 6])
        state.acknowledgeAll()
        #expect(state.acknowledged == 6)
        #expect(state.lost() == .resumes && !state.hasWaiting)
    }

    @Test func manyMessagesPassInOrder() {
        var queue = Fifo()
        var (next, taken) = (0, 0)
        for step in 0..<5000 {
            for _ in 0..<(step % 7) {
                queue.append(Outgoing(payload: bytes(next)))
                next += 1
            }
            for _ in 0..<(step % 5) {
                guard let item = queue.popFirst() else { continue }
                #expect(item.payload == bytes(taken))
                taken += 1
            }
            #expect(queue.count == next - taken)
        }
    }
}

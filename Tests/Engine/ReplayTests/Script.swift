// Cases as data: a script of what happens to one subscription, and its expected result. Deliveries are written as "1 2
// 5(2)": sequences in order, with dropped-before in parentheses if it is not 0; the end as "|" and its name.

import ForebayWire
import Replay
import Testing

enum Step: Sendable {
    case request(UInt32)
    /// A number of messages are appended in one batch, delivered while credit and `room` allow, then settled.
    case append(Int, room: Int = .max)
    /// The connection has room for this many more messages.
    case room(Int)
    case evict(UInt64)
    case complete, failTopic
    case fail(OverflowCause)
    case takeEnd
}

struct Script: Sendable, CustomTestStringConvertible {
    var name: String
    var policy: Overflow
    var buffer: Int
    var start = Start.next
    /// The retained messages at the start; with the default, the first message appended is 1.
    var retained: Range<UInt64> = 1..<1
    var credit: UInt32 = 0
    var steps: [Step]

    /// Everything that the steps deliver, then the end that is taken.
    var gives: String
    var dropped: UInt64 = 0
    var waiting = 0
    /// What unlimited credit and room deliver after that, with drops after the last message as "+n", then the end if
    /// due.
    var then = ""

    var testDescription: String { "\(policy.name): \(name)" }

    func run() {
        var subscription = Subscription(
            start: start, window: window(retained), buffer: buffer, overflow: policy,
            credit: Replay.Credit(mode: .outstanding))
        _ = subscription.request(credit)
        var end = retained.upperBound
        var seen: [String] = []
        for step in steps { perform(step, on: &subscription, &end, &seen) }
        #expect(seen.joined(separator: " ") == gives)
        #expect(subscription.dropped == dropped)
        #expect(subscription.waiting == waiting)

        var rest: [String] = []
        _ = subscription.request(Credit.unbounded)
        perform(.room(.max), on: &subscription, &end, &rest)
        if subscription.droppedSinceDelivery > 0 { rest.append("+\(subscription.droppedSinceDelivery)") }
        perform(.takeEnd, on: &subscription, &end, &rest)
        #expect(rest.joined(separator: " ") == then)
    }

    private func perform(_ step: Step, on subscription: inout Subscription, _ end: inout UInt64, _ seen: inout [String])
    {
        switch step {
        case .request(let n):
            let accepted = subscription.request(n)
            #expect(accepted == (n > 0))
        case .append(let count, var room):
            end += UInt64(count)
            subscription.appended(upTo: sequence(end))
            seen += subscription.flush(room: &room).map(Self.text)
            subscription.applyPolicy()
        case .room(var room):
            seen += subscription.flush(room: &room).map(Self.text)
        case .evict(let head):
            subscription.evict(before: sequence(head))
        case .complete:
            subscription.topicEnded(.completed, at: sequence(end))
        case .failTopic:
            subscription.topicEnded(.failed, at: sequence(end))
        case .fail(let cause):
            subscription.fail(cause)
        case .takeEnd:
            guard let end = subscription.takeEnd() else { return }
            seen.append("| \(end)")
            let again = subscription.takeEnd()
            #expect(again == nil)
            #expect(subscription.isOver == true)
        }
    }

    private static func text(_ delivery: Delivery) -> String {
        delivery.droppedBefore == 0 ? "\(delivery.sequence)" : "\(delivery.sequence)(\(delivery.droppedBefore))"
    }
}

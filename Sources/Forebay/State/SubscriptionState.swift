// SubscriptionState: what a subscription knows of its place in the topic and of its demand, over any number of
// connections. No I/O: it says what to ask the broker for, and is told what came.
//
//     request ──► wanted ──► opening() or credit() ──► on the wire ──► receive() ──► delivered
//                   ▲                                      │
//                   └────────────── lost() ────────────────┘

import Client
import StreamsCore

struct SubscriptionState {
    /// What is to be done with a message that came.
    enum Verdict: Equatable {
        case deliver(Gap?)
        /// It was delivered before.
        case skip
    }

    /// Credit that is counted; more outstanding than this stands for unbounded with the broker.
    static let largestCredit = Refill.unbounded - 1

    private let options: SubscribeOptions
    /// The message that comes next.
    private var position: (epoch: UInt64, next: UInt64)?
    /// Asked for by the subscriber, and not delivered.
    private(set) var wanted = Subscribers.Demand.none
    /// Asked for of the broker on the present connection, and not come.
    private(set) var onWire: UInt32 = 0
    private var isOpen = false
    /// A connection was lost while no message had come that told the place.
    private var isUncertain = false

    init(_ options: SubscribeOptions) {
        self.options = options
        if case .from(let sequence, let epoch?) = options.start { position = (epoch, sequence) }
    }

    /// The subscriber asks for more.
    mutating func request(_ demand: Subscribers.Demand) { wanted += demand }

    /// How to subscribe, and with which n; nil as long as nothing is wanted.
    mutating func opening() -> (options: SubscribeOptions, n: UInt32)? {
        precondition(!isOpen)
        guard wanted > .none else { return nil }
        isOpen = true
        var options = options
        if let position { options.start = .from(position.next, epoch: position.epoch) }
        return (options, credit())
    }

    /// The n of a REQUEST_N that is due; 0 for none.
    mutating func credit() -> UInt32 {
        guard isOpen, onWire != Refill.unbounded else { return 0 }
        guard let figure = wanted.max else {
            onWire = Refill.unbounded
            return Refill.unbounded
        }
        let largest = Self.largestCredit
        guard figure > Int(onWire) else { return 0 }
        // Of more than the broker counts, the rest is asked for by halves rather than one by one.
        if figure > Int(largest), onWire > largest / 2 { return 0 }
        let n = UInt32(clamping: min(figure, Int(largest)) - Int(onWire))
        onWire += n
        return n
    }

    /// A message came.
    mutating func receive(epoch: UInt64, sequence: UInt64, dropped: UInt64) -> Verdict {
        if onWire != Refill.unbounded, onWire > 0 { onWire -= 1 }
        if let position, position.epoch == epoch, sequence < position.next { return .skip }
        wanted -= 1
        let gap = gap(epoch, sequence, dropped)
        isUncertain = false
        position = (epoch, sequence == .max ? .max : sequence + 1)
        return .deliver(gap)
    }

    private func gap(_ epoch: UInt64, _ sequence: UInt64, _ dropped: UInt64) -> Gap? {
        guard let position else {
            if dropped > 0 { return Gap(.dropped, lost: isUncertain ? nil : dropped) }
            return isUncertain ? Gap(.reconnected, lost: nil) : nil
        }
        guard position.epoch == epoch else { return Gap(.newEpoch(previous: position.epoch), lost: nil) }
        let missing = max(dropped, sequence - position.next)
        return missing > 0 ? Gap(.dropped, lost: missing) : nil
    }

    /// The connection was lost, and with it what was asked for on it.
    mutating func lost() {
        guard isOpen else { return }
        isOpen = false
        onWire = 0
        // Whoever wants everything that is retained, or begins at a given place, gets the same again.
        switch options.start {
        case .next, .last: isUncertain = position == nil
        case .all, .from: break
        }
    }
}

// SubscriptionState: what a subscription knows of its place in the topic and of its demand, over any number of
// connections. No I/O: it says what to ask the broker for, and is told what came.
//
//     request ──► wanted ──► opening() or credit() ──► on the wire ──► receive() ──► delivered
//                   ▲                                      │
//                   └────────────── lost() ────────────────┘

import Client
import ForebayWire
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
    private var position: TopicPosition
    /// Asked for by the subscriber, and not delivered.
    private(set) var wanted = Subscribers.Demand.none
    /// Asked for of the broker on the present connection, and not come.
    private(set) var onWire: UInt32 = 0
    private var isOpen = false

    init(_ options: SubscribeOptions) {
        self.options = options
        position = TopicPosition(options.start)
    }

    /// The subscriber asks for more.
    mutating func request(_ demand: Subscribers.Demand) { wanted += demand }

    /// How to subscribe, and with which n; nil as long as nothing is wanted.
    mutating func opening() -> (options: SubscribeOptions, n: UInt32)? {
        precondition(!isOpen)
        guard wanted > .none else { return nil }
        isOpen = true
        var options = options
        options.start = position.start
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
        let arrival = position.receive(epoch: epoch, sequence: sequence, dropped: dropped)
        if arrival == .again { return .skip }
        wanted -= 1
        return .deliver(Gap(arrival))
    }

    /// The connection was lost, and with it what was asked for on it.
    mutating func lost() {
        guard isOpen else { return }
        isOpen = false
        onWire = 0
        position.lost()
    }
}

extension Gap {
    /// Nil where nothing is missing.
    fileprivate init?(_ arrival: TopicPosition.Arrival) {
        switch arrival {
        case .next, .again: return nil
        case .behind(let lost): self.init(.dropped, lost: lost)
        case .uncertain: self.init(.reconnected, lost: nil)
        case .anew(let previous): self.init(.newEpoch(previous: previous), lost: nil)
        }
    }
}

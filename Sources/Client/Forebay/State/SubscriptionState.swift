// SubscriptionState: a subscription's position in its topic, or in the topics of its pattern, and its demand, over any
// number of connections. No I/O: computes what to request from the broker, given what has arrived.
//
//     request ──► wanted ──► opening() or credit() ──► on the wire ──► receive() ──► delivered
//                   ▲                                      │
//                   └────────────── lost() ────────────────┘

import Client
import ForebayWire
import StreamsCore

struct SubscriptionState {
    /// What to do with a message that has arrived.
    enum Verdict: Equatable {
        case deliver(Gap?)
        /// The message was already delivered.
        case skip
    }

    /// The largest credit that is counted. The opening uses one more, and the broker treats anything above that as
    /// unbounded.
    static let largestCredit = CreditWindow.unbounded - 2

    private let options: SubscribeOptions
    private var position: SubscriptionPosition
    /// Requested by the subscriber and not yet delivered.
    private(set) var wanted = Subscribers.Demand.none
    /// Requested from the broker on the current connection and not yet received.
    private(set) var onWire: UInt32 = 0
    private var isOpen = false

    init(_ options: SubscribeOptions, ofPattern: Bool = false) {
        self.options = options
        position = SubscriptionPosition(options.start, ofPattern: ofPattern)
    }

    /// Adds what the subscriber requests.
    mutating func request(_ demand: Subscribers.Demand) { wanted += demand }

    /// The options and the initial n of a request to subscribe; nil while there is no demand.
    mutating func opening() -> (options: SubscribeOptions, n: UInt32)? {
        precondition(!isOpen)
        guard wanted > .none else { return nil }
        isOpen = true
        var options = options
        (options.start, options.positions) = (position.start, position.positions)
        return (options, credit())
    }

    /// The n of a REQUEST_N that is due; 0 for none.
    mutating func credit() -> UInt32 {
        guard isOpen, onWire != CreditWindow.unbounded else { return 0 }
        guard let figure = wanted.max else {
            onWire = CreditWindow.unbounded
            return CreditWindow.unbounded
        }
        let largest = Self.largestCredit
        guard figure > Int(onWire) else { return 0 }
        // If demand exceeds what the broker counts, the rest is requested in halves rather than one by one.
        if figure > Int(largest), onWire > largest / 2 { return 0 }
        let n = UInt32(clamping: min(figure, Int(largest)) - Int(onWire))
        onWire += n
        return n
    }

    /// Notes that the subscription has begun.
    mutating func opened(_ opening: OpeningPosition) { position.opened(opening) }

    /// Decides what to do with a message that has arrived.
    mutating func receive(_ info: MessageInfo) -> Verdict {
        if onWire != CreditWindow.unbounded, onWire > 0 { onWire -= 1 }
        let arrival = position.receive(info)
        if arrival == .again { return .skip }
        wanted -= 1
        return .deliver(Gap(arrival))
    }

    /// Notes that the connection was lost, and with it the credit requested there.
    mutating func lost() {
        guard isOpen else { return }
        close()
        position.lost()
    }

    /// Notes that the broker refused the subscription. Returns whether to request it again on the same connection.
    mutating func refused(_ error: ClientError) -> Bool {
        guard position.refused(error) else { return false }
        close()
        return true
    }

    private mutating func close() {
        isOpen = false
        onWire = 0
    }
}

extension Gap {
    /// The gap that an arrival reports; nil if nothing is missing.
    fileprivate init?(_ arrival: TopicPosition.Arrival) {
        switch arrival {
        case .next, .again: return nil
        case .behind(let lost): self.init(.dropped, lost: lost)
        case .uncertain: self.init(.reconnected, lost: nil)
        case .restarted(let previous): self.init(.newEpoch(previous: previous), lost: nil)
        }
    }
}

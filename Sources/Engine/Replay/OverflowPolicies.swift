// The overflow policies: what becomes of arrivals that could not be handed over. Each takes a whole batch, in constant
// time, and leaves what taking its messages one by one, in order, would have left.

import ForebayWire

extension WaitingRanges {
    /// Lets `arrivals` wait as far as the policy and the limit allow. They begin above everything that waits.
    /// - Returns: how many messages were lost by it, of the arrivals and of what waited before; under `fail`, how many
    ///   of the arrivals found no place.
    mutating func admit(_ arrivals: SequenceRange, under policy: Overflow) -> UInt64 {
        switch policy {
        case .block:
            append(arrivals)
            return 0
        case .dropOldest, .latest:
            return admitDroppingOldest(arrivals)
        case .dropNewest, .fail:
            guard canAppend(at: arrivals.lower) else { return arrivals.length }
            let taken = arrivals.prefix(room)
            append(taken)
            return arrivals.length - taken.length
        case .replaceNewest:
            return admitReplacingNewest(arrivals)
        }
    }

    /// There is one range only, and the arrivals go on where it ends: the newest `limit` of both stay.
    private mutating func admitDroppingOldest(_ arrivals: SequenceRange) -> UInt64 {
        let surplus = arrivals.length > room ? arrivals.length - room : 0
        append(arrivals)
        removeFirst(surplus)
        return surplus
    }

    /// Arrivals first fill the room. From then on each takes the place of the last one waiting and so begins a range
    /// of its own, which the next arrival replaces: in the end only the newest is left of them.
    ///
    /// Where that would be one range too many, an arrival takes the place of the whole last range of n > 1 messages.
    /// Then n − 1 more find room, and the next does the same again: the arrivals go by in cycles of n, of which the
    /// last, whole or not, is left.
    private mutating func admitReplacingNewest(_ arrivals: SequenceRange) -> UInt64 {
        var lost: UInt64 = 0
        var rest = arrivals
        while true {
            let taken = rest.prefix(room)
            append(taken)
            rest.lower = taken.upper
            guard !rest.isEmpty else { return lost }

            let cycle = last.length
            if ranges < Subscription.maxRanges || cycle == 1 {
                removeLast()
                append(SequenceRange(lower: rest.upper.advanced(by: -1), upper: rest.upper))
                return lost + rest.length
            }
            lost += cycle
            if relaxes(at: count - cycle + 1) {
                // The limit sinks on the way (once in a subscription's life): go on with the new one.
                replaceLast(with: rest.prefix(1))
                rest.lower = rest.lower.advanced(by: 1)
                continue
            }
            let replaced = (rest.length - 1) / cycle * cycle
            rest.lower = rest.lower.adding(replaced)
            replaceLast(with: rest)
            return lost + replaced
        }
    }
}

extension Overflow {
    /// What waits may lie in several ranges.
    var leavesGaps: Bool {
        switch self {
        case .dropNewest, .replaceNewest: true
        case .dropOldest, .latest, .fail, .block: false
        }
    }
}

// OverflowPolicies: what happens to arrivals that cannot be handed over. Each policy handles a whole batch in constant
// time, with the same result as handling its messages one by one.

import ForebayWire

extension WaitingRanges {
    /// Makes `arrivals` wait, within what the policy and the limit allow. The arrivals must be above everything that
    /// waits.
    /// - Returns: the number of messages lost, both arrivals and waiting ones; under `fail`, the number of arrivals
    ///   that did not fit.
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

    /// There is only one range, and the arrivals continue it: the newest `limit` messages of both remain.
    private mutating func admitDroppingOldest(_ arrivals: SequenceRange) -> UInt64 {
        let surplus = arrivals.length > room ? arrivals.length - room : 0
        append(arrivals)
        removeFirst(surplus)
        return surplus
    }

    /// Arrivals first fill the room. After that, each replaces the newest waiting message and so begins a separate
    /// range, which the next arrival replaces: in the end only the newest arrival is left.
    ///
    /// If that would create one range too many, an arrival replaces the whole last range of n > 1 messages. That frees
    /// room for n − 1 more, and then the next arrival does the same: arrivals pass in cycles of n, of which the last
    /// one, complete or not, remains.
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
                // The limit shrinks in between (once in a subscription's life): continue with the new one.
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
    /// Whether waiting messages can form several ranges.
    var leavesGaps: Bool {
        switch self {
        case .dropNewest, .replaceNewest: true
        case .dropOldest, .latest, .fail, .block: false
        }
    }
}

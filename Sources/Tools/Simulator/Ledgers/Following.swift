// Following: how the naive cursor keeps up with the engine. Between two inspections of a shard, messages were handed
// over, others arrived and some were lost, in an order that is not visible. Each order that is possible is tried; one
// of them must lead to the observed state.

import Core
import Replay

/// Messages handed over between two inspections, known to form one of these rows.
struct Lot: CustomStringConvertible {
    /// Empty if only the number of messages is known.
    private var rows: [[Handed]]
    private let count: Int
    private var taken = 0

    init(_ rows: [[Handed]], count: Int) {
        self.rows = rows
        self.count = count
    }

    var isEmpty: Bool { taken == count }
    var description: String { rows.map { "\($0.dropFirst(taken))" }.joined(separator: " or ") }

    /// Takes the next message that was received. Returns which messages it may have been; nil if it was none of these.
    mutating func take(_ sequence: UInt64?, _ dropped: Int?) -> [UInt64]? {
        if rows.isEmpty {
            taken += 1
            return []
        }
        let fitting = rows.filter {
            $0[taken].sequence == sequence ?? $0[taken].sequence
                && $0[taken].droppedBefore == dropped ?? $0[taken].droppedBefore
        }
        guard !fitting.isEmpty else { return nil }
        rows = fitting
        taken += 1
        return Array(Set(rows.map { $0[taken - 1].sequence })).sorted()
    }
}

extension NaiveCursor {
    /// Like `follow`, if the view may have lost messages, or the store could not read some.
    /// - Parameters:
    ///   - before: the last inspection.
    ///   - unreadable: the end of messages that the store could not read just now.
    func keepUp(
        with now: Inspection.Subscription, after before: Inspection.Subscription?, handing count: Int,
        unreadable: UInt64?, isBatch: Bool
    ) -> (NaiveCursor, Lot)? {
        // If many subscriptions took their turns first, this one notices a loss later than its view.
        let isLossy = now.viewLost > before?.viewLost ?? 1 || now.viewLost > next
        var way = follow(now, handing: count, isLossy: isLossy, isBatch: isBatch)
        if way == nil, let unreadable {
            var lossy = now
            lossy.viewLost = Swift.max(unreadable, now.viewLost)
            way = follow(lossy, handing: count, isLossy: true, isBatch: isBatch)
        }
        if way == nil, isLossy {
            // It has not had its turn yet.
            var earlier = now
            earlier.viewLost = before?.viewLost ?? 1
            way = follow(earlier, handing: count, isLossy: false, isBatch: isBatch)
        }
        return way
    }

    /// The cursor after `count` messages were handed over, and what these may have been. Nil if no possible order leads
    /// to the observed state.
    /// - Parameters:
    ///   - isLossy: the log has lost messages since the last inspection.
    ///   - isBatch: several shard messages were handled, each of which may have announced some messages.
    func follow(
        _ now: Inspection.Subscription, handing count: Int, isLossy: Bool, isBatch: Bool
    ) -> (NaiveCursor, Lot)? {
        var ways = plainWays(now, count)
        // Several batches of messages may have arrived, with losses in between.
        if ways.isEmpty || isLossy && count > 0 { ways += interleavedWays(now, count) }
        if ways.isEmpty, mayHaveFailed, !hasFailed {
            var other = self
            other.mayHaveFailed = false
            other.hasFailed = true
            return other.follow(now, handing: count, isLossy: isLossy, isBatch: isBatch)
        }
        // If some were lost and others handed over, several orders may lead to the same state; with several shard
        // messages, any number of orders.
        let isMixed = count > 0 && (isLossy || Int(now.dropped) > dropped)
        if isBatch && (isLossy || isMixed) || isLossy && ways.isEmpty {
            return adopting(now, count).map { ($0, Lot([], count: count)) }
        }
        guard let first = ways.first else { return nil }
        if isMixed { return (first.cursor, Lot([], count: count)) }
        var rows: [[Handed]] = []
        for way in ways where !rows.contains(way.handed) { rows.append(way.handed) }
        return (first.cursor, Lot(rows, count: count))
    }

    /// Messages were lost more than once, at unknown moments. The totals must add up; from here on, the cursor
    /// continues from the engine's state.
    private func adopting(_ now: Inspection.Subscription, _ count: Int) -> NaiveCursor? {
        let kept = now.waiting.reduce(0) { $0 + $1.count }
        let arrived = waiting.count + Int(now.viewEnd - next)
        let lost = Int(now.dropped) - dropped
        let isComplete = arrived == count + kept + lost || policy == "fail" && arrived > count + kept + lost
        guard isComplete, lost >= 0, now.waiting.allSatisfy({ $0.lower.value >= now.viewLost }),
            policy == "block" || kept <= now.limit, now.limit == buffer || now.limit == limit
        else { return nil }
        var next = self
        next.waiting = now.waiting.flatMap { Array($0.lower.value..<$0.upper.value) }
        next.limit = now.limit
        next.next = now.viewEnd
        next.delivered = Int(now.delivered)
        next.dropped = Int(now.dropped)
        if next.delivered > 0 { next.missed = 0 }
        // The messages lost since the last delivery are the last ones that neither wait nor were delivered.
        let unsent = Int(now.droppedSinceDelivery) - next.missed
        let all = Set(next.waiting)
        let counted = policy == "fail" ? next.waiting.last ?? now.viewEnd : now.viewEnd
        let gone = (1..<Swift.max(1, counted)).filter { !all.contains($0) }
        next.unsent = gone.suffix(Swift.max(0, unsent))
        next.mayHaveFailed = policy == "fail"
        return next
    }

    private typealias Way = (cursor: NaiveCursor, handed: [Handed])

    private func way(_ now: Inspection.Subscription, _ steps: (inout NaiveCursor) -> [Handed]?) -> [Way] {
        var next = self
        guard let handed = steps(&next), next.matches(now) else { return [] }
        return [(next, handed)]
    }

    private func plainWays(_ now: Inspection.Subscription, _ count: Int) -> [Way] {
        let end = now.viewEnd
        let lost = now.viewLost
        var ways = way(now) {
            let handed = $0.handOver(count, upTo: end)
            $0.arrive(upTo: end)
            $0.evict(before: lost, upTo: end)
            return handed
        }
        if !ways.isEmpty { return ways }
        ways += way(now) {
            $0.evict(before: lost, upTo: end)
            let handed = $0.handOver(count, upTo: end)
            $0.arrive(upTo: end)
            return handed
        }
        ways += way(now) {
            $0.arrive(upTo: end)
            $0.evict(before: lost, upTo: end)
            return $0.handOver(count, upTo: end)
        }
        ways += way(now) {
            $0.arrive(upTo: end)
            let handed = $0.handOver(count, upTo: end)
            $0.evict(before: lost, upTo: end)
            return handed
        }
        return ways
    }

    private func interleavedWays(_ now: Inspection.Subscription, _ count: Int) -> [Way] {
        var ways: [Way] = []
        for middle in next...Swift.max(next, now.viewEnd) {
            for first in 0...count {
                for isEarly in [true, false] {
                    ways += way(now) {
                        guard let before = $0.handOver(first, upTo: middle) else { return nil }
                        $0.arrive(upTo: middle)
                        if isEarly { $0.evict(before: now.viewLost, upTo: now.viewEnd) }
                        guard let behind = $0.handOver(count - first, upTo: now.viewEnd) else { return nil }
                        $0.arrive(upTo: now.viewEnd)
                        if !isEarly { $0.evict(before: now.viewLost, upTo: now.viewEnd) }
                        return before + behind
                    }
                }
            }
        }
        return ways
    }

    private func matches(_ now: Inspection.Subscription) -> Bool {
        guard waiting.count == now.waiting.reduce(0, { $0 + $1.count }), limit == now.limit,
            dropped == Int(now.dropped), unreportedCount == Int(now.droppedSinceDelivery)
        else { return false }
        var index = 0
        for range in now.waiting {
            for sequence in range.lower.value..<range.upper.value {
                if waiting[index] != sequence { return false }
                index += 1
            }
        }
        return true
    }
}

// AdvanceRound: which members of a view are still to be brought up to the log's end. A round goes over their places
// downward, in slices, and begins again at the same place when the end moves on in the middle of it: so everybody has a
// turn, however often that happens.
//
//     places   0   1   2   3   4   5   6
//              due due due  ▲  done done        `place` = 3, `due` = 3; from 0 it goes on at the last one
//
// Members that come meanwhile begin at the end and need no turn. Where one leaves, the last one takes its place: a
// member that would miss its turn by that is kept in `later`.

import Replay

struct AdvanceRound {
    /// Up to where members are brought.
    private(set) var target: SequenceNumber
    /// Up to where all of them are.
    private(set) var completed: SequenceNumber
    /// The place that had its turn last; those before it come next.
    private var place = 0
    /// Turns left.
    private var due = 0
    /// Members that moved to a place that had its turn already.
    var later: [Subscriber] = []

    init(end: SequenceNumber) {
        target = end
        completed = end
    }

    var isUnderWay: Bool { due > 0 || !later.isEmpty }

    mutating func begin(upTo end: SequenceNumber, count: Int) {
        target = end
        due = count
        pause()
    }

    /// The place, of `count`, whose turn it is when `later` is empty; nil at the end of the round.
    @inline(__always)
    mutating func next(of count: Int) -> Int? {
        guard due > 0, count > 0 else {
            due = 0
            pause()
            return nil
        }
        due -= 1
        place = from(count) - 1
        return place
    }

    /// A member came, behind the `count` that there were: it is not to take the turn of one at the end.
    mutating func added(to count: Int) {
        guard due > 0 else { return }
        place = from(count)
        if due > place { due += 1 }
    }

    /// The member at a place left, of `count` that there were, and the last one took its place. Returns whether that
    /// one would miss its turn.
    mutating func removed(_ hole: Int, of count: Int) -> Bool {
        guard due > 0 else { return false }
        let isLastDue = isDue(count - 1, of: count)
        let misses = isLastDue && hole < count - 1 && !isDue(hole, of: count)
        if isLastDue { due -= 1 }
        return misses
    }

    /// One past the place that comes next.
    private func from(_ count: Int) -> Int { place > 0 && place <= count ? place : count }

    private func isDue(_ index: Int, of count: Int) -> Bool {
        let steps = from(count) - 1 - index
        return (steps < 0 ? steps + count : steps) < due
    }

    /// Those who had their turn have been brought up to the end.
    mutating func pause() { if !isUnderWay { completed = target } }
}

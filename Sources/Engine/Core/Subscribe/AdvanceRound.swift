// AdvanceRound: tracks which members of a view still have to advance to the log's end. A round visits the members'
// indices downward, in slices. If the end moves in the meantime, a new round starts at the current index, so every
// member is visited, however often that happens.
//
//     index    0   1   2   3   4   5   6
//              due due due  ▲  done done        `place` = 3, `due` = 3; after 0 it continues at the last index
//
// Members that join during a round begin at the end and need no visit. When a member leaves, the last member moves to
// its index; if that would skip the last member's visit, it is kept in `later`.

import Replay

struct AdvanceRound {
    /// The end that members advance to.
    private(set) var target: SequenceNumber
    /// The end that all members have reached.
    private(set) var completed: SequenceNumber
    /// The index visited last; those below it come next.
    private var place = 0
    /// Visits left.
    private var due = 0
    /// Members that moved to an index already visited.
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

    /// The index to visit next, below `count`, when `later` is empty; nil at the end of the round.
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

    /// Notes that a member was added at index `count`: the new member must not take the visit of another.
    mutating func added(to count: Int) {
        guard due > 0 else { return }
        place = from(count)
        if due > place { due += 1 }
    }

    /// Notes that the member at index `hole` of `count` has left and that the last one has moved there. Returns whether
    /// the moved member would miss its visit.
    mutating func removed(_ hole: Int, of count: Int) -> Bool {
        guard due > 0 else { return false }
        let isLastDue = isDue(count - 1, of: count)
        let misses = isLastDue && hole < count - 1 && !isDue(hole, of: count)
        if isLastDue { due -= 1 }
        return misses
    }

    /// One past the index that comes next.
    private func from(_ count: Int) -> Int { place > 0 && place <= count ? place : count }

    private func isDue(_ index: Int, of count: Int) -> Bool {
        let steps = from(count) - 1 - index
        return (steps < 0 ? steps + count : steps) < due
    }

    /// Records that all members have reached the end, if no visits are left.
    mutating func pause() { if !isUnderWay { completed = target } }
}

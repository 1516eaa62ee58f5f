// TurnQueue: a FIFO queue from which any element can be withdrawn. `append` returns a ticket, which the caller keeps
// with the element and passes to `withdraw`. A withdrawn element is released at once and leaves a gap; the queue is
// compacted when gaps make up most of it. Appending and removing the first element cost O(1) amortized. Withdrawing
// costs O(1), or O(log n) after compaction, when the ticket no longer gives the index directly.
//
//     entries  [taken] [taken] [ 7: a ] [ gap ] [ 9: c ] [ 10: d ]      count = 3
//                                ^ head                                 tickets ascend

package struct TurnQueue<Element> {
    /// A position in one queue. It is never reused, so withdrawing twice has no effect.
    package struct Ticket: Equatable {
        fileprivate let number: UInt64
    }

    private struct Entry {
        let number: UInt64
        /// Nil for a gap.
        var element: Element?
    }

    /// The capacity that an empty queue keeps.
    private static var kept: Int { 32 }

    private var entries: [Entry] = []
    /// The index of the first element; never a gap.
    private var head = 0
    private var nextNumber: UInt64 = 0
    private(set) var count = 0

    package init() {}

    package var isEmpty: Bool { count == 0 }
    /// The next element.
    package var first: Element? { count > 0 ? entries[head].element : nil }
    /// Entries in memory, including gaps: at most twice `count` plus `kept`.
    var footprint: Int { entries.count }

    @discardableResult
    package mutating func append(_ element: Element) -> Ticket {
        let number = nextNumber
        nextNumber += 1
        entries.append(Entry(number: number, element: element))
        count += 1
        return Ticket(number: number)
    }

    @discardableResult
    package mutating func popFirst() -> Element? {
        guard count > 0, let element = entries[head].element else { return nil }
        entries[head].element = nil
        removed()
        return element
    }

    /// Removes the element with this ticket. Returns whether it was still in the queue.
    @discardableResult
    mutating func withdraw(_ ticket: Ticket) -> Bool {
        guard let place = place(of: ticket.number), entries[place].element != nil else { return false }
        entries[place].element = nil
        removed()
        return true
    }

    mutating func removeAll() {
        entries = []
        head = 0
        count = 0
    }

    /// In order.
    func forEach(_ body: (Element) -> Void) {
        for entry in entries[head...] { if let element = entry.element { body(element) } }
    }

    /// Without compaction the index differs from the head by the difference of the numbers; after compaction, by less.
    private func place(of number: UInt64) -> Int? {
        guard count > 0, number >= entries[head].number, number < nextNumber else { return nil }
        var high = Swift.min(entries.count - 1, head + Int(clamping: number - entries[head].number))
        var low = head
        if entries[high].number == number { return high }
        while low <= high {
            let middle = low + (high - low) / 2
            let found = entries[middle].number
            if found == number { return middle }
            if found < number { low = middle + 1 } else { high = middle - 1 }
        }
        return nil
    }

    private mutating func removed() {
        count -= 1
        guard count > 0 else {
            if entries.capacity > Self.kept { entries = [] } else { entries.removeAll(keepingCapacity: true) }
            head = 0
            return
        }
        while entries[head].element == nil { head += 1 }
        guard entries.count > 2 * count + Self.kept else { return }
        if head > entries.count / 2, entries.capacity <= 4 * entries.count {
            entries.removeFirst(head)
        } else {
            // A new array, just large enough for the remaining elements.
            entries = entries[head...].filter { $0.element != nil }
        }
        head = 0
    }
}

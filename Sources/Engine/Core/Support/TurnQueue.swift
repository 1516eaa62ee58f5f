// TurnQueue: a FIFO queue from which any element can be withdrawn. `append` returns a ticket, which the owner keeps
// with the element and hands to `withdraw`. A withdrawn element is released at once and leaves a gap; gaps are closed
// up once they are most of the queue. Joining and taking a turn cost O(1) amortised. Leaving costs O(1), and O(log n)
// after gaps were closed up, when the ticket no longer tells the place by itself.
//
//     entries  [taken] [taken] [ 7: a ] [ gap ] [ 9: c ] [ 10: d ]      count = 3
//                                ^ head                                 tickets ascend

struct TurnQueue<Element> {
    /// A place in one queue. It is never used again, so withdrawing twice does nothing.
    struct Ticket: Equatable {
        fileprivate let number: UInt64
    }

    private struct Entry {
        let number: UInt64
        /// Nil: a gap.
        var element: Element?
    }

    /// Capacity that an empty queue keeps.
    private static var kept: Int { 32 }

    private var entries: [Entry] = []
    /// The first entry that is still there; never a gap.
    private var head = 0
    private var nextNumber: UInt64 = 0
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }
    /// The element whose turn is next.
    var first: Element? { count > 0 ? entries[head].element : nil }
    /// Entries held in memory, gaps included: at most twice `count`, and `kept`.
    var footprint: Int { entries.count }

    @discardableResult
    mutating func append(_ element: Element) -> Ticket {
        let number = nextNumber
        nextNumber += 1
        entries.append(Entry(number: number, element: element))
        count += 1
        return Ticket(number: number)
    }

    @discardableResult
    mutating func popFirst() -> Element? {
        guard count > 0, let element = entries[head].element else { return nil }
        entries[head].element = nil
        removed()
        return element
    }

    /// Takes out the element with that ticket. Returns whether it was still there.
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

    /// In turn.
    func forEach(_ body: (Element) -> Void) {
        for entry in entries[head...] { if let element = entry.element { body(element) } }
    }

    /// Without gaps closed up it is as far from the first entry as the numbers are apart, else nearer.
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
            // A new array, which is as small as what is left.
            entries = entries[head...].filter { $0.element != nil }
        }
        head = 0
    }
}

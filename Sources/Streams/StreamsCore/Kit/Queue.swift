// Queue: a first-in, first-out queue in a ring buffer.

/// Grows as needed; its users must bound it.
struct Queue<Element> {
    /// The size is a power of two, or 0. Unused slots are `nil`, so that removed elements are released.
    private var slots: [Element?] = []
    private var head = 0
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    private func slot(_ index: Int) -> Int { (head + index) & (slots.count - 1) }

    subscript(index: Int) -> Element {
        precondition(index >= 0 && index < count)
        return slots[slot(index)]!
    }

    var last: Element? { count == 0 ? nil : self[count - 1] }

    mutating func append(_ element: Element) {
        if count == slots.count { grow() }
        slots[slot(count)] = element
        count += 1
    }

    mutating func popFirst() -> Element? {
        guard count > 0 else { return nil }
        let element = slots[head].take()
        head = slot(1)
        count -= 1
        return element
    }

    mutating func popLast() -> Element? {
        guard count > 0 else { return nil }
        count -= 1
        return slots[slot(count)].take()
    }

    mutating func removeAll() { self = Queue() }

    private mutating func grow() {
        var larger: [Element?] = []
        larger.reserveCapacity(max(4, slots.count * 2))
        for index in 0..<count { larger.append(self[index]) }
        while larger.count < max(4, slots.count * 2) { larger.append(nil) }
        slots = larger
        head = 0
    }
}

// Ring: the latest values of a stream, in manually managed memory. In unspecialized generic code, pointers cost least:
// they need no type metadata except that of the values.

/// Holds up to `limit` values. Not thread-safe.
final class Ring<Element> {
    /// What happens to a value when the ring is full.
    enum WhenFull {
        case refuse, replaceFirst, replaceLast
    }

    private let limit: Int
    private let whenFull: WhenFull
    private var slots: UnsafeMutablePointer<Element>
    /// The number of slots; grows up to the limit.
    private var size: Int
    private var head = 0
    private var count = 0

    init(limit: Int, whenFull: WhenFull) {
        self.limit = limit
        self.whenFull = whenFull
        size = min(limit, 4)
        slots = .allocate(capacity: size)
    }

    deinit {
        for index in 0..<count { (slots + slot(index)).deinitialize(count: 1) }
        slots.deallocate()
    }

    private func slot(_ index: Int) -> Int {
        let slot = head + index
        return slot < size ? slot : slot - size
    }

    var isEmpty: Bool { count == 0 }
    var isFull: Bool { count == limit }

    /// Adds an element at the end. The ring must not be full.
    func append(_ element: Element) {
        precondition(count < limit)
        if count == size { grow() }
        (slots + slot(count)).initialize(to: element)
        count += 1
    }

    func popFirst() -> Element? {
        guard count > 0 else { return nil }
        let element = (slots + head).move()
        head = slot(1)
        count -= 1
        return element
    }

    /// Called when the ring is full.
    /// - Returns: the value that is no longer in the ring: the replaced one, or `element` if it is refused.
    func exchange(_ element: Element) -> Element {
        guard limit > 0 else { return element }
        let place: Int
        switch whenFull {
        case .refuse: return element
        case .replaceLast: place = slot(count - 1)
        case .replaceFirst:
            place = head
            head = slot(1)
        }
        let gone = (slots + place).move()
        (slots + place).initialize(to: element)
        return gone
    }

    /// A copy, oldest value first.
    var queue: Queue<Element> {
        var queue = Queue<Element>()
        for index in 0..<count { queue.append(slots[slot(index)]) }
        return queue
    }

    private func grow() {
        let larger = size > limit / 2 ? limit : size * 2
        let moved = UnsafeMutablePointer<Element>.allocate(capacity: larger)
        for index in 0..<count { (moved + index).moveInitialize(from: slots + slot(index), count: 1) }
        slots.deallocate()
        (slots, size, head) = (moved, larger, 0)
    }
}

// Slab: a table of objects with reusable slots, addressed by (index, generation), so that a stale handle finds nothing
// instead of another object.

struct Handle: Hashable, Sendable {
    var index: UInt32
    var generation: UInt32
}

struct Slab<Element: AnyObject> {
    private struct Place {
        var element: Element?
        var generation: UInt32
    }

    private var places: [Place] = []
    private var free: [UInt32] = []
    private(set) var count = 0

    /// One past the highest index used so far. Together with `at`, for iterating over all elements in pages.
    var bound: Int { places.count }

    subscript(handle: Handle) -> Element? {
        guard Int(handle.index) < places.count, places[Int(handle.index)].generation == handle.generation else {
            return nil
        }
        return places[Int(handle.index)].element
    }

    /// Like the subscript, but does not retain the element: the caller must ensure that it stays in the table.
    @inline(__always)
    func unretained(_ handle: Handle) -> Unmanaged<Element>? {
        guard Int(handle.index) < places.count, places[Int(handle.index)].generation == handle.generation else {
            return nil
        }
        return unretained(at: Int(handle.index))
    }

    @inline(__always)
    func unretained(at index: Int) -> Unmanaged<Element>? { places[index].element.map(Unmanaged.passUnretained) }

    func at(_ index: Int) -> Element? { places[index].element }

    /// Inserts the element that `make` creates from its handle.
    mutating func insert(_ make: (Handle) -> Element) -> Element {
        count += 1
        if let index = free.popLast() {
            let element = make(Handle(index: index, generation: places[Int(index)].generation))
            places[Int(index)].element = element
            return element
        }
        let element = make(Handle(index: UInt32(places.count), generation: 1))
        places.append(Place(element: element, generation: 1))
        return element
    }

    mutating func remove(_ handle: Handle) {
        guard self[handle] != nil else { return }
        places[Int(handle.index)].element = nil
        places[Int(handle.index)].generation &+= 1
        free.append(handle.index)
        count -= 1
    }
}

// Rare: a value that few of many objects ever change. It takes one word until it is changed.

/// A value with an initial state.
protocol Resettable {
    init()
}

struct Rare<Value: Resettable> {
    private final class Box {
        var value: Value
        init(_ value: Value) { self.value = value }
    }

    private var box: Box?

    var isChanged: Bool { box != nil }
    var value: Value {
        get { box?.value ?? Value() }
        _modify {
            if box == nil {
                box = Box(Value())
            } else if !isKnownUniquelyReferenced(&box) {
                box = Box(box!.value)
            }
            yield &box!.value
        }
    }

    /// Reads a part of the value without copying the rest.
    @inline(__always)
    func read<Part>(_ part: (borrowing Value) -> Part) -> Part {
        if let box { part(box.value) } else { part(Value()) }
    }
}

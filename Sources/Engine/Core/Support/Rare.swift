// Rare: a value that most objects never change. It takes one word until the first change.

/// A value with an initial state.
protocol EmptyInitializable {
    init()
}

struct Rare<Value: EmptyInitializable> {
    private final class Box {
        var value = Value()
    }

    private var box: Box?

    /// Do not copy it after the first change: copies share the value.
    var value: Value {
        get { box?.value ?? Value() }
        _modify {
            if box == nil { box = Box() }
            yield &box!.value
        }
    }
}

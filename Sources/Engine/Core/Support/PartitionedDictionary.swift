// PartitionedDictionary: a dictionary that grows a part at a time.

/// Swift's dictionary moves all its entries when it grows, which takes tens of milliseconds at 100,000 of them: nobody
/// else is served meanwhile. Where this one has more than a few, it has 256 parts, each of which grows by itself.
struct PartitionedDictionary<Key: Hashable, Value> {
    /// Entries that one part may have before there are all.
    private static var few: Int { 4096 }

    private var parts: [[Key: Value]] = [[:]]
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }
    /// In no order that means anything.
    var values: some Sequence<Value> { parts.lazy.flatMap(\.values) }

    subscript(key: Key) -> Value? {
        get { parts[part(of: key)][key] }
        set {
            if count == PartitionedDictionary.few, parts.count == 1 { split() }
            let part = part(of: key)
            count -= parts[part].count
            parts[part][key] = newValue
            count += parts[part].count
        }
    }

    /// Changes values where they are.
    mutating func update(_ change: (inout Value) -> Void) {
        for part in parts.indices {
            for key in parts[part].keys { change(&parts[part][key]!) }
        }
    }

    mutating func removeValue(forKey key: Key) -> Value? {
        let removed = parts[part(of: key)].removeValue(forKey: key)
        if removed != nil { count -= 1 }
        return removed
    }

    private func part(of key: Key) -> Int { parts.count == 1 ? 0 : key.hashValue & (parts.count - 1) }

    private mutating func split() {
        let all = parts[0]
        parts = Array(repeating: [:], count: 256)
        for (key, value) in all { parts[part(of: key)][key] = value }
    }
}

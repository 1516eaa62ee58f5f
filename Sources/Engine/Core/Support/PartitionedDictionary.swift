// PartitionedDictionary: a dictionary that grows a part at a time.

/// Swift's dictionary moves all entries when it grows, which takes tens of milliseconds with 100,000 entries and stalls
/// everything else. This one switches to 256 parts that grow independently once it has more than a few entries.
struct PartitionedDictionary<Key: Hashable, Value> {
    /// Entries in one part before the dictionary is split.
    private static var few: Int { 4096 }

    /// Empty until the first entry.
    private var parts: [[Key: Value]] = []
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }
    /// In unspecified order.
    var values: some Sequence<Value> { parts.lazy.flatMap(\.values) }

    subscript(key: Key) -> Value? {
        get { parts.isEmpty ? nil : parts[part(of: key)][key] }
        set {
            if parts.isEmpty { parts = [[:]] }
            if count == PartitionedDictionary.few, parts.count == 1 { split() }
            let part = part(of: key)
            count -= parts[part].count
            parts[part][key] = newValue
            count += parts[part].count
        }
    }

    /// Changes values in place.
    mutating func update(_ change: (inout Value) -> Void) {
        for part in parts.indices {
            for key in parts[part].keys { change(&parts[part][key]!) }
        }
    }

    mutating func removeValue(forKey key: Key) -> Value? {
        if parts.isEmpty { return nil }
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

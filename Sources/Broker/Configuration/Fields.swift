// Fields: a mapping of the file read key by key. What was asked for is known; what is left over at the end is refused
// with the nearest of what is known.

/// A record of a list, such as a user or the settings of some topics.
public struct Fields {
    /// Where the record begins.
    public let place: Place
    /// The key whose list it is in, for messages: `topics`.
    private let path: String
    private let entries: [Node.Entry]
    private var known: [String] = []

    public init(_ node: Node, of path: String) throws(Fault) {
        guard case .mapping(let entries) = node.content else {
            throw Fault(node.place, "\(path): each element is a mapping; write - KEY: VALUE, and its other keys below")
        }
        place = node.place
        self.path = path
        self.entries = entries
    }

    /// The value of `key`; nil when it is not there.
    public mutating func value<V>(_ key: String, _ read: (String) throws(ValueFault) -> V) throws(Fault) -> V? {
        guard let node = node(key) else { return nil }
        return try value(node, key, read)
    }

    /// The value of a key that has to be there.
    public mutating func needed<V>(_ key: String, _ read: (String) throws(ValueFault) -> V) throws(Fault) -> V {
        if let value = try value(key, read) { return value }
        throw Fault(place, "\(path): there is no \(key); every element needs one")
    }

    /// The values of a list of at most `most`; a single value is a list of one. Nil when the key is not there.
    public mutating func values<V>(
        _ key: String, most: Int, _ read: (String) throws(ValueFault) -> V
    ) throws(Fault) -> [V]? {
        guard let node = node(key) else { return nil }
        var values: [V] = []
        for element in try node.list(of: name(key), most: most) { values.append(try value(element, key, read)) }
        return values
    }

    /// The records of a list within this one.
    public mutating func records<R>(
        _ key: String, most: Int, _ read: (inout Fields) throws(Fault) -> R
    ) throws(Fault) -> [R]? {
        guard let node = node(key) else { return nil }
        return try Fields.records(node, of: name(key), most: most, read)
    }

    /// Reads every element of a list of records, and refuses keys that `read` has not asked for.
    public static func records<R>(
        _ node: Node, of path: String, most: Int, _ read: (inout Fields) throws(Fault) -> R
    ) throws(Fault) -> [R] {
        var records: [R] = []
        for element in try node.list(of: path, most: most) {
            var fields = try Fields(element, of: path)
            let record = try read(&fields)
            try fields.finish()
            records.append(record)
        }
        return records
    }

    /// A fault of the value of `key`, or of the whole record where the key is not there.
    public func fault(_ key: String, _ sentence: String) -> Fault {
        let node = entries.first { $0.key == key }?.value
        return Fault(node?.place ?? place, "\(name(key)): \(sentence)")
    }

    private mutating func node(_ key: String) -> Node? {
        known.append(key)
        return entries.first { $0.key == key }?.value
    }

    private func value<V>(
        _ node: Node, _ key: String, _ read: (String) throws(ValueFault) -> V
    ) throws(Fault) -> V {
        let text = try node.text(of: name(key))
        do throws(ValueFault) {
            return try read(text)
        } catch {
            throw Fault(node.place, "\(name(key)): \(shown(text)) \(error.words)")
        }
    }

    private func finish() throws(Fault) {
        for entry in entries where !known.contains(entry.key) {
            throw Fault(
                entry.place, "\(name(shown(entry.key))) is no key" + suggestion(for: entry.key, among: known))
        }
    }

    private func name(_ key: String) -> String { "\(path).\(key)" }
}

// Fields: reads a mapping of the file key by key. Each requested key is a known key; any other key in the mapping is an
// error that suggests the nearest known one.

/// A record in a list, such as a user or the settings of some topics.
public struct Fields {
    /// The start of the record.
    public let place: Place
    /// The key of the list that contains the record, such as `topics`, for error messages.
    private let path: String
    private let entries: [Node.Entry]
    private var known: [String] = []

    public init(_ node: Node, of path: String) throws(Fault) {
        guard case .mapping(let entries) = node.content else {
            throw Fault(node.place, "\(path): each element must be a mapping; write - KEY: VALUE and more keys below")
        }
        place = node.place
        self.path = path
        self.entries = entries
    }

    /// The value of `key`; nil if the key is missing.
    public mutating func value<V>(_ key: String, _ read: (String) throws(ValueFault) -> V) throws(Fault) -> V? {
        guard let node = node(key) else { return nil }
        return try value(node, key, read)
    }

    /// The value of a required key.
    public mutating func needed<V>(_ key: String, _ read: (String) throws(ValueFault) -> V) throws(Fault) -> V {
        if let value = try value(key, read) { return value }
        throw Fault(place, "\(path): \(key) is missing; every element needs one")
    }

    /// The values of a list of at most `most`; a single value is a list of one. Nil if the key is missing.
    public mutating func values<V>(
        _ key: String, most: Int, _ read: (String) throws(ValueFault) -> V
    ) throws(Fault) -> [V]? {
        guard let node = node(key) else { return nil }
        var values: [V] = []
        for element in try node.list(of: name(key), most: most) { values.append(try value(element, key, read)) }
        return values
    }

    /// The records of a nested list.
    public mutating func records<R>(
        _ key: String, most: Int, _ read: (inout Fields) throws(Fault) -> R
    ) throws(Fault) -> [R]? {
        guard let node = node(key) else { return nil }
        return try Fields.records(node, of: name(key), most: most, read)
    }

    /// Reads every element of a list of records, and rejects keys that `read` did not request.
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

    /// An error in the value of `key`, or in the whole record if the key is missing.
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
                entry.place, "\(name(shown(entry.key))) is not a known key" + suggestion(for: entry.key, among: known))
        }
    }

    private func name(_ key: String) -> String { "\(path).\(key)" }
}

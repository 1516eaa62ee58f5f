// Node: the content of a configuration file as it is written: text, lists and mappings, each with its position. The key
// determines the type of a text (a number, a size, a switch), so `off`, `no` and `1_000` hold no surprises.

/// A position in a file; line and column count from 1.
public struct Place: Equatable, Sendable {
    public var line: Int
    public var column: Int

    public init(line: Int, column: Int) {
        self.line = line
        self.column = column
    }
}

/// An error at a place in a file. `sentence` names the key and says what to write instead.
public struct Fault: Error, Equatable, Sendable, CustomStringConvertible {
    public var place: Place
    public var sentence: String

    public init(_ place: Place, _ sentence: String) {
        self.place = place
        self.sentence = sentence
    }

    /// `12:3: retain: 0 is not a number from 1 to 2147483647`
    public var description: String { "\(place.line):\(place.column): \(sentence)" }
}

public struct Node: Equatable, Sendable {
    public enum Content: Equatable, Sendable {
        /// No value: `key:`, `~` or `null`.
        case nothing
        case text(String)
        case list([Node])
        /// In the order of the file, without duplicate keys.
        case mapping([Entry])
    }

    public struct Entry: Equatable, Sendable {
        public var key: String
        public var place: Place
        public var value: Node
    }

    public var content: Content
    public var place: Place

    public init(_ content: Content, at place: Place) {
        self.content = content
        self.place = place
    }

    /// The value as text, or an error that names `key`.
    public func text(of key: String) throws(Fault) -> String {
        switch content {
        case .text(let text): return text
        case .nothing: throw Fault(place, "\(key): the value is missing; write one, or leave the key out")
        case .list: throw Fault(place, "\(key): this is a list; write one value")
        case .mapping: throw Fault(place, "\(key): this is a mapping; write one value")
        }
    }

    /// The elements of a list of at most `most`, or an error that names `key`. A single value is a list of one.
    public func list(of key: String, most: Int) throws(Fault) -> [Node] {
        switch content {
        case .list(let nodes):
            guard nodes.count <= most else {
                throw Fault(place, "\(key): the list has \(nodes.count) elements; write at most \(most)")
            }
            return nodes
        case .nothing: throw Fault(place, "\(key): the value is missing; write a list, or [] for an empty one")
        case .text, .mapping: return [self]
        }
    }
}

/// Text from a file or the environment, made safe for a message: truncated, and without characters that control a
/// terminal.
public func shown(_ text: String) -> String {
    var result = String.UnicodeScalarView()
    for scalar in text.unicodeScalars {
        if result.count == 80 { return String(result) + "…" }
        let isControl = scalar.properties.generalCategory == .control || scalar.properties.generalCategory == .format
        result.append(isControl ? "\u{FFFD}" : scalar)
    }
    return String(result)
}

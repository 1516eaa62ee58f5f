// Node: what a configuration file holds, as it is written – texts, lists and mappings, each with its place. What a text
// means (a number, a size, a switch) is for the key to say, so that `off`, `no` and `1_000` hold no surprises.

/// Where something stands in a file; line and column count from 1.
public struct Place: Equatable, Sendable {
    public var line: Int
    public var column: Int

    public init(line: Int, column: Int) {
        self.line = line
        self.column = column
    }
}

/// What is wrong at a place in a file. `sentence` names the key and tells what to write instead.
public struct Fault: Error, Equatable, Sendable, CustomStringConvertible {
    public var place: Place
    public var sentence: String

    public init(_ place: Place, _ sentence: String) {
        self.place = place
        self.sentence = sentence
    }

    /// `12:3: retain: 0 is no number from 1 to 2147483647`
    public var description: String { "\(place.line):\(place.column): \(sentence)" }
}

public struct Node: Equatable, Sendable {
    public enum Content: Equatable, Sendable {
        /// Nothing is written: `key:`, `~` or `null`.
        case nothing
        case text(String)
        case list([Node])
        /// In the order of the file; no key is there twice.
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

    /// The text of a value that is one, for `key`.
    public func text(of key: String) throws(Fault) -> String {
        switch content {
        case .text(let text): return text
        case .nothing: throw Fault(place, "\(key): there is no value; write one, or leave the key out")
        case .list: throw Fault(place, "\(key): this is a list; write one value")
        case .mapping: throw Fault(place, "\(key): this is a mapping; write one value")
        }
    }

    /// The elements of a list of at most `most`, for `key`; a single value counts as a list of one.
    public func list(of key: String, most: Int) throws(Fault) -> [Node] {
        switch content {
        case .list(let nodes):
            guard nodes.count <= most else {
                throw Fault(place, "\(key): the list has \(nodes.count) elements; write at most \(most)")
            }
            return nodes
        case .nothing: throw Fault(place, "\(key): there is no value; write a list, [] for an empty one")
        case .text, .mapping: return [self]
        }
    }
}

/// Text of a file or of the environment as a message may show it: cut short, and without what could steer a terminal.
public func shown(_ text: String) -> String {
    var result = String.UnicodeScalarView()
    for scalar in text.unicodeScalars {
        if result.count == 80 { return String(result) + "…" }
        let isControl = scalar.properties.generalCategory == .control || scalar.properties.generalCategory == .format
        result.append(isControl ? "\u{FFFD}" : scalar)
    }
    return String(result)
}

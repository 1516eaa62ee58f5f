// PatternTrie: values by topic pattern. Finding the patterns that match a name visits only tokens that some pattern has
// at that place, however many patterns there are.
//
//     orders.*.eu   orders.>          root ── orders ─┬─ * ── eu: value
//                                                     └─ >: value

/// A map from patterns to values, which finds the values of all patterns that match a topic's name.
package struct PatternTrie<Value> {
    private final class Node {
        var children: [Substring: Node] = [:]
        var value: Value?
        var isEmpty: Bool { children.isEmpty && value == nil }
    }

    private let root = Node()
    /// The nodes with a value: a pattern may have a hundred tokens.
    private var nodes: [TopicPattern: Node] = [:]

    /// The number of patterns.
    var count: Int { nodes.count }
    package var isEmpty: Bool { nodes.isEmpty }

    package init() {}

    /// The value of exactly this pattern.
    package subscript(pattern: TopicPattern) -> Value? {
        get { nodes[pattern]?.value }
        set {
            if let newValue { insert(newValue, for: pattern) } else { remove(pattern) }
        }
    }

    private static func tokens(_ text: String) -> [Substring] {
        text.utf8.split(separator: UInt8(ascii: ".")).map { Substring($0) }
    }

    private mutating func insert(_ value: Value, for pattern: TopicPattern) {
        if let node = nodes[pattern] { return node.value = value }
        var node = root
        for token in PatternTrie.tokens(pattern.description) {
            let next = node.children[token] ?? Node()
            node.children[token] = next
            node = next
        }
        node.value = value
        nodes[pattern] = node
    }

    private mutating func remove(_ pattern: TopicPattern) {
        guard let node = nodes.removeValue(forKey: pattern) else { return }
        node.value = nil
        guard node.isEmpty else { return }
        let tokens = PatternTrie.tokens(pattern.description)
        var path = [root]
        for token in tokens { if let next = path[path.count - 1].children[token] { path.append(next) } }
        for (index, token) in tokens.enumerated().reversed() where path[index + 1].isEmpty {
            path[index].children[token] = nil
        }
    }

    /// Calls `body` with the value of each pattern that matches `name`, a valid topic name, in no particular order.
    /// The trie must not be changed meanwhile.
    package func forEachMatch(_ name: String, _ body: (Value) -> Void) {
        guard !isEmpty else { return }
        let tokens = PatternTrie.tokens(name)
        // Names of the broker match only patterns that begin in the same way.
        let isSystem = name.utf8.first == UInt8(ascii: "$")
        PatternTrie.visit(root, tokens[...], literal: isSystem, body)
    }

    /// Whether some pattern matches `name`.
    func hasMatch(_ name: String) -> Bool {
        var isFound = false
        forEachMatch(name) { _ in isFound = true }
        return isFound
    }

    /// - Parameter literal: whether `*` and `>` do not match the first token.
    private static func visit(
        _ node: Node, _ tokens: ArraySlice<Substring>, literal: Bool = false, _ body: (Value) -> Void
    ) {
        guard let token = tokens.first else {
            if let value = node.value { body(value) }
            return
        }
        if !literal {
            if let value = node.children[">"]?.value { body(value) }
            if let next = node.children["*"] { visit(next, tokens.dropFirst(), body) }
        }
        if let next = node.children[token] { visit(next, tokens.dropFirst(), body) }
    }

    /// All values, in no particular order.
    var values: [Value] { nodes.values.compactMap(\.value) }
}

// PatternTrie: values by topic pattern. Finding the patterns that match a name visits only tokens that some pattern has
// at that place, however many patterns there are.
//
//     orders.*.eu   orders.>          root ── orders ─┬─ * ── eu: value
//                                                     └─ >: value

/// A map from patterns to values, which finds the values of all patterns that match a topic's name.
package struct PatternTrie<Value> {
    private final class Node {
        /// By token, except for `*` and `>`, which are looked up for each name.
        private(set) var literals: [Substring: Node] = [:]
        /// The child for `*`, and the one for `>`.
        private(set) var one: Node?
        private(set) var rest: Node?
        var value: Value?
        var isEmpty: Bool { literals.isEmpty && one == nil && rest == nil && value == nil }

        subscript(token: Substring) -> Node? {
            get {
                switch token {
                case "*": one
                case ">": rest
                default: literals[token]
                }
            }
            set {
                switch token {
                case "*": one = newValue
                case ">": rest = newValue
                default: literals[token] = newValue
                }
            }
        }
    }

    private let root = Node()
    /// The nodes with a value: a pattern may have a hundred tokens.
    private var nodes: [TopicPattern: Node] = [:]

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
            let next = node[token] ?? Node()
            node[token] = next
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
        for token in tokens { if let next = path[path.count - 1][token] { path.append(next) } }
        for (index, token) in tokens.enumerated().reversed() where path[index + 1].isEmpty {
            path[index][token] = nil
        }
    }

    /// Calls `body` with the value of each pattern that matches `name`, a valid topic name, in no particular order.
    /// The trie must not be changed meanwhile.
    /// - Returns: the number of nodes that were visited: those on paths of `*` and of the name's tokens.
    @discardableResult
    package func forEachMatch(_ name: String, _ body: (Value) -> Void) -> Int {
        guard !isEmpty else { return 0 }
        let tokens = PatternTrie.tokens(name)
        // Names of the broker match only patterns that begin in the same way.
        let isSystem = name.utf8.first == UInt8(ascii: "$")
        return PatternTrie.visit(root, tokens[...], literal: isSystem, body)
    }

    /// - Parameter literal: whether `*` and `>` do not match the first token.
    private static func visit(
        _ node: Node, _ tokens: ArraySlice<Substring>, literal: Bool = false, _ body: (Value) -> Void
    ) -> Int {
        guard let token = tokens.first else {
            if let value = node.value { body(value) }
            return 1
        }
        var visited = 1
        if !literal {
            if let value = node.rest?.value { body(value) }
            if let next = node.one { visited += visit(next, tokens.dropFirst(), body) }
        }
        if let next = node.literals[token] { visited += visit(next, tokens.dropFirst(), body) }
        return visited
    }

    /// All values, in no particular order.
    var values: [Value] { nodes.values.compactMap(\.value) }
}

extension ShardPart {
    /// Calls `body` with the value of each pattern that matches `name`. Comparing them counts as work.
    func forEachMatch<Value>(_ name: String, in patterns: PatternTrie<Value>, _ body: (Value) -> Void) {
        work.spent += patterns.forEachMatch(name, body) / Work.patternNodesPerUnit
    }

    /// Whether some pattern matches `name`.
    func hasMatch<Value>(_ name: String, in patterns: PatternTrie<Value>) -> Bool {
        var isFound = false
        forEachMatch(name, in: patterns) { _ in isFound = true }
        return isFound
    }
}

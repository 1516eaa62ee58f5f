// TopicTrie: topics by the tokens of their names. A pattern finds its topics without visiting those that differ in a
// token before its first wildcard, however many there are.
//
//     orders.eu   orders.us.ny          root ── orders ─┬─ eu: topic
//                                                       └─ us ── ny: topic

import ForebayWire

final class TopicTrie {
    /// Nodes in a path at most, because each takes memory. What is left of a longer name is one token.
    static let deepest = 6

    fileprivate final class Node {
        /// Not retained: a topic may hold searches, which hold nodes.
        unowned var topic: Topic?
        var children: Children?
        /// Its slot in its parent's children.
        let place: Handle

        init(place: Handle) { self.place = place }
    }

    fileprivate final class Children {
        var byToken = PartitionedDictionary<String, Node>()
        /// In slots over which a search iterates while children are added and removed.
        var all = Slab<Node>()
    }

    fileprivate let root = Node(place: Handle(index: 0, generation: 0))

    fileprivate static func tokens(_ name: String) -> [String] {
        name.split(separator: ".", maxSplits: deepest - 1).map(String.init)
    }

    func insert(_ topic: Topic) {
        var node = root
        for token in TopicTrie.tokens(topic.name) { node = TopicTrie.child(of: node, token) }
        node.topic = topic
    }

    private static func child(of node: Node, _ token: String) -> Node {
        if let child = node.children?.byToken[token] { return child }
        let children = node.children ?? Children()
        node.children = children
        let child = children.all.insert { Node(place: $0) }
        children.byToken[token] = child
        return child
    }

    func remove(_ name: String) {
        let tokens = TopicTrie.tokens(name)
        var path = [root]
        for token in tokens {
            guard let child = path[path.count - 1].children?.byToken[token] else { return }
            path.append(child)
        }
        path[tokens.count].topic = nil
        for depth in tokens.indices.reversed() {
            let child = path[depth + 1]
            guard child.topic == nil, child.children == nil, let siblings = path[depth].children else { return }
            siblings.byToken[tokens[depth]] = nil
            siblings.all.remove(child.place)
            if siblings.byToken.isEmpty { path[depth].children = nil }
        }
    }
}

/// A search for the topics that match a pattern, which may pause. A topic that exists all the time is found once; one
/// that is created or removed during the search may or may not be found.
struct TopicSearch {
    private let pattern: TopicPattern
    private let tokens: [String]
    /// The nodes whose children are being visited, and the next slot in each.
    private var path: [(node: TopicTrie.Node, next: Int)]

    init(_ pattern: TopicPattern, in trie: TopicTrie) {
        self.pattern = pattern
        tokens = TopicTrie.tokens(pattern.description)
        path = [(trie.root, 0)]
    }

    /// Whether everything was visited.
    var isOver: Bool { path.isEmpty }

    /// The next topic that matches. Nil if everything, or as much as allowed, was visited.
    /// - Parameter most: how many nodes may be visited; reduced by those that were.
    mutating func next(most: inout Int) -> Topic? {
        while most > 0, let (node, place) = path.last {
            most -= 1
            guard let children = node.children, place < children.all.bound else {
                path.removeLast()
                continue
            }
            let depth = path.count - 1
            let token = tokens[Swift.min(depth, tokens.count - 1)]
            let visitsAll = token == "*" || token == ">" || depth == TopicTrie.deepest - 1
            path[depth].next = visitsAll ? place + 1 : .max
            guard let child = visitsAll ? children.all.at(place) : children.byToken[token] else { continue }
            if token == ">" || depth < tokens.count - 1, child.children != nil { path.append((child, 0)) }
            // Wildcards do not match the names of the broker.
            if let topic = child.topic, pattern.matches(topic.name) { return topic }
        }
        return nil
    }
}

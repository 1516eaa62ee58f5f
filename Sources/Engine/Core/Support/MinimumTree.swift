// MinimumTree: the smallest of many keys that change often. Each key has a place; above the places stands a binary tree
// in which each node holds the smaller of its two children. A change costs O(log n), and one step on average when all
// keys move on one after the other; the minimum is read in O(1).
//
//                      node 1 = minimum
//               node 2               node 3
//           node 4   node 5      node 6   node 7         capacity = 4: place p is node capacity + p
//
// Keys are UInt64; `none` stands for a place without one.

final class MinimumTree {
    /// The key of a place that has none.
    static let none = UInt64.max
    private static let smallest = 4

    private var capacity = MinimumTree.smallest
    private var nodes: UnsafeMutablePointer<UInt64>
    /// Places in use.
    private(set) var count = 0

    init() { nodes = MinimumTree.allocate(MinimumTree.smallest) }

    deinit { nodes.deallocate() }

    /// `none` while no place has a key.
    @inline(__always)
    var minimum: UInt64 { nodes[1] }

    subscript(place: Int) -> UInt64 { nodes[capacity + place] }

    func append(_ key: UInt64) {
        if count == capacity { resize(to: 2 * capacity) }
        count += 1
        set(count - 1, key)
    }

    /// Changes the key of a place. Returns whether the minimum is another one now.
    @inline(__always)
    @discardableResult
    func set(_ place: Int, _ key: UInt64) -> Bool {
        assert(place < count)
        if nodes[capacity + place] == key { return false }
        return update(capacity + place, key)
    }

    /// Removes the place; the last one takes its number.
    func remove(_ place: Int) {
        let last = nodes[capacity + count - 1]
        set(count - 1, MinimumTree.none)
        if place < count - 1 { set(place, last) }
        count -= 1
        // A quarter, so that one that comes and goes does not resize it each time.
        if capacity > MinimumTree.smallest, count <= capacity / 4 { resize(to: capacity / 2) }
    }

    /// The places from `start` on whose keys are below `key`, in order, at most `most` of them. Looks at O(log n) nodes
    /// for each.
    func places(below key: UInt64, from start: Int = 0, most: Int = .max) -> [Int] {
        var found: [Int] = []
        var open = [1]
        while let node = open.popLast(), found.count < most {
            guard nodes[node] < key, end(of: node) > start else { continue }
            if node >= capacity {
                found.append(node - capacity)
            } else {
                open.append(2 * node + 1)
                open.append(2 * node)
            }
        }
        return found
    }

    /// One past the last place below `node`.
    private func end(of node: Int) -> Int {
        let depth = (node.leadingZeroBitCount - capacity.leadingZeroBitCount)
        return ((node + 1) << depth) - capacity
    }

    private func update(_ leaf: Int, _ key: UInt64) -> Bool {
        nodes[leaf] = key
        var node = leaf
        while node > 1 {
            let smaller = Swift.min(nodes[node], nodes[node ^ 1])
            node >>= 1
            if nodes[node] == smaller { return false }
            nodes[node] = smaller
        }
        return true
    }

    private func resize(to size: Int) {
        let larger = MinimumTree.allocate(size)
        (larger + size).update(from: nodes + capacity, count: count)
        for node in stride(from: size - 1, to: 0, by: -1) {
            larger[node] = Swift.min(larger[2 * node], larger[2 * node + 1])
        }
        nodes.deallocate()
        nodes = larger
        capacity = size
    }

    private static func allocate(_ capacity: Int) -> UnsafeMutablePointer<UInt64> {
        let nodes = UnsafeMutablePointer<UInt64>.allocate(capacity: 2 * capacity)
        nodes.initialize(repeating: none, count: 2 * capacity)
        return nodes
    }
}

// MinimumTree: the minimum of many keys that change often. Each key is at an index, a leaf of a binary tree in which
// each node holds the smaller of its two children. A change costs O(log n), but on average only a single step when all
// keys advance one after another. Reading the minimum costs O(1).
//
//                      node 1 = minimum
//               node 2               node 3
//           node 4   node 5      node 6   node 7         capacity = 4: index p is node capacity + p
//
// Keys are UInt64; `none` means that there is no key.

final class MinimumTree {
    /// Stands for the key of an index that has none.
    static let none = UInt64.max
    private static let smallest = 4

    private var capacity = MinimumTree.smallest
    private var nodes: UnsafeMutablePointer<UInt64>
    /// Indices in use.
    private(set) var count = 0

    init() { nodes = MinimumTree.allocate(MinimumTree.smallest) }

    deinit { nodes.deallocate() }

    /// The smallest key; `none` if there are no keys.
    @inline(__always)
    var minimum: UInt64 { nodes[1] }

    subscript(place: Int) -> UInt64 { nodes[capacity + place] }

    func append(_ key: UInt64) {
        if count == capacity { resize(to: 2 * capacity) }
        count += 1
        set(count - 1, key)
    }

    /// Changes the key at an index. Returns whether the minimum has changed.
    @inline(__always)
    @discardableResult
    func set(_ place: Int, _ key: UInt64) -> Bool {
        assert(place < count)
        if nodes[capacity + place] == key { return false }
        return update(capacity + place, key)
    }

    /// Removes an index; the last key moves there.
    func remove(_ place: Int) {
        let last = nodes[capacity + count - 1]
        set(count - 1, MinimumTree.none)
        if place < count - 1 { set(place, last) }
        count -= 1
        // The tree shrinks when only a quarter is in use, so that alternating additions and removals do not resize it
        // each time.
        if capacity > MinimumTree.smallest, count <= capacity / 4 { resize(to: capacity / 2) }
    }

    /// At most `most` indices, from `start` on and in order, whose keys are less than `key`. Visits O(log n) nodes for
    /// each.
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

    /// One past the last index below `node`.
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

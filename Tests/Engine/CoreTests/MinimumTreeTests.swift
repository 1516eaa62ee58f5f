// The smallest of many keys, compared with a plain array.

import Testing

@testable import Core

@Suite struct MinimumTreeTests {
    @Test func equalsAnArray() {
        var random = LedgerRandom(state: 3)
        let tree = MinimumTree()
        var keys: [UInt64] = []
        for _ in 0..<20_000 {
            let grows = keys.count < 3 || random.next(100) < (keys.count < 300 ? 55 : 40)
            let key = random.next(10) == 0 ? MinimumTree.none : UInt64(random.next(50))
            switch random.next(3) {
            case 0 where grows:
                keys.append(key)
                tree.append(key)
            case 0:
                let place = random.next(keys.count)
                keys[place] = keys[keys.count - 1]
                keys.removeLast()
                tree.remove(place)
            default:
                guard !keys.isEmpty else { continue }
                let place = random.next(keys.count)
                let before = keys.min()
                keys[place] = key
                #expect(tree.set(place, key) == (keys.min() != before))
            }
            #expect(tree.count == keys.count && tree.minimum == keys.min() ?? MinimumTree.none)
            guard random.next(50) == 0 else { continue }
            let limit = UInt64(random.next(60))
            let start = random.next(keys.count + 1)
            let most = random.next(20)
            let expected = keys.indices.filter { $0 >= start && keys[$0] < limit }
            #expect(tree.places(below: limit, from: start) == expected)
            #expect(tree.places(below: limit, from: start, most: most) == Array(expected.prefix(most)))
            #expect(keys.indices.allSatisfy { tree[$0] == keys[$0] })
        }
    }
}

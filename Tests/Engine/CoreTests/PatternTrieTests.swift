// The trie of patterns against a list of patterns that are compared with the name one by one.

import Testing

@testable import Core

@Suite struct PatternTrieTests {
    private static func name(_ random: inout LedgerRandom) -> String {
        let tokens = (0...random.next(4)).map { _ in random.pick(["a", "b", "c", "aa"]) }
        return (random.next(8) == 0 ? ["$SYS"] + tokens : tokens).joined(separator: ".")
    }

    private static func pattern(_ random: inout LedgerRandom) -> TopicPattern {
        var tokens = (0...random.next(4)).map { _ in random.pick(["a", "b", "c", "aa", "*", "*"]) }
        if random.next(3) == 0 { tokens.append(">") }
        if random.next(8) == 0 { tokens.insert("$SYS", at: 0) }
        return try! TopicPattern(parsing: tokens.joined(separator: "."))
    }

    @Test(arguments: 0..<20) func findsWhatMatches(_ seed: Int) {
        var random = LedgerRandom(state: UInt64(seed) &* 0x9E37_79B9)
        var trie = PatternTrie<Int>()
        var model: [TopicPattern: Int] = [:]
        for step in 0..<2000 {
            let pattern = PatternTrieTests.pattern(&random)
            #expect(trie[pattern] == model[pattern])
            if random.next(2) == 0 {
                trie[pattern] = step
                model[pattern] = step
            } else {
                trie[pattern] = nil
                model[pattern] = nil
            }
            #expect(trie.values.count == model.count)
            let name = PatternTrieTests.name(&random)
            var found: [Int] = []
            trie.forEachMatch(name) { found.append($0) }
            #expect(found.sorted() == model.filter { $0.key.matches(name) }.map(\.value).sorted(), "\(name)")
        }
        #expect(trie.values.sorted() == model.values.sorted())
        for pattern in model.keys { trie[pattern] = nil }
        #expect(trie.isEmpty && trie.values.isEmpty)
    }

    /// A pattern lies within another one if no name matches the first alone.
    @Test(arguments: 0..<20) func coversWhatItMatches(_ seed: Int) {
        var random = LedgerRandom(state: UInt64(seed) &* 0x9E37_79B9)
        let names = (0..<3000).map { _ in PatternTrieTests.name(&random) }
        for _ in 0..<100 {
            let (one, other) = (PatternTrieTests.pattern(&random), PatternTrieTests.pattern(&random))
            if one.covers(other) {
                for name in names where other.matches(name) { #expect(one.matches(name), "\(one) \(other) \(name)") }
            }
            #expect(one.covers(one))
        }
    }

    @Test(arguments: [
        ("orders.>", ["orders.*", "orders.eu", "orders.eu.>", "orders.*.eu"], ["orders", ">", "*.eu", "orderss.>"]),
        ("orders.*", ["orders.eu", "orders.*"], ["orders.>", "orders.*.*", "*.*"]),
        ("*.eu", ["orders.eu"], ["orders.us", "*.>", ">"]),
        (">", ["a", "*", "*.b", "a.>", ">"], ["$SYS.>", "$SYS.events"]),
        ("$SYS.>", ["$SYS.*", "$SYS.events"], [">", "a"]),
    ])
    func covers(_ pattern: String, _ within: [String], _ others: [String]) throws {
        let pattern = try TopicPattern(parsing: pattern)
        for other in within { #expect(pattern.covers(try TopicPattern(parsing: other)), "\(pattern) \(other)") }
        for other in others { #expect(!pattern.covers(try TopicPattern(parsing: other)), "\(pattern) \(other)") }
    }
}

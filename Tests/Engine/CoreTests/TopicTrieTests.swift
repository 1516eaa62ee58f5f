// The trie of topics against all topics, which are compared with the pattern one by one.

import Testing

@testable import Core

@Suite struct TopicTrieTests {
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

    private static func change(_ shard: Shard, _ random: inout LedgerRandom) {
        let name = name(&random)
        if let topic = shard.topics[name] {
            shard.topics.removeName(of: topic)
        } else {
            _ = try! shard.topics.make(name, for: nil, by: shard.parts.output.ownership)
        }
    }

    private static func matches(_ pattern: TopicPattern, _ shard: Shard) -> Set<UInt64> {
        Set(shard.topics.all.filter { pattern.matches($0.name) && shard.topics.hasName($0) }.map(\.epoch))
    }

    @Test(arguments: 0..<20) func findsWhatMatches(_ seed: Int) {
        var random = LedgerRandom(state: UInt64(seed) &* 0x9E37_79B9)
        let shard = TestBroker().shards[0]
        for _ in 0..<500 {
            TopicTrieTests.change(shard, &random)
            let pattern = TopicTrieTests.pattern(&random)
            var search = shard.topics.search(pattern)
            var most = Int.max
            var found: [UInt64] = []
            while let topic = search.next(most: &most) { found.append(topic.epoch) }
            #expect(search.isOver)
            #expect(found.count == Set(found).count && Set(found) == TopicTrieTests.matches(pattern, shard))
        }
    }

    /// What exists all the time is found once, although other topics come and go while the search pauses.
    @Test(arguments: 0..<20) func findsWhatStays(_ seed: Int) {
        var random = LedgerRandom(state: UInt64(seed) &* 0x9E37_79B9)
        let shard = TestBroker().shards[0]
        for _ in 0..<200 { TopicTrieTests.change(shard, &random) }
        for _ in 0..<100 {
            let pattern = TopicTrieTests.pattern(&random)
            var search = shard.topics.search(pattern)
            var stayed = TopicTrieTests.matches(pattern, shard)
            var found: [UInt64] = []
            while !search.isOver {
                var most = 1 + random.next(4)
                while let topic = search.next(most: &most) {
                    #expect(shard.topics.hasName(topic) && pattern.matches(topic.name))
                    found.append(topic.epoch)
                }
                for _ in 0..<random.next(4) { TopicTrieTests.change(shard, &random) }
                stayed.formIntersection(TopicTrieTests.matches(pattern, shard))
            }
            #expect(found.count == Set(found).count && stayed.isSubset(of: found))
        }
    }

    /// Topics that differ before the first wildcard are not visited.
    @Test func visitsOnlyWhatMayMatch() {
        let shard = TestBroker().shards[0]
        for group in 0..<100 {
            for place in 0..<10 {
                _ = try! shard.topics.make("g\(group).t\(place)", for: nil, by: shard.parts.output.ownership)
            }
        }
        var search = shard.topics.search(try! TopicPattern(parsing: "g7.*"))
        var most = 20
        var count = 0
        while search.next(most: &most) != nil { count += 1 }
        #expect(count == 10 && search.isOver)
    }
}

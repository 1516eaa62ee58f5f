// Which regions are chosen when clients that do not read keep too much memory.

import Testing

@testable import Core

@Suite struct UnreadMemoryTests {
    /// Regions of 1,000 bytes with the given numbers of holders; returns the marks of the chosen ones.
    private func chosen(leaving rest: Int, holders: [Int]) -> [UInt64] {
        var unread = UnreadMemory()
        let marks = holders.indices.map { UInt64($0 + 1) }
        for (mark, count) in zip(marks, holders) {
            for _ in 0..<count { unread.count(mark, capacity: 1000) }
        }
        unread.choose(leaving: rest)
        #expect(unread.hasChosen)
        return marks.filter { unread.finds[$0]?.isChosen == true }
    }

    @Test func thoseWithTheFewestHoldersComeFirst() {
        #expect(chosen(leaving: 2000, holders: [10, 1, 100]) == [2])
        #expect(chosen(leaving: 1999, holders: [10, 1, 100]) == [1, 2])
        #expect(chosen(leaving: 0, holders: [10, 1, 100]) == [1, 2, 3])
    }

    @Test func ofEqualOnesNoMoreThanNeeded() {
        #expect(chosen(leaving: 17_500, holders: Array(repeating: 8, count: 20)).count == 3)
    }

    @Test func nothingIsChosenWhereNothingIsNeeded() {
        #expect(chosen(leaving: 2000, holders: [1, 2]).isEmpty && chosen(leaving: 9000, holders: [1, 2]).isEmpty)
        #expect(chosen(leaving: 0, holders: []).isEmpty)
    }
}

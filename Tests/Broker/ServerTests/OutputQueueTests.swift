// The order in which connections with output are written to.

import Core
import Testing

@testable import Server

@Suite struct OutputQueueTests {
    private func id(_ index: Int) -> ConnectionID { ConnectionID(index: UInt32(index), generation: 1) }

    /// Writes once; returns the connections in the order in which they were written to.
    private func turn(
        _ queue: inout OutputQueue, _ flush: [Int], much: Range<Int> = 0..<0, size: (Int) -> Int = { _ in 100 }
    ) -> [Int] {
        var written: [Int] = []
        var ids = flush.map(id)
        queue.take(&ids)
        #expect(ids.isEmpty)
        queue.writeSome {
            much.contains(Int($0.index))
        } write: {
            written.append(Int($0.index))
            return size(Int($0.index))
        }
        return written
    }

    @Test func littleOutputGoesFirst() {
        var queue = OutputQueue()
        #expect(turn(&queue, [1, 20, 2, 21, 3], much: 1..<9) == [20, 21, 1, 2, 3])
        #expect(queue.isEmpty)
    }

    @Test func muchOutputTakesTurnsAndIsNotStarved() {
        var queue = OutputQueue()
        let size = { (index: Int) in index < 10 ? OutputQueue.share / 2 : OutputQueue.share / 8 }
        #expect(turn(&queue, [1, 2, 3, 4, 5], much: 1..<9, size: size) == [1, 2])
        #expect(!queue.isEmpty)
        // Small writes may use half of the turn's share.
        #expect(turn(&queue, Array(20..<30), much: 1..<9, size: size) == [20, 21, 22, 23, 3])
        #expect(turn(&queue, [30], much: 1..<9, size: size) == [30, 4, 5])
        #expect(turn(&queue, [], size: size) == Array(24..<30))
        #expect(queue.isEmpty)
    }

    @Test func oneTurnWritesToAFewConnections() {
        var queue = OutputQueue()
        let many = Array(0..<100_000)
        var written = turn(&queue, many)
        #expect(written == Array(0..<OutputQueue.slice))
        while !queue.isEmpty { written += turn(&queue, []) }
        #expect(written == many)
    }
}

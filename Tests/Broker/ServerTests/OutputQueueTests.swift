// The order in which connections with output are written to.

import Core
import Testing

@testable import Server

@Suite struct OutputQueueTests {
    private func id(_ index: Int) -> ConnectionID { ConnectionID(index: UInt32(index), generation: 1) }

    /// Writes once; returns the connections in the order in which they were written to.
    private func turn(
        _ queue: inout OutputQueue, _ flush: [Int], bulk: Range<Int> = 0..<0, size: (Int) -> Int = { _ in 100 }
    ) -> [Int] {
        var written: [Int] = []
        var ids = flush.map(id)
        queue.take(&ids)
        #expect(ids.isEmpty)
        queue.writeSome {
            bulk.contains(Int($0.index))
        } write: {
            written.append(Int($0.index))
            return size(Int($0.index))
        }
        return written
    }

    @Test func smallOutputGoesFirst() {
        var queue = OutputQueue()
        #expect(turn(&queue, [1, 20, 2, 21, 3], bulk: 1..<9) == [20, 21, 1, 2, 3])
        #expect(queue.isEmpty)
    }

    @Test func bulkOutputTakesTurnsAndIsNotStarved() {
        var queue = OutputQueue()
        let size = { (index: Int) in index < 10 ? OutputQueue.bytes / 2 : OutputQueue.bytes / 8 }
        #expect(turn(&queue, [1, 2, 3, 4, 5], bulk: 1..<9, size: size) == [1, 2])
        #expect(!queue.isEmpty)
        // Small writes may use half of the turn's share.
        #expect(turn(&queue, Array(20..<30), bulk: 1..<9, size: size) == [20, 21, 22, 23, 3])
        #expect(turn(&queue, [30], bulk: 1..<9, size: size) == [24, 25, 26, 27, 4])
        #expect(turn(&queue, [], size: size) == [28, 29, 30, 5])
        #expect(queue.isEmpty)
    }

    @Test func smallOutputStaysAheadOfBulkInLaterTurns() {
        var queue = OutputQueue()
        let bulk = 10_000..<10_400
        let size = { (index: Int) in bulk.contains(index) ? OutputQueue.bytes / 2 : 100 }
        var (left, written) = (1000, turn(&queue, Array(bulk) + Array(0..<1000), bulk: bulk, size: size))
        while left > 0 {
            #expect(written.prefix { $0 < 1000 }.count >= min(left, OutputQueue.connections / 2))
            left -= written.count { $0 < 1000 }
            written = turn(&queue, [], size: size)
        }
        #expect(!queue.isEmpty && written.allSatisfy(bulk.contains))
    }

    @Test func oneTurnWritesToAFewConnections() {
        var queue = OutputQueue()
        let many = Array(0..<100_000)
        var written = turn(&queue, many)
        #expect(written == Array(0..<OutputQueue.connections))
        while !queue.isEmpty { written += turn(&queue, []) }
        #expect(written == many)
    }
}

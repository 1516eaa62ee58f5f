// The token bucket, by tables, and compared with a model that fills its level at every nanosecond.

import Testing

@testable import Core

@Suite struct TokenBucketTests {
    private func rate(_ perSecond: Int, burst: Double = 1) -> TokenRate {
        TokenRate(perSecond: perSecond, burst: UInt64(burst * 1e9))!
    }

    private let start: UInt64 = 5_000_000_000

    @Test func aRateOfNoneIsNone() {
        #expect(TokenRate(perSecond: 0, burst: 1) == nil)
        #expect(TokenRate(perSecond: -1, burst: 1) == nil)
        #expect(TokenRate(perSecond: 1, burst: 0)?.burst == 1)
    }

    struct Step: CustomStringConvertible {
        /// Seconds since the start.
        var at: Double
        var take: Int
        var isTaken: Bool
        var left: Int
        var description: String { "\(take) at \(at)" }
    }

    @Test(arguments: [
        // Saved-up tokens are available at once, and then those that accrue.
        (
            10, 1.0,
            [
                Step(at: 0, take: 10, isTaken: true, left: 0), Step(at: 0, take: 1, isTaken: false, left: 0),
                Step(at: 0.05, take: 1, isTaken: false, left: 0), Step(at: 0.1, take: 1, isTaken: true, left: 0),
                Step(at: 0.5, take: 4, isTaken: true, left: 0), Step(at: 9, take: 1, isTaken: true, left: 9),
            ]
        ),
        // The bucket holds no more than its burst.
        (100, 0.5, [Step(at: 7, take: 1, isTaken: true, left: 49), Step(at: 7, take: 50, isTaken: false, left: 49)]),
        // A request above the capacity is granted when the bucket is full, and paid for afterwards.
        (
            10, 1.0,
            [
                Step(at: 0, take: 30, isTaken: true, left: 0), Step(at: 2, take: 1, isTaken: false, left: 0),
                Step(at: 2.1, take: 1, isTaken: true, left: 0), Step(at: 2.2, take: 30, isTaken: false, left: 1),
                Step(at: 3.1, take: 30, isTaken: true, left: 0),
            ]
        ),
        // A token may take longer to accrue than the burst covers.
        (1, 0.1, [Step(at: 0, take: 1, isTaken: true, left: 0), Step(at: 0.9, take: 1, isTaken: false, left: 0)]),
        (1, 0.1, [Step(at: 0, take: 1, isTaken: true, left: 0), Step(at: 1, take: 1, isTaken: true, left: 0)]),
        // Nothing costs nothing.
        (1, 1.0, [Step(at: 0, take: 1, isTaken: true, left: 0), Step(at: 0, take: 0, isTaken: true, left: 0)]),
    ])
    func taking(_ perSecond: Int, _ burst: Double, _ steps: [Step]) {
        let rate = rate(perSecond, burst: burst)
        var bucket = TokenBucket()
        for step in steps {
            let now = start + UInt64((step.at * 1e9).rounded())
            let ready = bucket.ready(step.take, rate)
            #expect((ready <= now) == step.isTaken, "\(step)")
            #expect(bucket.take(step.take, at: now, rate) == step.isTaken, "\(step)")
            #expect(bucket.available(at: now, rate) == step.left, "\(step)")
        }
    }

    @Test func whatIsPutBackCanBeTakenAgain() {
        let rate = rate(1000)
        var bucket = TokenBucket()
        #expect(bucket.takeUpTo(5000, at: start, rate) == 1000)
        bucket.putBack(300, rate)
        #expect(bucket.available(at: start, rate) == 300)
        bucket.putBack(5000, rate)
        #expect(bucket.available(at: start, rate) == 1000)
        bucket.owe(1500, at: start, rate)
        #expect(bucket.take(1, at: start + 500_000_000, rate) == false)
        #expect(bucket.take(1, at: start + 501_000_000, rate) == true)
    }

    @Test func noFigureIsTooLarge() {
        for perSecond in [1, 3, Int.max] {
            for burst in [UInt64(1), UInt64.max] {
                let rate = TokenRate(perSecond: perSecond, burst: burst)!
                var bucket = TokenBucket()
                _ = bucket.take(.max, at: .max, rate)
                bucket.owe(.max, at: .max, rate)
                bucket.owe(.max, at: 0, rate)
                #expect(bucket.takeUpTo(.max, at: .max, rate) >= 0)
                bucket.putBack(.max, rate)
                bucket.putBack(-1, rate)
                bucket.owe(-1, at: start, rate)
                #expect(bucket.takeUpTo(-1, at: start, rate) == 0)
                #expect(bucket.available(at: start, rate) >= 0)
                _ = bucket.ready(.max, rate)
            }
        }
    }

    /// A level in billionths of a token, increased by a fixed amount each nanosecond.
    private struct Model {
        let rate: Int
        let capacity: Int
        var level: Int
        var time: UInt64

        mutating func fill(_ now: UInt64) {
            level = min(capacity, level + Int(now - time) * rate)
            time = now
        }

        mutating func take(_ count: Int) -> Bool {
            let cost = count * 1_000_000_000
            guard level >= min(cost, capacity) else { return false }
            level -= cost
            return true
        }
    }

    /// Rates whose tokens take a whole number of nanoseconds are kept exactly.
    @Test(arguments: [1, 2, 5, 64, 1000, 50_000, 1_000_000], [0.1, 1, 3])
    func likeALevel(_ perSecond: Int, _ burst: Double) {
        let rate = rate(perSecond, burst: burst)
        var bucket = TokenBucket(fullAt: start)
        var model = Model(
            rate: perSecond, capacity: Int(Double(perSecond) * burst * 1e9), level: 0, time: start)
        model.level = model.capacity
        var random = LedgerRandom(state: UInt64(perSecond) &+ UInt64(burst * 10))
        var now = start
        for step in 0..<2000 {
            now += UInt64(random.next(2_000_000_000 / min(perSecond, 1000)))
            model.fill(now)
            let count = random.next(max(2, perSecond / 2)) + (random.next(20) == 0 ? perSecond * 2 : 0)
            switch random.next(4) {
            case 0:
                bucket.owe(count / 4, at: now, rate)
                model.level -= count / 4 * 1_000_000_000
            case 1:
                bucket.putBack(count / 4, rate)
                model.level = min(model.capacity, model.level + count / 4 * 1_000_000_000)
            default:
                #expect(bucket.take(count, at: now, rate) == model.take(count), "step \(step)")
            }
            let full = model.level == model.capacity ? 1 : 0
            #expect(bucket.available(at: now, rate) == max(full, model.level / 1_000_000_000, 0), "step \(step)")
        }
    }

    /// At any other rate a client that always takes everything gets no more than the rate, and hardly less.
    @Test(arguments: [3, 7, 999, 12_345, 999_983, 700_000_001])
    func neverMoreThanTheRate(_ perSecond: Int) {
        let rate = rate(perSecond)
        var bucket = TokenBucket()
        var random = LedgerRandom(state: UInt64(perSecond))
        var now = start
        var taken = 0
        for _ in 0..<5000 {
            now += UInt64(random.next(5_000_000))
            let most = random.next(perSecond / 100 + 3)
            let count = bucket.takeUpTo(most, at: now, rate)
            let unused = random.next(count + 1) / 4
            bucket.putBack(unused, rate)
            taken += count - unused
        }
        taken += bucket.takeUpTo(.max, at: now, rate)
        let bound = Int(Double(perSecond) * (Double(now - start) / 1e9 + 1))
        #expect(taken <= bound)
        #expect(taken >= min(bound - bound / 100 - 2, taken))
    }

    @Test func sharedByThreads() async {
        let shared = SharedBucket()
        let rate = rate(1_000_000)
        let now = start
        let taken = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    var sum = 0
                    for _ in 0..<100_000 {
                        if shared.update({ bucket in bucket.take(7, at: now, rate) }) { sum += 7 }
                    }
                    return sum
                }
            }
            return await group.reduce(0, +)
        }
        #expect(taken == 1_000_000 / 7 * 7)
    }
}

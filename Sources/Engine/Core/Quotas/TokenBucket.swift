// TokenBucket: limits an amount that accrues at a steady rate and can be accumulated for a while. Its whole state is
// one instant, so shards can share a bucket as one atomic integer (SharedBucket):
//
//     now ──────── missing ────────▶ fullAt          missing = 0: full;  missing ≥ burst: empty;  beyond: in debt
//
// Each token corresponds to a span of time, 1 s / rate. Taking tokens advances `fullAt` by their time, and the passing
// of time refills the bucket.

import Synchronization

/// A rate, and for how long its tokens can be accumulated.
public struct TokenRate: Equatable, Sendable {
    /// Tokens that accrue per second; at least 1.
    public let perSecond: UInt64
    /// The capacity of a bucket, as the nanoseconds in which its tokens accrue; at least 1.
    public let burst: UInt64

    /// - Returns: nil for a rate of 0, which means unlimited.
    public init?(perSecond: Int, burst: UInt64) {
        guard perSecond > 0 else { return nil }
        self.perSecond = UInt64(perSecond)
        self.burst = Swift.max(1, burst)
    }

    /// The nanoseconds in which this many tokens accrue, rounded up so that the rate is never exceeded.
    func time(of tokens: Int) -> UInt64 {
        let (time, rest) = TokenRate.scale(UInt64(Swift.max(0, tokens)), by: Limits.second, over: perSecond)
        return rest > 0 && time < .max ? time + 1 : time
    }

    /// The nanoseconds in which this many tokens accrue, rounded down.
    func wholeTime(of tokens: Int) -> UInt64 {
        TokenRate.scale(UInt64(Swift.max(0, tokens)), by: Limits.second, over: perSecond).whole
    }

    /// The tokens that accrue in this many nanoseconds, rounded down.
    func tokens(in time: UInt64) -> Int {
        Int(clamping: TokenRate.scale(time, by: perSecond, over: Limits.second).whole)
    }

    /// `value * factor / divisor`; saturating.
    private static func scale(
        _ value: UInt64, by factor: UInt64, over divisor: UInt64
    ) -> (whole: UInt64, rest: UInt64) {
        let product = value.multipliedFullWidth(by: factor)
        guard product.high < divisor else { return (.max, 0) }
        let (quotient, remainder) = divisor.dividingFullWidth(product)
        return (quotient, remainder)
    }
}

public struct TokenBucket: Equatable, Sendable {
    /// The time from which the bucket is full, in nanoseconds on a clock that never goes back.
    public private(set) var fullAt: UInt64

    /// A bucket that is full from `fullAt` on; by default it starts full.
    public init(fullAt: UInt64 = 0) { self.fullAt = fullAt }

    private func missing(_ now: UInt64) -> UInt64 { fullAt > now ? fullAt - now : 0 }

    /// Tokens that can be taken now. A full bucket has at least one, however slowly they accrue.
    public func available(at now: UInt64, _ rate: TokenRate) -> Int {
        let missing = missing(now)
        guard missing < rate.burst else { return 0 }
        return Swift.max(missing == 0 ? 1 : 0, rate.tokens(in: rate.burst - missing))
    }

    /// Takes `count` tokens if available. More than the capacity can be taken from a full bucket, which leaves it in
    /// debt: large messages are rare, not impossible.
    public mutating func take(_ count: Int, at now: UInt64, _ rate: TokenRate) -> Bool {
        let cost = rate.time(of: count)
        guard missing(now) <= rate.burst - Swift.min(cost, rate.burst) else { return false }
        advance(by: cost, now)
        return true
    }

    /// Takes as many tokens as are available, at most `count`. Returns how many.
    public mutating func takeUpTo(_ count: Int, at now: UInt64, _ rate: TokenRate) -> Int {
        let taken = Swift.min(Swift.max(0, count), available(at: now, rate))
        advance(by: rate.time(of: taken), now)
        return taken
    }

    /// Takes `count` tokens whether they are available or not.
    public mutating func owe(_ count: Int, at now: UInt64, _ rate: TokenRate) {
        advance(by: rate.time(of: count), now)
    }

    /// Puts back tokens that were taken and not needed.
    public mutating func putBack(_ count: Int, _ rate: TokenRate) {
        fullAt -= Swift.min(fullAt, rate.wholeTime(of: count))
    }

    /// The time from which `count` tokens can be taken, if no others are taken in the meantime.
    public func ready(_ count: Int, _ rate: TokenRate) -> UInt64 {
        let saved = rate.burst - Swift.min(rate.time(of: count), rate.burst)
        return fullAt - Swift.min(fullAt, saved)
    }

    private mutating func advance(by time: UInt64, _ now: UInt64) {
        guard time > 0 else { return }
        let (moment, overflow) = Swift.max(fullAt, now).addingReportingOverflow(time)
        fullAt = overflow ? .max : moment
    }
}

/// A bucket shared by several shards.
final class SharedBucket: Sendable {
    private let fullAt = Atomic<UInt64>(0)

    var bucket: TokenBucket { TokenBucket(fullAt: fullAt.load(ordering: .relaxed)) }

    /// Updates the bucket atomically. `body` may be called several times.
    @discardableResult
    @inline(__always)
    func update<Result>(_ body: (inout TokenBucket) -> Result) -> Result {
        var known = fullAt.load(ordering: .relaxed)
        while true {
            var bucket = TokenBucket(fullAt: known)
            let result = body(&bucket)
            guard bucket.fullAt != known else { return result }
            let (done, found) = fullAt.compareExchange(expected: known, desired: bucket.fullAt, ordering: .relaxed)
            if done { return result }
            known = found
        }
    }
}

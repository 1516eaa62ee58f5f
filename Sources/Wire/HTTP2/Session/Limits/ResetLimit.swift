// ResetLimit: against rapid reset (CVE-2023-44487) – a stream that is opened and reset at once costs its peer nothing
// and is below every limit on open streams. What the peer makes us reset counts as if it had done so itself. A stream
// whose response had begun was no such: its reset is how a client ends a subscription, and is not counted.

struct ResetLimit {
    private var meter: RateMeter
    private let error: HTTP2Error

    init(_ limits: HTTP2Limits) {
        meter = RateMeter(limit: limits.maxResets, window: limits.window)
        error = .limit(
            .resets,
            "More than \(limits.maxResets) streams were refused, or reset before they had a response, in "
                + "\(limits.window / 1_000_000_000) s: await responses, or open fewer.")
    }

    mutating func count(now: UInt64) -> HTTP2Error? {
        meter.count(now: now) ? nil : error
    }
}

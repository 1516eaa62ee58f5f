// ResetLimit: guards against rapid reset (CVE-2023-44487). A stream that is opened and reset at once costs its peer
// nothing and stays below every limit on open streams. Resets that the peer forces us to send count as its own. The
// reset of a stream whose response has begun does not count: that is how a client ends a subscription.

struct ResetLimit {
    private var meter: EventRate
    private let error: HTTP2Error

    init(_ limits: HTTP2Limits) {
        meter = EventRate(limit: limits.maxResets, window: limits.window)
        error = .limit(
            .resets,
            "More than \(limits.maxResets) streams were refused, or reset before they had a response, within "
                + "\(limits.window / 1_000_000_000) s; wait for responses, or open fewer.")
    }

    mutating func count(now: UInt64) -> HTTP2Error? {
        meter.count(now: now) ? nil : error
    }
}

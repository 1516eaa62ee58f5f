// ControlLimits: guards against floods of frames that are free for the peer to send but cost us work to read or answer:
// PING, SETTINGS, PRIORITY, WINDOW_UPDATE, and frames without effect. Busy clients earn an allowance for such frames:
// they send a PING to measure the path, or a WINDOW_UPDATE, with the data that they receive.

struct ControlLimits {
    private var pings: EarnedRate
    private var settings: EventRate
    private var priorities: EarnedRate
    private var windowUpdates: EarnedRate
    private var meaningless: EventRate
    private let limits: HTTP2Limits

    init(_ limits: HTTP2Limits) {
        self.limits = limits
        pings = EarnedRate(limit: limits.maxPings, window: limits.window)
        settings = EventRate(limit: limits.maxSettings, window: limits.window)
        priorities = EarnedRate(limit: limits.maxPriorities, window: limits.window)
        windowUpdates = EarnedRate(limit: limits.maxWindowUpdates, window: limits.window)
        meaningless = EventRate(limit: limits.maxMeaningless, window: limits.window)
    }

    /// A DATA frame of `length` bytes was sent.
    mutating func sentData(_ length: Int) {
        pings.earn(1)
        windowUpdates.earn(2 + length >> 10)
    }

    mutating func sentHeaders() { pings.earn(1) }

    mutating func receivedRequest() {
        priorities.earn(2)
        windowUpdates.earn(2)
    }

    mutating func count(_ head: FrameHead, now: UInt64) -> HTTP2Error? {
        switch head.type {
        case FrameHead.Kind.data where head.length > 0:
            // Clients send WINDOW_UPDATEs together with their own data.
            windowUpdates.earn(1)
            return nil
        case FrameHead.Kind.data, FrameHead.Kind.headers, FrameHead.Kind.resetStream, FrameHead.Kind.continuation:
            return nil
        case FrameHead.Kind.ping:
            return pings.count(now: now) ? nil : flood(.pings, "PING", limits.maxPings)
        case FrameHead.Kind.settings where head.flags & FrameHead.ack == 0:
            return settings.count(now: now) ? nil : flood(.settings, "SETTINGS", limits.maxSettings)
        case FrameHead.Kind.priority, FrameHead.Kind.priorityUpdate:
            return priorities.count(now: now) ? nil : flood(.priorities, "PRIORITY", limits.maxPriorities)
        case FrameHead.Kind.windowUpdate:
            return windowUpdates.count(now: now)
                ? nil : flood(.windowUpdates, "WINDOW_UPDATE", limits.maxWindowUpdates)
        default:
            return countMeaningless(now: now)
        }
    }

    mutating func countMeaningless(now: UInt64) -> HTTP2Error? {
        meaningless.count(now: now) ? nil : flood(.meaningless, "meaningless", limits.maxMeaningless)
    }

    private func flood(_ limit: HTTP2Limit, _ name: String, _ most: Int) -> HTTP2Error {
        .limit(
            limit,
            "More than \(most) \(name) frames were sent within \(limits.window / 1_000_000_000) s; send fewer.")
    }
}

// TopicUsage: since when a topic has been idle. Idle topics are removed, or their messages leave memory.

/// When a topic was used, on the monotonic clock.
struct TopicUsage {
    let madeAt: UInt64
    /// When a message arrived or a subscription progressed.
    private(set) var lastUsed: UInt64
    /// Since when it has had neither publishers nor subscribers; nil while it has some.
    private(set) var idleSince: UInt64?

    init(madeAt now: UInt64) {
        madeAt = now
        lastUsed = now
        idleSince = now
    }

    mutating func noteMessages(now: UInt64) {
        lastUsed = now
        if idleSince != nil { idleSince = now }
    }

    mutating func noteUse(now: UInt64) { lastUsed = now }
    mutating func noteIdle(_ isIdle: Bool, now: UInt64) { idleSince = isIdle ? idleSince ?? now : nil }
    mutating func noteSubscription() { idleSince = nil }
}

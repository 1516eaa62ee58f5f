// BlockedTime: how long publishers of a topic have waited for room.

struct BlockedTime {
    /// When the current wait began, on the monotonic clock; nil while no publisher waits.
    private(set) var since: UInt64?
    /// Nanoseconds of the waits before `since`.
    private var before: UInt64 = 0

    /// Returns whether the state has changed.
    mutating func note(_ isBlocked: Bool, now: UInt64) -> Bool {
        guard isBlocked != (since != nil) else { return false }
        before = total(now: now)
        since = isBlocked ? now : nil
        return true
    }

    /// Total nanoseconds.
    func total(now: UInt64) -> UInt64 { before &+ current(now: now) }
    /// Nanoseconds since the current wait began; 0 if none waits.
    func current(now: UInt64) -> UInt64 { since.map { now - Swift.min($0, now) } ?? 0 }
}

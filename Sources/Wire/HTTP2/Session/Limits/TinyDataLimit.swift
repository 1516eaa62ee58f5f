// TinyDataLimit: guards against a slow reader (CVE-2019-9511) that opens its windows by a few bytes at a time, so
// a long body costs us a frame for each few bytes. A frame cut short by such a window needs a token; without one, the
// stream waits for more room or for the next token. A reader with small windows is thus served slowly, and a reader
// whose window just happens to end within a few bytes is not affected.

struct TinyDataLimit {
    private var tokens: Int
    private var refilled: UInt64 = 0
    private let burst: Int
    private let interval: UInt64

    init(_ limits: HTTP2Limits) {
        burst = max(1, limits.tinyBurst)
        tokens = burst
        interval = max(1, limits.tinyInterval)
    }

    /// When the next token is available, if none is left.
    var next: UInt64? { tokens > 0 ? nil : refilled &+ interval }

    /// Takes a token. Returns false if there is none.
    mutating func take(now: UInt64) -> Bool {
        if now > refilled {
            let grown = (now - refilled) / interval
            if grown >= UInt64(burst - tokens) {
                tokens = burst
                refilled = now
            } else {
                tokens += Int(grown)
                refilled += grown * interval
            }
        }
        guard tokens > 0 else { return false }
        tokens -= 1
        return true
    }
}

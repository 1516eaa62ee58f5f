// EmptyDataLimit: guards against DATA frames that carry nothing and end nothing (CVE-2019-9518), because no window
// bounds them. Frames with only padding count too, since padding is returned to the window at once.

struct EmptyDataLimit {
    private var inRow = 0
    private let limit: Int

    init(_ limits: HTTP2Limits) { limit = limits.maxEmptyData }

    /// Restarts the count, after a frame with content or one that opens or ends a stream.
    mutating func reset() { inRow = 0 }

    mutating func countEmpty() -> HTTP2Error? {
        inRow += 1
        guard inRow > limit else { return nil }
        return .limit(
            .emptyData,
            "More than \(limit) consecutive DATA frames were empty and ended no stream; do not send them.")
    }
}

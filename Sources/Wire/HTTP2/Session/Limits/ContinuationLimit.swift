// ContinuationLimit: guards against header sections that never end (CVE-2024-27316 and similar). nghttp2 has its own
// limit, but counts a frame once for each read that its header is spread over.

struct ContinuationLimit {
    private var inRow = 0
    private let limit: Int

    init(_ limits: HTTP2Limits) { limit = limits.maxContinuations }

    mutating func count(_ head: FrameHead) -> HTTP2Error? {
        guard head.type == FrameHead.Kind.continuation else {
            inRow = 0
            return nil
        }
        inRow += 1
        guard inRow > limit else { return nil }
        return .limit(
            .continuations, "A header section has more than \(limit) CONTINUATION frames; send fewer or shorter fields."
        )
    }
}

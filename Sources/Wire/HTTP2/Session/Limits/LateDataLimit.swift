// LateDataLimit: bounds body bytes on streams that have ended. A peer that does not yet know of a stream's end may send
// what the stream's window still allowed. More than that comes from a peer that ignores the end.

import ForebayWire

struct LateDataLimit {
    private var allowance = 0
    private let most: Int

    init(_ limits: HTTP2Limits) {
        let (product, overflow) = limits.maxStreams.multipliedReportingOverflow(by: 2 * limits.streamWindow)
        most = overflow ? .max / 2 : product
    }

    /// Notes that a stream ended; the peer may still have sent `window` bytes on it.
    mutating func ended(window: Int) {
        allowance = min(allowance + max(0, window), most)
    }

    mutating func count(_ bytes: Int) -> HTTP2Error? {
        allowance -= bytes
        guard allowance < 0 else { return nil }
        return HTTP2Error(
            .streamClosed,
            ErrorWord.protocol.text(
                "More DATA was sent on ended streams than was in flight; stop sending after RST_STREAM."),
            limit: .lateData)
    }
}

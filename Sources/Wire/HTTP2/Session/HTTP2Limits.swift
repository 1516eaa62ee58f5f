// HTTP2Limits: the limits of one HTTP/2 connection.

/// Limits of a connection; sizes are bytes unless the name says otherwise. Rates are counts within `window`, so a
/// connection can live forever at any rate below them.
public struct HTTP2Limits: Sendable {
    /// Open streams, announced to the peer as SETTINGS_MAX_CONCURRENT_STREAMS. Any further stream is refused with
    /// REFUSED_STREAM (RFC 9113, 5.1.2); the connection continues. A client opens no more itself.
    public var maxStreams = 1_000
    /// What a peer may send on a stream before it is consumed (SETTINGS_INITIAL_WINDOW_SIZE): 1 to 2³¹−1.
    public var streamWindow = 256 << 10
    /// What a peer may send on all streams together before it is consumed: 65,535 to 2³¹−1. The owner may have to
    /// buffer this much for one connection.
    public var connectionWindow = 4 << 20
    /// The longest frame that a peer may send (SETTINGS_MAX_FRAME_SIZE): 16,384 to 2²⁴−1 (RFC 9113, 4.2).
    public var maxFrame = 16 << 10
    /// A header section: names, values and 32 bytes for each field (RFC 9113, 6.5.2). A longer one gets a 431.
    public var maxHeaderList = 16 << 10
    /// A header section of this many times `maxHeaderList` ends the connection: compression can expand few bytes to
    /// many.
    public static let headerBombFactor = 16

    /// The time over which rates are counted, in nanoseconds.
    public var window: UInt64 = 30_000_000_000
    /// RST_STREAM frames from the peer for streams without a response, and streams that end because of its errors
    /// (CVE-2023-44487): 33 a second, nghttp2's default. Streams whose response has begun may be reset freely, since
    /// nothing else ends a subscription.
    public var maxResets = 1_000
    /// CONTINUATION frames of one header section (CVE-2024-27316 and similar).
    public var maxContinuations = 5
    /// Consecutive DATA frames that carry nothing and end nothing (CVE-2019-9518). Some clients use them to flush.
    public var maxEmptyData = 16
    /// PING frames, in addition to one for each DATA and HEADERS frame sent (CVE-2019-9512).
    public var maxPings = 200
    /// SETTINGS frames, not counting acknowledgements (CVE-2019-9515).
    public var maxSettings = 100
    /// PRIORITY and PRIORITY_UPDATE frames, in addition to two for each request (CVE-2019-9513). These frames are
    /// ignored.
    public var maxPriorities = 200
    /// WINDOW_UPDATE frames, in addition to two for each request, two for each DATA frame sent and one for each KiB of
    /// it, and one for each non-empty DATA frame received.
    public var maxWindowUpdates = 2_000
    /// Frames without effect: those of unknown type, those on streams that ended long ago (including their resets), and
    /// further GOAWAYs.
    public var maxMeaningless = 2_000
    /// If the peer's window would cut DATA to fewer bytes than this, the stream waits for more room (CVE-2019-9511).
    public var tinyData = 512
    /// Shorter DATA frames that may be sent anyway: this many at once…
    public var tinyBurst = 16
    /// …and then one per this many nanoseconds.
    public var tinyInterval: UInt64 = 100_000_000

    /// Answers to PING and SETTINGS waiting for `produce`; one more ends the connection.
    public static let maxWaitingAnswers = 1_000
    /// The longest DATA frame sent, whatever the peer allows, so that streams take turns often.
    public static let maxDataFrame = 16 << 10
    /// `produce` cuts a DATA frame to its remaining budget, but not below this.
    public static let minDataFrame = 1 << 10
    /// Text of a peer's GOAWAY; the rest is cut off.
    public static let maxPeerText = 1 << 10

    public init() {}

    /// The limits that a client applies to a server. What would be an attack by a client is normal for a server, which
    /// may reset every call that it refuses.
    public static var client: HTTP2Limits {
        var limits = HTTP2Limits()
        limits.streamWindow = 1 << 20
        limits.maxResets = 10_000
        limits.maxMeaningless = 10_000
        return limits
    }
}

// The bounds that one HTTP/2 connection is held to.

/// Limits of a connection; sizes in bytes unless the name says otherwise. Rates are counts within `window`, so that a
/// connection may live for ever at any rate below them.
public struct HTTP2Limits: Sendable {
    /// Streams open at a time, told to the peer as SETTINGS_MAX_CONCURRENT_STREAMS. One more is refused alone, by
    /// REFUSED_STREAM (RFC 9113, 5.1.2). A client opens no more itself.
    public var maxStreams = 1_000
    /// What a peer may send on a stream before it is consumed (SETTINGS_INITIAL_WINDOW_SIZE): 1 to 2³¹−1.
    public var streamWindow = 256 << 10
    /// What a peer may send on all streams together before it is consumed: 65,535 to 2³¹−1. This much of one
    /// connection's bytes the owner may have to keep.
    public var connectionWindow = 4 << 20
    /// The longest frame that a peer may send (SETTINGS_MAX_FRAME_SIZE): 16,384 to 2²⁴−1 (RFC 9113, 4.2).
    public var maxFrame = 16 << 10
    /// A header section: names, values and 32 for each field (RFC 9113, 6.5.2). A longer one is answered with 431.
    public var maxHeaderList = 16 << 10
    /// A header section of this many times `maxHeaderList` ends the connection: compression lets few bytes stand for
    /// many.
    public static let headerBombFactor = 16

    /// The time over which rates are counted, in nanoseconds.
    public var window: UInt64 = 30_000_000_000
    /// RST_STREAM frames of the peer for streams that had no response yet, and streams that end by its errors
    /// (CVE-2023-44487): 33 a second, as nghttp2 has it by default. Streams whose response had begun are free to be
    /// reset: nothing else ends a subscription.
    public var maxResets = 1_000
    /// CONTINUATION frames to one header section (CVE-2024-27316 and its like).
    public var maxContinuations = 5
    /// DATA frames in a row that hold nothing and end nothing (CVE-2019-9518). Some clients flush by them.
    public var maxEmptyData = 16
    /// PING frames, beside one for each DATA and HEADERS frame sent (CVE-2019-9512).
    public var maxPings = 200
    /// SETTINGS frames, answers aside (CVE-2019-9515).
    public var maxSettings = 100
    /// PRIORITY and PRIORITY_UPDATE frames, beside two for each request (CVE-2019-9513). They mean nothing here.
    public var maxPriorities = 200
    /// WINDOW_UPDATE frames, beside two for each request, two for each DATA frame sent and one for each KiB of it, and
    /// one for each DATA frame received that holds something.
    public var maxWindowUpdates = 2_000
    /// Frames that mean nothing here: of unknown type, of streams long gone – their resets too –, further GOAWAYs.
    public var maxMeaningless = 2_000
    /// Where the peer's window cuts DATA shorter than this, the rest of the window is waited for (CVE-2019-9511).
    public var tinyData = 512
    /// DATA frames shorter than that, which may go all the same: so many at once…
    public var tinyBurst = 16
    /// …and then one each so many nanoseconds.
    public var tinyInterval: UInt64 = 100_000_000

    /// Answers to PING and SETTINGS that wait to be taken by `produce`; one more ends the connection.
    public static let maxWaitingAnswers = 1_000
    /// DATA frames are at most this long, whatever the peer allows, so that streams take turns often.
    public static let maxDataFrame = 16 << 10
    /// `produce` cuts a DATA frame to what it has left to produce, but not below this.
    public static let minDataFrame = 1 << 10
    /// Text of a peer's GOAWAY; what goes beyond is cut off.
    public static let maxPeerText = 1 << 10

    public init() {}

    /// As a client holds a server to. What would be an attack by a client is how a server ends things: it may reset
    /// every call that it refuses.
    public static var client: HTTP2Limits {
        var limits = HTTP2Limits()
        limits.streamWindow = 1 << 20
        limits.maxResets = 10_000
        limits.maxMeaningless = 10_000
        return limits
    }
}

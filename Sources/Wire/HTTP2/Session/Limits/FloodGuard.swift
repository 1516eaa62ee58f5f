// FloodGuard: the limits against attacks, checked once for each received frame, and their counters.

/// Counters of a connection since it began.
public struct HTTP2Counters: Equatable, Sendable {
    /// Frames received, of any type.
    public var frames: UInt64 = 0
    /// Requests delivered to the owner.
    public var requests: UInt64 = 0
    /// RST_STREAM frames received.
    public var resets: UInt64 = 0
    /// Streams ended because of the peer's errors, including those over `maxStreams` and `maxHeaderList`.
    public var streamErrors: UInt64 = 0
    /// Streams refused because `maxStreams` were open.
    public var refused: UInt64 = 0
    /// Requests answered with 431.
    public var tooLargeHeaders: UInt64 = 0
    /// Bytes of body discarded because their stream had ended.
    public var lateBytes: UInt64 = 0
    public var continuations: UInt64 = 0
    public var emptyData: UInt64 = 0
    public var pings: UInt64 = 0
    public var settings: UInt64 = 0
    public var priorities: UInt64 = 0
    public var windowUpdates: UInt64 = 0
    /// DATA frames held back because the peer's window was tiny.
    public var heldData: UInt64 = 0
    /// The limit that ended the connection, if any.
    public var broken: HTTP2Limit?
}

struct FloodGuard {
    var counters = HTTP2Counters()
    var tiny: TinyDataLimit
    private var resets: ResetLimit
    private var continuations: ContinuationLimit
    private var emptyData: EmptyDataLimit
    private var lateData: LateDataLimit
    private var control: ControlLimits

    init(_ limits: HTTP2Limits) {
        tiny = TinyDataLimit(limits)
        resets = ResetLimit(limits)
        continuations = ContinuationLimit(limits)
        emptyData = EmptyDataLimit(limits)
        lateData = LateDataLimit(limits)
        control = ControlLimits(limits)
    }

    // MARK: Received

    /// Counts a frame before it is read.
    ///
    /// - Parameters:
    ///   - late: whether the frame's stream was once open but no longer is.
    ///   - answered: whether the frame's stream is open and has a response.
    mutating func received(_ head: FrameHead, late: Bool, answered: Bool, now: UInt64) -> HTTP2Error? {
        counters.frames += 1
        if let error = continuations.count(head) ?? control.count(head, now: now) { return error }
        switch head.type {
        case FrameHead.Kind.data:
            if late {
                counters.lateBytes += UInt64(head.length)
                if let error = lateData.count(head.length) { return error }
            }
            if head.length == 0 && head.flags & FrameHead.endStream == 0 { return receivedEmptyData() }
        // A frame may consist of padding only: `receivedData` handles that.
        case FrameHead.Kind.headers:
            emptyData.reset()
            if late { return control.countMeaningless(now: now) }
        case FrameHead.Kind.continuation: counters.continuations += 1
        case FrameHead.Kind.resetStream:
            counters.resets += 1
            // An ended stream had a response, or was counted when it was refused.
            if late { return control.countMeaningless(now: now) }
            return answered ? nil : resets.count(now: now)
        case FrameHead.Kind.ping: counters.pings += 1
        case FrameHead.Kind.settings: counters.settings += 1
        case FrameHead.Kind.priority, FrameHead.Kind.priorityUpdate: counters.priorities += 1
        case FrameHead.Kind.windowUpdate: counters.windowUpdates += 1
        default: break
        }
        return nil
    }

    mutating func receivedRequest() {
        counters.requests += 1
        control.receivedRequest()
    }

    /// Notes that a DATA frame had content or ended its stream.
    mutating func receivedData() { emptyData.reset() }

    mutating func receivedEmptyData() -> HTTP2Error? {
        counters.emptyData += 1
        return emptyData.countEmpty()
    }

    /// Counts an error of the peer that ends its stream.
    mutating func streamError(now: UInt64) -> HTTP2Error? {
        counters.streamErrors += 1
        return resets.count(now: now)
    }

    /// Notes that a stream ended; the peer may still have sent `window` bytes on it.
    mutating func streamEnded(window: Int) { lateData.ended(window: window) }

    // MARK: Sent

    mutating func sentData(_ length: Int) { control.sentData(length) }
    mutating func sentHeaders() { control.sentHeaders() }
}

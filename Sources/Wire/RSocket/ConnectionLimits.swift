// ConnectionLimits: the limits of one RSocket connection.

/// Limits of a connection, in bytes unless the name says otherwise.
public struct ConnectionLimits: Sendable {
    /// Data of one reassembled request or item.
    public var maxPayload = 1 << 20
    /// Metadata of one reassembled request, item or METADATA_PUSH.
    public var maxMetadata = 64 << 10
    public var maxKeepaliveData = 1 << 10
    /// Length of the SETUP frame.
    public var maxSetup = 16 << 10
    /// Length of the token in a RESUME frame.
    public var maxResumeToken = 128
    /// What a client may send after SETUP, before SETUP is accepted.
    public var maxHeld = 256 << 10
    /// All unfinished fragmented messages of the connection together, including `partialOverhead` for each.
    public var maxReassembly = 4 << 20
    /// Number of unfinished fragmented messages.
    public var maxPartials = 256
    /// Number of open streams.
    public var maxStreams = 10_000

    /// Data of an item that may be part of a run; a longer item gets a separate event. A negative value disables runs.
    public var maxRunData = 64 << 10

    /// Charged for an unfinished fragmented message in addition to its bytes.
    public static let partialOverhead = 256
    /// Text of a peer's ERROR; the rest is cut off.
    public static let maxErrorText = 4 << 10

    public init() {}

    /// The longest RESUME frame.
    var maxResume: Int { Wire.headerSize + 22 + maxResumeToken }

    /// The longest request or PAYLOAD frame within the limits, whatever its fields.
    var maxMessageFrame: Int {
        let (sum, overflow) = maxPayload.addingReportingOverflow(maxMetadata)
        return overflow ? Wire.maxFrame : min(sum, Wire.maxFrame) + Wire.headerSize + 4 + 3
    }
}

// The bounds that one RSocket connection is held to.

/// Limits of a connection, in bytes unless the name says otherwise.
public struct ConnectionLimits: Sendable {
    /// Data of one request or item, reassembled.
    public var maxPayload = 1 << 20
    /// Metadata of one request, item or METADATA_PUSH, reassembled.
    public var maxMetadata = 64 << 10
    public var maxKeepaliveData = 1 << 10
    /// The SETUP frame.
    public var maxSetup = 16 << 10
    /// The token of a RESUME frame.
    public var maxResumeToken = 128
    /// What a client may send behind SETUP before that is accepted.
    public var maxHeld = 256 << 10
    /// All unfinished fragmented messages of the connection together, `partialOverhead` for each included.
    public var maxReassembly = 4 << 20
    /// Unfinished fragmented messages at a time.
    public var maxPartials = 256
    /// Streams at a time.
    public var maxStreams = 10_000

    /// Data of an item that may be part of a run; a longer one is told by itself. Less than 0: there are no runs.
    public var maxRunData = 64 << 10

    /// What an unfinished fragmented message is charged beside its bytes.
    public static let partialOverhead = 256
    /// The text of a peer's ERROR; what goes beyond is cut off.
    public static let maxErrorText = 4 << 10

    public init() {}

    /// The longest RESUME frame.
    var maxResume: Int { Wire.headerSize + 22 + maxResumeToken }

    /// The longest request or PAYLOAD frame that can be within the limits, whatever its fields.
    var maxMessageFrame: Int {
        let (sum, overflow) = maxPayload.addingReportingOverflow(maxMetadata)
        return overflow ? Wire.maxFrame : min(sum, Wire.maxFrame) + Wire.headerSize + 4 + 3
    }
}

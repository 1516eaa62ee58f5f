// FrameType: the numbers of RSocket 1.0 – frame types, flags and error codes.

/// The type of a frame: six bits in its header.
public enum FrameType: UInt8, Sendable, CaseIterable {
    case setup = 0x01
    case lease = 0x02
    case keepalive = 0x03
    case requestResponse = 0x04
    case requestFNF = 0x05
    case requestStream = 0x06
    case requestChannel = 0x07
    case requestN = 0x08
    case cancel = 0x09
    case payload = 0x0a
    case error = 0x0b
    case metadataPush = 0x0c
    case resume = 0x0d
    case resumeOK = 0x0e
    case ext = 0x3f

    /// The name in the specification, for error messages.
    public var name: String {
        switch self {
        case .setup: "SETUP"
        case .lease: "LEASE"
        case .keepalive: "KEEPALIVE"
        case .requestResponse: "REQUEST_RESPONSE"
        case .requestFNF: "REQUEST_FNF"
        case .requestStream: "REQUEST_STREAM"
        case .requestChannel: "REQUEST_CHANNEL"
        case .requestN: "REQUEST_N"
        case .cancel: "CANCEL"
        case .payload: "PAYLOAD"
        case .error: "ERROR"
        case .metadataPush: "METADATA_PUSH"
        case .resume: "RESUME"
        case .resumeOK: "RESUME_OK"
        case .ext: "EXT"
        }
    }
}

/// The ten flag bits of a frame's header. Some share a bit because they belong to different frame types.
public struct FrameFlags: OptionSet, Sendable, Equatable {
    public var rawValue: UInt16

    public init(rawValue: UInt16) { self.rawValue = rawValue }

    /// I: a receiver that does not understand the frame may ignore it.
    public static let ignore = FrameFlags(rawValue: 0x200)
    /// M: metadata is present, possibly empty.
    public static let metadata = FrameFlags(rawValue: 0x100)
    /// F, in requests and PAYLOAD: more fragments follow.
    public static let follows = FrameFlags(rawValue: 0x080)
    /// R, in SETUP: a resume token is present.
    public static let resume = FrameFlags(rawValue: 0x080)
    /// R, in KEEPALIVE: the receiver must answer.
    public static let respond = FrameFlags(rawValue: 0x080)
    /// C, in REQUEST_CHANNEL and PAYLOAD: the sender's half is complete.
    public static let complete = FrameFlags(rawValue: 0x040)
    /// L, in SETUP: the client honors LEASE.
    public static let lease = FrameFlags(rawValue: 0x040)
    /// N, in PAYLOAD: the frame carries an item.
    public static let next = FrameFlags(rawValue: 0x020)
}

/// Why a stream or a connection ended. The list holds only codes that every client knows: rsocket-py drops an ERROR
/// with any other code and leaves its stream hanging.
public enum ErrorCode: UInt32, Sendable, CaseIterable {
    case invalidSetup = 0x001
    case unsupportedSetup = 0x002
    case rejectedSetup = 0x003
    case rejectedResume = 0x004
    case connectionError = 0x101
    case connectionClose = 0x102
    case applicationError = 0x201
    case rejected = 0x202
    case canceled = 0x203
    case invalid = 0x204

    /// The name in the specification.
    public var name: String {
        switch self {
        case .invalidSetup: "INVALID_SETUP"
        case .unsupportedSetup: "UNSUPPORTED_SETUP"
        case .rejectedSetup: "REJECTED_SETUP"
        case .rejectedResume: "REJECTED_RESUME"
        case .connectionError: "CONNECTION_ERROR"
        case .connectionClose: "CONNECTION_CLOSE"
        case .applicationError: "APPLICATION_ERROR"
        case .rejected: "REJECTED"
        case .canceled: "CANCELED"
        case .invalid: "INVALID"
        }
    }
}

/// Sizes and limits of the wire format.
public enum Wire {
    /// Bytes of the length that precedes each frame on TCP.
    public static let lengthSize = 3
    /// Bytes of a frame's header.
    public static let headerSize = 6
    /// The longest frame, without its length.
    public static let maxFrame = 0xff_ffff
    /// The largest u31. It masks off reserved top bits, and as a REQUEST_N it means "unbounded".
    public static let maxU31: UInt32 = 0x7fff_ffff
    /// The smallest fragment size that every client accepts.
    public static let minFragment = 64
}

// GRPCStatus: how calls end: gRPC's status codes, the only error type for gRPC, and the encoding of status texts.

import ForebayWire

/// gRPC's status codes, all 17 of them. "Broker" says when the broker ends calls with a code.
public enum GRPCStatus: UInt8, Sendable, CaseIterable {
    /// Broker: the topic completed, or the client half-closed and its credit is used up.
    case ok = 0
    case cancelled = 1
    case unknown = 2
    /// Broker: an invalid name, option, value or demand; malformed bytes.
    case invalidArgument = 3
    /// Broker: `grpc-timeout` expired, or a message was not complete in time.
    case deadlineExceeded = 4
    /// Broker: no such topic, subscription or connection (Admin), no such service (Health).
    case notFound = 5
    case alreadyExists = 6
    /// Broker: not allowed.
    case permissionDenied = 7
    /// Broker: overflow, a limit exceeded, a message too large, or no room in time.
    case resourceExhausted = 8
    /// Broker: an ended topic, a gap with `gap_fail`, messages beyond the granted credit.
    case failedPrecondition = 9
    /// Broker: a failed topic, or a subscription closed by an operator.
    case aborted = 10
    case outOfRange = 11
    /// Broker: an unknown service or method, compression.
    case unimplemented = 12
    /// Broker: a message truncated by the end of its stream.
    case `internal` = 13
    /// Broker: draining, busy with logins, or the connection ends.
    case unavailable = 14
    case dataLoss = 15
    /// Broker: credentials are missing or wrong.
    case unauthenticated = 16

    /// The name as gRPC spells it, such as `INVALID_ARGUMENT`.
    public var name: String {
        switch self {
        case .ok: "OK"
        case .cancelled: "CANCELLED"
        case .unknown: "UNKNOWN"
        case .invalidArgument: "INVALID_ARGUMENT"
        case .deadlineExceeded: "DEADLINE_EXCEEDED"
        case .notFound: "NOT_FOUND"
        case .alreadyExists: "ALREADY_EXISTS"
        case .permissionDenied: "PERMISSION_DENIED"
        case .resourceExhausted: "RESOURCE_EXHAUSTED"
        case .failedPrecondition: "FAILED_PRECONDITION"
        case .aborted: "ABORTED"
        case .outOfRange: "OUT_OF_RANGE"
        case .unimplemented: "UNIMPLEMENTED"
        case .internal: "INTERNAL"
        case .unavailable: "UNAVAILABLE"
        case .dataLoss: "DATA_LOSS"
        case .unauthenticated: "UNAUTHENTICATED"
        }
    }
}

extension GRPCStatus {
    /// The word of errors with this status that say nothing else.
    fileprivate var word: ErrorWord {
        switch self {
        case .invalidArgument, .outOfRange, .unknown: .invalid
        case .deadlineExceeded: .timeout
        case .notFound: .notFound
        case .alreadyExists, .failedPrecondition: .ended
        case .permissionDenied: .forbidden
        case .unauthenticated: .unauthenticated
        case .resourceExhausted: .tooLarge
        case .aborted: .topicFailed
        case .unimplemented: .unsupported
        case .internal, .dataLoss: .protocol
        case .unavailable: .draining
        case .ok, .cancelled: .unavailable
        }
    }
}

/// Why a call ends. The error ends only the call's stream: no gRPC error ends the connection.
public struct GRPCError: Error, Equatable, Sendable {
    public var status: GRPCStatus
    /// What the text begins with.
    public var word: ErrorWord
    /// A sentence that says what the person at the other end has to do.
    public var sentence: String

    /// - Parameter word: nil for the one that goes with the status.
    public init(_ status: GRPCStatus, word: ErrorWord? = nil, _ sentence: String) {
        self.status = status
        self.word = word ?? status.word
        self.sentence = sentence
    }

    static func invalid(_ sentence: String) -> GRPCError { GRPCError(.invalidArgument, sentence) }

    /// The text that the peer receives.
    public var message: String { word.text(sentence) }
}

/// `grpc-message`: text as printable ASCII, everything else as `%XX` of its UTF-8 (gRPC over HTTP/2, "Responses").
public enum GRPCMessageText {
    /// Maximum bytes of a text before encoding; a longer one is cut, so that trailers stay far below the size that
    /// clients accept. 2,048 has room for a topic's failure of 1,024 bytes and the broker's own text.
    public static let longest = 2048

    /// The text as a header's value. If it is longer than `longest`, it is cut between characters.
    public static func encode(_ text: String) -> String {
        let bytes = clipped(text)
        var out: [UInt8] = []
        out.reserveCapacity(bytes.count)
        for (index, byte) in bytes.enumerated() {
            // HTTP/2 forbids spaces at either end of a value (RFC 9113, section 8.2.1).
            let isOuterBlank = byte == 0x20 && (index == 0 || index == bytes.count - 1)
            if (0x20...0x7e).contains(byte), byte != 0x25, !isOuterBlank {
                out.append(byte)
            } else {
                out.append(0x25)
                out.append(digit(byte >> 4))
                out.append(digit(byte & 15))
            }
        }
        return String(decoding: out, as: UTF8.self)
    }

    /// Decodes a header's value. A `%` not followed by two hexadecimal digits is kept, and bytes that are not UTF-8
    /// become U+FFFD, so that no text is lost to a faulty encoding.
    public static func decode(_ value: String) -> String {
        let bytes = Array(value.utf8)
        var out: [UInt8] = []
        out.reserveCapacity(bytes.count)
        var index = 0
        while index < bytes.count {
            if bytes[index] == 0x25, index + 2 < bytes.count, let high = nibble(bytes[index + 1]),
                let low = nibble(bytes[index + 2])
            {
                out.append(high << 4 | low)
                index += 3
            } else {
                out.append(bytes[index])
                index += 1
            }
        }
        return String(decoding: out, as: UTF8.self)
    }

    private static func clipped(_ text: String) -> [UInt8] {
        var bytes = Array(text.utf8)
        guard bytes.count > longest else { return bytes }
        var end = longest
        while bytes[end] & 0xc0 == 0x80 { end -= 1 }
        bytes.removeSubrange(end...)
        return bytes
    }

    private static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x41 + value - 10 }

    private static func nibble(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x41 + 10
        case 0x61...0x66: byte - 0x61 + 10
        default: nil
        }
    }
}

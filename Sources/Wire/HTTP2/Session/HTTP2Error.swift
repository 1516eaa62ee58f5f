// HTTP2Error: the error codes of HTTP/2, and the error that ends a connection.

import ForebayWire

/// An error code of RST_STREAM and GOAWAY (RFC 9113, 7).
public struct HTTP2Code: RawRepresentable, Equatable, Sendable {
    public var rawValue: UInt32

    public init(rawValue: UInt32) { self.rawValue = rawValue }

    public static let noError = HTTP2Code(rawValue: 0x0)
    public static let protocolError = HTTP2Code(rawValue: 0x1)
    public static let internalError = HTTP2Code(rawValue: 0x2)
    public static let flowControlError = HTTP2Code(rawValue: 0x3)
    public static let settingsTimeout = HTTP2Code(rawValue: 0x4)
    public static let streamClosed = HTTP2Code(rawValue: 0x5)
    public static let frameSizeError = HTTP2Code(rawValue: 0x6)
    public static let refusedStream = HTTP2Code(rawValue: 0x7)
    public static let cancel = HTTP2Code(rawValue: 0x8)
    public static let compressionError = HTTP2Code(rawValue: 0x9)
    public static let connectError = HTTP2Code(rawValue: 0xa)
    public static let enhanceYourCalm = HTTP2Code(rawValue: 0xb)
    public static let inadequateSecurity = HTTP2Code(rawValue: 0xc)
    public static let http11Required = HTTP2Code(rawValue: 0xd)
}

/// Why a connection ends. Errors of a single stream are reported by `HTTPEvent.reset`.
public struct HTTP2Error: Error, Equatable, Sendable {
    public var code: HTTP2Code
    /// A sentence for the person at the other end; GOAWAY carries it to the peer.
    public var message: String
    /// The limit that the peer exceeded, if any.
    public var limit: HTTP2Limit?

    public init(_ code: HTTP2Code, _ message: String, limit: HTTP2Limit? = nil) {
        self.code = code
        self.message = message
        self.limit = limit
    }

    static func limit(_ limit: HTTP2Limit, _ sentence: String) -> HTTP2Error {
        HTTP2Error(.enhanceYourCalm, ErrorWord.limit.text(sentence), limit: limit)
    }

    /// A rule of HTTP/2 is broken.
    static func violation(_ sentence: String) -> HTTP2Error {
        HTTP2Error(.protocolError, ErrorWord.protocol.text(sentence))
    }
}

/// The limits against attacks that end a connection; see `HTTP2Limits` for what each counts.
public enum HTTP2Limit: String, CaseIterable, Sendable {
    case resets, continuations, emptyData, lateData, headerBomb, pings, settings, priorities, windowUpdates
    case meaningless, waitingAnswers
}

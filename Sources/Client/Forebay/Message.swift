// Message: what a subscription delivers, and what it tells of messages that it could not; and what is to be published.

import RSocket

/// A message to be published, with what goes with it.
public struct OutgoingMessage: Sendable, Equatable {
    /// At most as large as the broker allows, by default 1 MiB.
    public var payload: [UInt8]
    /// The MIME type of the payload, at most 128 characters of ASCII; empty for none.
    public var contentType: String
    /// What else goes with the message, at most 256. Of a name that comes twice the last counts.
    public var headers: [(name: String, value: String)]

    /// Bytes, and what goes with them.
    public init(_ payload: [UInt8], contentType: String = "", headers: [(name: String, value: String)] = []) {
        self.payload = payload
        self.contentType = contentType
        self.headers = headers
    }

    /// A text as UTF-8.
    public init(_ text: String, contentType: String = "", headers: [(name: String, value: String)] = []) {
        self.init(Array(text.utf8), contentType: contentType, headers: headers)
    }

    public static func == (a: Self, b: Self) -> Bool {
        a.payload == b.payload && a.contentType == b.contentType && a.headers.elementsEqual(b.headers, by: ==)
    }

    /// As it is kept until the broker has it.
    /// - Throws: `.invalid` if the content type or the headers break their bounds.
    func checked() throws(ForebayError) -> Outgoing {
        let properties = MessageProperties(contentType: contentType, headers: headers)
        guard properties.isValid else { throw .badProperties }
        return Outgoing(payload: payload, properties: properties)
    }
}

/// One message of a topic.
public struct Message: Equatable, Sendable {
    /// What was published.
    public var payload: [UInt8]
    /// Its number in the topic: 1 for the first message of an epoch, then 2, 3 and so on without holes.
    public var sequence: UInt64
    /// The life of the topic; sequences of different epochs have nothing to do with each other.
    public var epoch: UInt64
    /// When the broker took the message, in nanoseconds since 1970 UTC.
    public var timestamp: Int64
    /// What this subscription missed just before this message; nil when nothing was.
    ///
    /// A gap comes with the message behind it rather than by itself, as each element a subscription delivers is one
    /// that was asked for.
    public var gap: Gap?
    /// What the publisher gave the message beside its payload, as RSocket's composite metadata; empty when that is
    /// nothing.
    public var metadata: [UInt8]

    /// A message as a broker would deliver it, for tests of what takes messages.
    public init(
        payload: [UInt8], sequence: UInt64, epoch: UInt64, timestamp: Int64, gap: Gap? = nil, metadata: [UInt8] = []
    ) {
        self.payload = payload
        self.sequence = sequence
        self.epoch = epoch
        self.timestamp = timestamp
        self.gap = gap
        self.metadata = metadata
    }

    /// The MIME type of the payload; nil if the publisher gave none.
    public var contentType: String? {
        let type = properties.contentType
        return type.isEmpty ? nil : type
    }

    /// The headers that the publisher gave; of a name that comes twice the last counts. Other entries of an RSocket
    /// publisher's metadata are headers named by their MIME types; a value that is not UTF-8 is in base64 without
    /// padding, with `-bin` behind its name.
    public var headers: [(name: String, value: String)] { properties.headers }

    private var properties: MessageProperties { metadata.withUnsafeBytes { MessageProperties(metadata: $0) } }

    /// The payload as text; what is not UTF-8 in it is replaced.
    public var text: String { String(decoding: payload, as: UTF8.self) }
}

/// Messages that a subscription missed.
public struct Gap: Equatable, Sendable {
    /// Why messages are missing.
    public enum Cause: Equatable, Sendable {
        /// They were dropped by the subscription's overflow policy, or were no longer retained when it came to them.
        case dropped
        /// The topic restarted, as it does when the broker is restarted: what was left of the epoch before is gone.
        case newEpoch(previous: UInt64)
        /// The connection was lost before the first message came, and it is not known where the subscription stood.
        case reconnected
    }

    /// Why they are missing.
    public var cause: Cause
    /// How many are missing; nil when nobody knows, and then it may be none.
    public var lost: UInt64?

    /// Messages that a subscription missed.
    public init(_ cause: Cause, lost: UInt64?) {
        self.cause = cause
        self.lost = lost
    }
}

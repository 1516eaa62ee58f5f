// Message: messages that a subscription delivers, gaps between them, and messages to publish.

import RSocket

/// A message to publish, with its content type and headers.
public struct OutgoingMessage: Sendable, Equatable {
    /// At most as large as the broker allows, by default 1 MiB.
    public var payload: [UInt8]
    /// The MIME type of the payload, at most 128 ASCII characters; empty for none.
    public var contentType: String
    /// At most 256 headers. If a name occurs twice, the last one wins.
    public var headers: [(name: String, value: String)]

    /// A message with these bytes, content type and headers.
    public init(_ payload: [UInt8], contentType: String = "", headers: [(name: String, value: String)] = []) {
        self.payload = payload
        self.contentType = contentType
        self.headers = headers
    }

    /// A message with this text as UTF-8.
    public init(_ text: String, contentType: String = "", headers: [(name: String, value: String)] = []) {
        self.init(Array(text.utf8), contentType: contentType, headers: headers)
    }

    public static func == (a: Self, b: Self) -> Bool {
        a.payload == b.payload && a.contentType == b.contentType && a.headers.elementsEqual(b.headers, by: ==)
    }

    /// The message in the form in which it is kept until the broker has accepted it.
    /// - Throws: `.invalid` if the content type or the headers exceed their limits.
    func checked() throws(ForebayError) -> Outgoing {
        let properties = MessageProperties(contentType: contentType, headers: headers)
        guard properties.isValid else { throw .badProperties }
        return Outgoing(payload: payload, properties: properties)
    }
}

/// One message of a topic.
public struct Message: Equatable, Sendable {
    /// The published bytes.
    public var payload: [UInt8]
    /// The name of the message's topic. Of a subscription to a pattern, each message has the name of its own.
    public var topic: String
    /// The message's number in the topic. The messages of an epoch are numbered consecutively, starting with 1.
    public var sequence: UInt64
    /// The lifetime of the topic; sequences of different epochs are unrelated.
    public var epoch: UInt64
    /// When the broker accepted the message, in nanoseconds since 1970 UTC.
    public var timestamp: Int64
    /// What this subscription missed just before this message; nil if nothing.
    ///
    /// A gap is reported with the message after it rather than by itself, because each element that a subscription
    /// delivers uses up one unit of demand.
    public var gap: Gap?
    /// The publisher's properties of the message as RSocket composite metadata; empty if there are none.
    public var metadata: [UInt8]

    /// A message as a broker would deliver it, for tests of code that consumes messages.
    public init(
        payload: [UInt8], topic: String = "", sequence: UInt64, epoch: UInt64, timestamp: Int64, gap: Gap? = nil,
        metadata: [UInt8] = []
    ) {
        self.payload = payload
        self.topic = topic
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

    /// The publisher's headers; if a name occurs twice, the last one wins. Other entries of an RSocket publisher's
    /// metadata are headers named after their MIME types; a value that is not UTF-8 is base64 without padding, and its
    /// name gets the suffix `-bin`.
    public var headers: [(name: String, value: String)] { properties.headers }

    private var properties: MessageProperties { metadata.withUnsafeBytes { MessageProperties(metadata: $0) } }

    /// The payload as text; bytes that are not valid UTF-8 are replaced.
    public var text: String { String(decoding: payload, as: UTF8.self) }
}

/// Messages that a subscription missed.
public struct Gap: Equatable, Sendable {
    /// Why messages are missing.
    public enum Cause: Equatable, Sendable {
        /// The subscription's overflow policy dropped the messages, or they were no longer retained when the
        /// subscription reached them.
        case dropped
        /// The topic was restarted, for example because the broker was. Unread messages of the previous epoch are gone,
        /// unless the topic is relaxed or from a copied store and the position was on disk: then none are missing.
        case newEpoch(previous: UInt64)
        /// The connection was lost before the broker had reported where the subscription begins; or, with a
        /// subscription to a pattern, before it had received a message of this topic.
        case reconnected
    }

    /// Why messages are missing.
    public var cause: Cause
    /// The number of missing messages; nil if unknown, in which case there may be none.
    public var lost: UInt64?

    /// A gap with this cause and count.
    public init(_ cause: Cause, lost: UInt64?) {
        self.cause = cause
        self.lost = lost
    }
}

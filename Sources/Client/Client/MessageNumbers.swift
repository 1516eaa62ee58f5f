// MessageNumbers: the numbers of one publisher's messages, over any number of connections. Each connection begins with
// the question for the publisher's last number; the answer decides what is sent.
//
//     connected ──last number?──▶ waiting ──answer──▶ numbered
//         ▲                                              │
//         └───────────────── lost ───────────────────────┘

import Bytes
import ForebayWire

/// Numbers messages so that the broker recognizes those that are sent again.
public struct MessageNumbers {
    /// The publisher's id.
    public let publisher: String
    private let topic: String
    /// The number before that of the first message; nil until the broker has answered once. Negative if the broker has
    /// forgotten the publisher since then.
    private var base: Int64?
    /// The question on the current connection, until it is answered.
    private var question: StreamID?
    /// Whether the broker has answered on the current connection.
    public private(set) var isKnown = false

    public init(publisher: String, topic: String) {
        self.publisher = publisher
        self.topic = topic
    }

    /// Asks for the last number, if that is still to be done on this connection. Returns the question's stream.
    @discardableResult
    public mutating func ask(_ connection: any ClientConnection) throws(ClientError) -> StreamID? {
        guard !isKnown, question == nil else { return nil }
        let id = try connection.call(.publisherInfo(topic: topic, publisher: publisher))
        question = id
        return id
    }

    /// Whether a stream is that of the question.
    public func isQuestion(_ stream: StreamID) -> Bool { question == stream }

    /// The connection was lost.
    public mutating func lost() {
        question = nil
        isKnown = false
    }

    /// The broker answers with a JSON object.
    ///
    /// - Parameters:
    ///   - acknowledged: messages that were acknowledged so far.
    ///   - doubtful: messages that were sent after those, on earlier connections.
    /// - Returns: how many of the doubtful messages are published.
    /// - Throws: if sending the doubtful messages again could publish them twice.
    public mutating func answer(
        _ json: UnsafeRawBufferPointer, acknowledged: UInt64, doubtful: UInt64
    ) throws(ClientError) -> UInt64 {
        guard let last = Self.number(in: json).flatMap({ Int64(exactly: $0) }) else {
            throw ClientError(.badAnswer, "The broker did not report the number of publisher '\(publisher)'.")
        }
        let before = Int64(clamping: acknowledged)
        guard let base, doubtful > 0 else {
            base = last - before
            isKnown = true
            return 0
        }
        guard last > 0, last >= base + before else {
            let what = counted(doubtful, "message")
            throw ClientError(
                .rejected,
                "The broker no longer knows publisher '\(publisher)', so it is unknown whether the last \(what) "
                    + "\(doubtful == 1 ? "was" : "were") published; nothing was sent again.")
        }
        let published = UInt64(last - base - before)
        guard published <= doubtful else {
            throw ClientError(
                .rejected, "Another client publishes as '\(publisher)'; give each publisher an id of its own.")
        }
        isKnown = true
        return published
    }

    /// The number of the message at a place, counted from 1; call it only if `isKnown`.
    public func number(at place: UInt64) -> PublisherNumber {
        precondition(isKnown)
        return PublisherNumber(publisher: publisher, number: UInt64(clamping: (base ?? 0) + Int64(clamping: place)))
    }

    /// The member `number` of the broker's object. A quotation mark within a string follows a backslash, so these bytes
    /// cannot be part of the publisher's id.
    private static func number(in json: UnsafeRawBufferPointer) -> UInt64? {
        let key = Array(#","number":"#.utf8)
        guard json.count > key.count else { return nil }
        for start in 0..<json.count - key.count where json[start..<start + key.count].elementsEqual(key) {
            let digits = json[(start + key.count)...].prefix { (0x30...0x39).contains($0) }
            return UInt64(String(decoding: digits, as: UTF8.self))
        }
        return nil
    }
}

// ClientResponses: parses the broker's messages in a client. As in Requests.swift, absent fields are 0 or empty, and
// fields that are unknown or have another wire type are skipped.

import Bytes
import ForebayWire

/// A message that a subscriber received, pointing into the bytes of its response.
public struct ReceivedMessage {
    /// The sequence in the topic's epoch, which is in the response.
    public internal(set) var sequence: UInt64 = 0
    /// The payload as published, in the bytes of the response.
    public internal(set) var payload = UnsafeRawBufferPointer.nothing
    /// ns since 1970 UTC.
    public internal(set) var timestamp: Int64 = 0
    /// The topic's name, in a subscription to a pattern; empty otherwise.
    public internal(set) var topic = UnsafeRawBufferPointer.nothing
    /// Whether the message has a content type or headers.
    public internal(set) var isCarrying = false
    /// The whole encoded message.
    private let bytes: UnsafeRawBufferPointer

    init(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) {
        self.bytes = bytes
        var reader = ProtobufReader(bytes)
        while let (number, value) = try nextField(of: "Message", &reader) {
            switch (number, value) {
            case (1, .varint(let n)): sequence = n
            case (2, .bytes(let bytes)): payload = bytes
            case (3, .varint(let n)): timestamp = Int64(bitPattern: n)
            case (4, .bytes), (5, .bytes): isCarrying = true
            case (6, .bytes(let name)): topic = try checkedText(name, "topic")
            default: break
            }
        }
    }

    /// Appends content type and headers as the composite metadata used in a topic's log and by RSocket.
    ///
    /// - Parameters:
    ///   - scratch: overwritten; keep one, so that its memory is reused.
    ///   - limit: the most bytes allowed.
    /// - Throws: for text that is not UTF-8, more than `limit` bytes, or too many headers.
    public func appendMetadata(
        _ scratch: inout PublishedMessage, limit: Int, into out: inout ByteBuffer
    ) throws(GRPCError) {
        guard isCarrying else { return }
        scratch.clear()
        try scratch.merge(bytes)
        guard try MessageHeaders.metadataCount(of: scratch, limit: limit) > 0 else { return }
        MessageHeaders.appendMetadata(of: scratch, into: &out)
    }
}

extension EndNotice {
    /// Reads a TopicEnd, without the fields that are in its response.
    fileprivate init(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) {
        var (topic, failure) = ("", "")
        var reader = ProtobufReader(bytes)
        while let (number, value) = try nextField(of: "TopicEnd", &reader) {
            switch (number, value) {
            case (1, .bytes(let text)): topic = String(decoding: try checkedText(text, "topic"), as: UTF8.self)
            case (2, .bytes(let text)): failure = String(decoding: try checkedText(text, "failure"), as: UTF8.self)
            default: break
            }
        }
        self.init(topic: topic, epoch: 0, failure: failure.isEmpty ? nil : failure, dropped: 0, restarts: false)
    }
}

/// A SubscribeResponse: its counters, and its messages one by one.
public struct ReceivedMessages {
    /// The value as in the .proto; 2³¹−1 is unbounded.
    public private(set) var outstandingCredit: UInt64 = 0
    /// The epoch of the topic and of all messages in the response.
    public private(set) var epoch: UInt64 = 0
    /// Messages lost since the previous response, before the first message of this one.
    public private(set) var dropped: UInt64 = 0
    /// Where the subscription begins, in a first response if the call requested it; 0 in all others.
    public private(set) var nextSequence: UInt64 = 0
    /// The topic of a pattern that has ended; nil if the response reports no end.
    public private(set) var ended: EndNotice?
    private var reader: ProtobufReader

    /// Reads the counters, which follow the messages, and checks that everything can be parsed.
    ///
    /// - Parameter bytes: the response without prefix, valid while messages are read from it.
    public init(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) {
        reader = ProtobufReader(bytes)
        var figures = reader
        while let (number, value) = try nextField(of: "SubscribeResponse", &figures) {
            switch (number, value) {
            case (2, .varint(let n)): outstandingCredit = n
            case (3, .varint(let n)): epoch = n
            case (4, .varint(let n)): dropped = n
            case (5, .varint(let n)): nextSequence = n
            case (6, .bytes(let end)): ended = try EndNotice(end)
            default: break
            }
        }
        ended?.epoch = epoch
        ended?.dropped = dropped
    }

    /// The next message; nil if there is none left.
    public mutating func next() throws(GRPCError) -> ReceivedMessage? {
        while let (number, value) = try nextField(of: "SubscribeResponse", &reader) {
            if number == 1, case .bytes(let message) = value { return try ReceivedMessage(message) }
        }
        return nil
    }
}

extension PublishResponse {
    /// - Parameter bytes: the response without prefix.
    public init(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) {
        self.init(grantedCredit: 0, acknowledgedSequence: 0, acceptedCount: 0)
        var reader = ProtobufReader(bytes)
        while let (number, value) = try nextField(of: "PublishResponse", &reader) {
            guard case .varint(let n) = value else { continue }
            switch number {
            case 1: grantedCredit = n
            case 2: acknowledgedSequence = n
            case 3: acceptedCount = n
            case 4: duplicate = n != 0
            default: break
            }
        }
    }
}

extension PublishOneResponse {
    /// - Parameter bytes: the response without prefix.
    public init(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) {
        self.init(sequence: 0, epoch: 0)
        var reader = ProtobufReader(bytes)
        while let (number, value) = try nextField(of: "PublishOneResponse", &reader) {
            guard case .varint(let n) = value else { continue }
            if number == 1 { sequence = n }
            if number == 2 { epoch = n }
            if number == 3 { duplicate = n != 0 }
        }
    }
}

/// The common part of all Admin responses: the complete data as a JSON object.
public enum AdminAnswer {
    /// - Parameter bytes: the response, or the row, without prefix.
    /// - Returns: the JSON, in these bytes.
    public static func json(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) -> UnsafeRawBufferPointer {
        var json = UnsafeRawBufferPointer.nothing
        var reader = ProtobufReader(bytes)
        while let (number, value) = try nextField(of: "response of Admin", &reader) {
            if number == 1, case .bytes(let text) = value { json = try checkedText(text, "json") }
        }
        return json
    }
}

/// How a call ended, according to its trailers.
public struct CallOutcome: Equatable, Sendable {
    /// `unknown` for a number that gRPC does not define.
    public var status: GRPCStatus
    /// The decoded text of an error.
    public var message: String
    /// For a subscription: why it ended, if given.
    public var end: SubscriptionEnd?
    /// For a subscription: messages lost after the last response.
    public var dropped: UInt64

    /// Nil if there is no `grpc-status`: the trailers are not gRPC's.
    public init?(_ fields: HTTPFieldsView) {
        guard let status = fields.first("grpc-status") else { return nil }
        self.status = UInt8(status.text).flatMap { GRPCStatus(rawValue: $0) } ?? .unknown
        message = fields.first("grpc-message").map { GRPCMessageText.decode($0.text) } ?? ""
        end = fields.first("forebay-end").flatMap { SubscriptionEnd(rawValue: $0.text) }
        dropped = fields.first("forebay-dropped").flatMap { UInt64($0.text) } ?? 0
    }
}

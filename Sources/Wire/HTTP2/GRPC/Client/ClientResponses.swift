// What a client takes out of the broker's messages. As in Requests.swift, what is absent is 0 or empty, and what is
// unknown or of another wire type is stepped over.

import Bytes

/// A message that a subscriber got, in the bytes of its response.
public struct ReceivedMessage {
    /// Its place in its topic's epoch, which its response tells.
    public internal(set) var sequence: UInt64 = 0
    /// As it was published; in the bytes of the response.
    public internal(set) var payload = UnsafeRawBufferPointer.nothing
    /// ns since 1970 UTC.
    public internal(set) var timestamp: Int64 = 0
    /// It has a content type or headers.
    public internal(set) var isCarrying = false
    /// All of it.
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
            default: break
            }
        }
    }

    /// Appends content type and headers as the composite metadata that they are in a topic's log, and with RSocket.
    ///
    /// - Parameters:
    ///   - scratch: is overwritten; keep one, as its memory is used again.
    ///   - limit: bytes that it may have.
    /// - Throws: for text that is no UTF-8, more than `limit` bytes, too many headers.
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

/// A SubscribeResponse: its figures, and its messages one after the other.
public struct ReceivedMessages {
    /// As in the .proto; 2³¹−1 is unbounded.
    public private(set) var outstandingCredit: UInt64 = 0
    /// The topic's, of all messages.
    public private(set) var epoch: UInt64 = 0
    /// Messages lost since the response before, so before the first message of this one.
    public private(set) var dropped: UInt64 = 0
    private var reader: ProtobufReader

    /// Reads the figures, which stand behind the messages, and looks whether all can be read.
    ///
    /// - Parameter bytes: the response without prefix, valid as long as messages are taken out of it.
    public init(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) {
        reader = ProtobufReader(bytes)
        var figures = reader
        while let (number, value) = try nextField(of: "SubscribeResponse", &figures) {
            switch (number, value) {
            case (2, .varint(let n)): outstandingCredit = n
            case (3, .varint(let n)): epoch = n
            case (4, .varint(let n)): dropped = n
            default: break
            }
        }
    }

    /// The next message, nil when there is none left.
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
        }
    }
}

/// What every answer of Admin has: the whole picture, as a JSON object.
public enum AdminAnswer {
    /// - Parameter bytes: the answer, or the row, without prefix.
    /// - Returns: the JSON, in these bytes.
    public static func json(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) -> UnsafeRawBufferPointer {
        var json = UnsafeRawBufferPointer.nothing
        var reader = ProtobufReader(bytes)
        while let (number, value) = try nextField(of: "answer of Admin", &reader) {
            if number == 1, case .bytes(let text) = value { json = try checkedText(text, "json") }
        }
        return json
    }
}

/// How a call ended, as its trailers tell.
public struct CallOutcome: Equatable, Sendable {
    /// `unknown` for a number that gRPC does not have.
    public var status: GRPCStatus
    /// The text of an error, decoded.
    public var message: String
    /// Of a subscription: why it ended, if that is told.
    public var end: SubscriptionEnd?
    /// Of a subscription: messages lost after the last response.
    public var dropped: UInt64

    /// Nil when there is no `grpc-status`: these are no trailers of gRPC's.
    public init?(_ fields: HTTPFieldsView) {
        guard let status = fields.first("grpc-status") else { return nil }
        self.status = UInt8(status.text).flatMap { GRPCStatus(rawValue: $0) } ?? .unknown
        message = fields.first("grpc-message").map { GRPCMessageText.decode($0.text) } ?? ""
        end = fields.first("forebay-end").flatMap { SubscriptionEnd(rawValue: $0.text) }
        dropped = fields.first("forebay-dropped").flatMap { UInt64($0.text) } ?? 0
    }
}

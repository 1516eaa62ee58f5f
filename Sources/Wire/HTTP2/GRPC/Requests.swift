// Requests: parses what clients send to PubSub. The semantics are proto3's: the last member of a oneof and the last
// value of a field count, repeated embedded messages of one field merge, absent fields are 0 or empty, fields that are
// unknown or have another wire type are skipped, and text is UTF-8.

import Bytes
import ForebayWire
import RSocket

/// `Open`: what to subscribe to, and how.
public struct SubscribeOpen: Equatable, Sendable {
    /// The largest `buffer`.
    public static let largestBuffer: UInt32 = (1 << 31) - 1

    /// The topic's name as sent, not yet checked.
    public var topic = ""
    /// The initial credit, at least 1.
    public var requestN: UInt32 = 0
    public var start = SubscribeOptions.Start.next
    /// Nil is the default.
    public var buffer: UInt32?
    public var overflow = Overflow.dropOldest
    public var gapFails = false
    /// Whether the first response gives the position.
    public var opening = false
    /// Where a subscription to a pattern continues in some topics.
    public var positions: [ResumePosition] = []
}

/// The action of a `SubscribeRequest`.
public enum SubscribeAction: Equatable, Sendable {
    case open(SubscribeOpen)
    /// At least 1.
    case request(UInt32)

    /// - Throws: INVALID_ARGUMENT for malformed bytes, no action, a demand of 0, or options that are invalid or
    ///   contradict each other.
    public static func parse(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) -> SubscribeAction {
        var open: OpenFields?
        var requested: UInt32?
        var reader = ProtobufReader(bytes)
        while let (number, value) = try nextField(of: "SubscribeRequest", &reader) {
            switch (number, value) {
            case (1, .bytes(let inner)):
                var fields = open ?? OpenFields()
                try fields.merge(inner)
                open = fields
                requested = nil
            case (2, .varint(let n)):
                requested = UInt32(truncatingIfNeeded: n)
                open = nil
            default: break
            }
        }
        if let open { return .open(try open.checked()) }
        guard let requested else {
            throw .invalid("A SubscribeRequest has neither open nor request_n; set one of them.")
        }
        guard requested > 0 else { throw .invalid("request_n is 0; request at least 1 message.") }
        return .request(requested)
    }
}

/// `Open` as encoded.
private struct OpenFields {
    var topic = ""
    var requestN: UInt32 = 0
    var replayLast: UInt32 = 0
    var replayAll = false
    var fromSequence: UInt64 = 0
    var epoch: UInt64 = 0
    var buffer: UInt32 = 0
    var overflow: Int32 = 0
    var gapFail = false
    var opening = false
    var since: Int64 = 0
    var sinceAgo: UInt64 = 0
    var positions: [ResumePosition] = []

    mutating func merge(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) {
        var reader = ProtobufReader(bytes)
        while let (number, value) = try nextField(of: "Open", &reader) {
            switch (number, value) {
            case (1, .bytes(let text)): topic = try checkedText(text, "Open.topic").text
            case (2, .varint(let n)): requestN = UInt32(truncatingIfNeeded: n)
            case (3, .varint(let n)): replayLast = UInt32(truncatingIfNeeded: n)
            case (4, .varint(let n)): replayAll = n != 0
            case (5, .varint(let n)): fromSequence = n
            case (6, .varint(let n)): epoch = n
            case (7, .varint(let n)): buffer = UInt32(truncatingIfNeeded: n)
            case (8, .varint(let n)): overflow = Int32(truncatingIfNeeded: n)
            case (9, .varint(let n)): gapFail = n != 0
            case (10, .varint(let n)): opening = n != 0
            case (11, .varint(let n)): since = Int64(bitPattern: n)
            case (12, .varint(let n)): sinceAgo = n
            case (13, .bytes(let inner)): positions.append(try ResumePosition(inner))
            default: break
            }
        }
    }

    func checked() throws(GRPCError) -> SubscribeOpen {
        guard requestN > 0 else { throw .invalid("Open.request_n is 0; request at least 1 message.") }
        guard buffer <= SubscribeOpen.largestBuffer else {
            throw .invalid(
                "Open.buffer is \(buffer); use at most \(SubscribeOpen.largestBuffer), or 0 for the default.")
        }
        guard let overflow = UInt8(exactly: overflow).flatMap(Overflow.init(rawValue:)) else {
            throw .invalid(
                "Open.overflow is \(overflow), which is unknown; use 0 to \(Overflow.allCases.count - 1).")
        }
        var open = SubscribeOpen()
        open.topic = topic
        open.requestN = requestN
        open.start = try start()
        open.buffer = buffer == 0 ? nil : buffer
        open.overflow = overflow
        open.gapFails = gapFail
        open.opening = opening
        open.positions = positions
        return open
    }

    private func start() throws(GRPCError) -> SubscribeOptions.Start {
        let isGiven = [replayLast > 0, replayAll, fromSequence > 0, since != 0, sinceAgo != 0]
        guard isGiven.count(where: { $0 }) <= 1 else {
            throw .invalid(
                "replay_last, replay_all, from_sequence, since_ns and since_ago_ns exclude each other; set only one of "
                    + "them.")
        }
        if fromSequence > 0 { return .from(fromSequence, epoch: epoch == 0 ? nil : epoch) }
        guard epoch == 0 else {
            throw .invalid("Open.epoch requires from_sequence; set both.")
        }
        if since != 0 {
            guard since > 0 else {
                throw .invalid("Open.since_ns is \(since), which is before 1970; to begin earlier, use replay_all.")
            }
            return .since(.at(since))
        }
        if sinceAgo != 0 { return .since(.ago(Int64(clamping: sinceAgo))) }
        return replayAll ? .all : replayLast > 0 ? .last(replayLast) : .next
    }
}

extension ResumePosition {
    /// Parses a `TopicPosition`.
    fileprivate init(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) {
        self.init(topic: "", epoch: 0, sequence: 0)
        var reader = ProtobufReader(bytes)
        while let (number, value) = try nextField(of: "TopicPosition", &reader) {
            switch (number, value) {
            case (1, .bytes(let text)): topic = try checkedText(text, "TopicPosition.topic").text
            case (2, .varint(let n)): epoch = n
            case (3, .varint(let n)): sequence = n
            default: break
            }
        }
        guard !topic.isEmpty, epoch > 0, sequence > 0 else {
            throw .invalid(
                "A position in Open.positions lacks its topic, epoch or sequence; set all three, the sequence to that "
                    + "of the topic's last message plus 1.")
        }
    }
}

/// The fields of a publisher's `Message`, pointing into the bytes that were parsed. Keep one for each call, so that its
/// array of headers is reused.
public struct PublishedMessage {
    public internal(set) var payload: UnsafeRawBufferPointer
    /// Empty if there is none.
    public internal(set) var contentType: UnsafeRawBufferPointer
    /// In the order sent, at most `CarriedMetadata.mostHeaders`. If a name occurs more than once, the last one counts.
    public internal(set) var headers: [HeaderView] = []

    public init() {
        payload = .nothing
        contentType = .nothing
    }

    mutating func clear() {
        payload = .nothing
        contentType = .nothing
        headers.removeAll(keepingCapacity: true)
    }

    /// Overwrites the current fields with those of `bytes`, a `Message`.
    mutating func merge(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) {
        var reader = ProtobufReader(bytes)
        while let (number, value) = try nextField(of: "Message", &reader) {
            switch (number, value) {
            case (2, .bytes(let bytes)): payload = bytes
            case (4, .bytes(let text)): contentType = try checkedText(text, "Message.content_type")
            case (5, .bytes(let entry)): try add(entry)
            default: break
            }
        }
    }

    private mutating func add(_ entry: UnsafeRawBufferPointer) throws(GRPCError) {
        guard headers.count < CarriedMetadata.mostHeaders else {
            throw GRPCError(
                .resourceExhausted, "The message has more than \(CarriedMetadata.mostHeaders) headers; send fewer."
            )
        }
        var header = HeaderView(name: .nothing, value: .nothing)
        var reader = ProtobufReader(entry)
        while let (number, value) = try nextField(of: "Message.headers", &reader) {
            switch (number, value) {
            case (1, .bytes(let text)): header.name = try checkedText(text, "a name in Message.headers")
            case (2, .bytes(let text)): header.value = try checkedText(text, "a value in Message.headers")
            default: break
            }
        }
        headers.append(header)
    }
}

/// The action of a `PublishRequest`. The message itself is in the `PublishedMessage` passed to `parse`.
public enum PublishAction: Equatable, Sendable {
    /// The topic's name is as sent, not yet checked.
    case open(topic: String, completesTopic: Bool, number: PublisherNumber? = nil)
    case message
    case failTopic(String)

    /// - Parameter message: overwritten; valid as long as `bytes`.
    /// - Throws: INVALID_ARGUMENT for malformed bytes or no action, RESOURCE_EXHAUSTED for too many headers.
    public static func parse(
        _ bytes: UnsafeRawBufferPointer, message: inout PublishedMessage
    ) throws(GRPCError) -> PublishAction {
        message.clear()
        var request: PublishAction?
        var open = PublishOpenFields()
        var reader = ProtobufReader(bytes)
        while let (number, value) = try nextField(of: "PublishRequest", &reader) {
            switch (number, value) {
            case (1, .bytes(let inner)):
                try open.merge(inner)
                message.clear()
                request = .open(topic: "", completesTopic: false, number: nil)
            case (2, .bytes(let inner)):
                try message.merge(inner)
                open = PublishOpenFields()
                request = .message
            case (3, .bytes(let text)):
                message.clear()
                open = PublishOpenFields()
                request = .failTopic(try checkedText(text, "PublishRequest.fail_topic").text)
            default: break
            }
        }
        guard let request else {
            throw .invalid("A PublishRequest has none of open, message and fail_topic; set one of them.")
        }
        guard case .open = request else { return request }
        return .open(topic: open.topic, completesTopic: open.completesTopic, number: try open.number.checked())
    }
}

/// `PublishOpen` as encoded.
private struct PublishOpenFields {
    var topic = ""
    var completesTopic = false
    var number = NumberFields()

    mutating func merge(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) {
        var reader = ProtobufReader(bytes)
        while let (number, value) = try nextField(of: "PublishOpen", &reader) {
            switch (number, value) {
            case (1, .bytes(let text)): topic = try checkedText(text, "PublishOpen.topic").text
            case (2, .varint(let n)): completesTopic = n != 0
            case (3, .bytes(let text)): self.number.publisher = try checkedText(text, "PublishOpen.publisher_id")
            case (4, .varint(let n)): self.number.number = n
            default: break
            }
        }
    }
}

/// `publisher_id` and `number` as encoded.
private struct NumberFields {
    /// Empty if there is none.
    var publisher = UnsafeRawBufferPointer.nothing
    var number: UInt64 = 0

    /// - Throws: INVALID_ARGUMENT if only one of them is present, or one is out of bounds.
    func checked() throws(GRPCError) -> PublisherNumber? {
        if publisher.isEmpty, number == 0 { return nil }
        guard !publisher.isEmpty, number > 0 else {
            throw .invalid("publisher_id and number belong together; set both, and number to at least 1.")
        }
        let checked = PublisherNumber(publisher: publisher.text, number: number)
        if let fault = checked.fault { throw .invalid(fault) }
        return checked
    }
}

/// `PublishOneRequest`.
public enum PublishOneRequest {
    /// Parses the topic's name, not yet checked, the publisher's id and number, and the message, which is empty if none
    /// was sent.
    ///
    /// - Parameter message: overwritten; valid as long as `bytes`.
    /// - Throws: INVALID_ARGUMENT for malformed bytes, RESOURCE_EXHAUSTED for too many headers.
    public static func parse(
        _ bytes: UnsafeRawBufferPointer, message: inout PublishedMessage
    ) throws(GRPCError) -> (topic: String, number: PublisherNumber?) {
        message.clear()
        var topic = ""
        var fields = NumberFields()
        var reader = ProtobufReader(bytes)
        while let (number, value) = try nextField(of: "PublishOneRequest", &reader) {
            switch (number, value) {
            case (1, .bytes(let text)): topic = try checkedText(text, "PublishOneRequest.topic").text
            case (2, .bytes(let inner)): try message.merge(inner)
            case (3, .bytes(let text)): fields.publisher = try checkedText(text, "PublishOneRequest.publisher_id")
            case (4, .varint(let n)): fields.number = n
            default: break
            }
        }
        return (topic, try fields.checked())
    }
}

// MARK: Shared by all parsers

/// The reader's next field. Errors name the message `name`.
@inline(__always)
func nextField(
    of name: StaticString, _ reader: inout ProtobufReader
) throws(GRPCError) -> (number: UInt32, value: ProtobufReader.Value)? {
    do throws(ProtobufError) {
        return try reader.next()
    } catch {
        throw .invalid("The \(name) \(error.sentence); encode it as forebay.proto defines it.")
    }
}

/// Returns text after checking that it is UTF-8, as proto3 requires.
func checkedText(
    _ bytes: UnsafeRawBufferPointer, _ field: StaticString
) throws(GRPCError) -> UnsafeRawBufferPointer {
    guard bytes.isUTF8 else {
        throw .invalid("The text of \(field) is not valid UTF-8; send arbitrary bytes only in the payload.")
    }
    return bytes
}

// What goes with a message beside its payload, from one protocol to the other. The log keeps a publisher's metadata as
// RSocket's composite metadata, whatever protocol it came by; this file is where that is made of gRPC's `content_type`
// and `headers`, and where they are made of it again.
//
//     gRPC → log    content_type            entry 0x7a: the well-known id, or length less one and the name
//                   headers                 the entry of headers, of mime application/vnd.forebay.headers
//     log → gRPC    the first entry 0x7a    content_type
//                   the entry of headers    headers, as they were; a value that is not UTF-8 as below
//                   any other entry         a header named by its MIME type. The value is the content where that is
//                                           UTF-8; else base64 without padding, and `-bin` behind the name
//
// An entry 0x7a or of headers that cannot be read is "any other entry", so nothing is lost. A well-known id without a
// name is named by its number, such as `0x3b`; a name that is not UTF-8 is `unnamed`.
//
// The entry of headers: for each of them, name and value, both UTF-8, numbers big-endian:
//
//     u16 bytes of the name | name | u32 bytes of the value | value
//
// A name that comes twice counts with its last value, as in protobuf's maps.

import Bytes
import RSocket

/// The entry of headers in composite metadata.
public enum MessageHeaders {
    /// Its MIME type.
    public static let mime = "application/vnd.forebay.headers"
    static let mimeText: StaticString = "application/vnd.forebay.headers"
    /// Headers of one message; more are RESOURCE_EXHAUSTED.
    public static let most = 256
    /// Bytes of `content_type`, which is RSocket's limit for a MIME type.
    public static let longestContentType = 128

    /// Bytes of the composite metadata that a message's content type and headers become; 0 if it has none.
    ///
    /// - Parameter limit: the most they may be, as the broker has it for metadata.
    /// - Throws: INVALID_ARGUMENT for a content type that is too long or not printable ASCII, RESOURCE_EXHAUSTED for
    ///   too many headers or more bytes than `limit`.
    public static func metadataCount(of message: PublishedMessage, limit: Int) throws(GRPCError) -> Int {
        var count = 0
        if message.contentType.count > 0 {
            guard message.contentType.count <= longestContentType, WellKnownMimes.isPrintable(message.contentType)
            else {
                throw .invalid(
                    "A content_type is a MIME type of at most \(longestContentType) bytes in printable ASCII, such as "
                        + "application/json.")
            }
            count += 4 + mimeTypeCount(message.contentType)
        }
        if !message.headers.isEmpty {
            guard message.headers.allSatisfy({ $0.name.count <= Int(UInt16.max) }) else {
                throw GRPCError(.resourceExhausted, "A header's name has at most \(UInt16.max) bytes: shorten it.")
            }
            count += 4 + mime.utf8.count + contentCount(message.headers)
        }
        guard count <= Swift.min(limit, Wire.maxFrame) else {
            throw GRPCError(
                .resourceExhausted,
                "The message's headers take \(count) bytes; at most \(limit) are allowed: put more into the payload.")
        }
        return count
    }

    /// Appends the composite metadata that a message's content type and headers become; `metadataCount` has told that
    /// it is allowed.
    public static func appendMetadata(of message: PublishedMessage, into out: inout ByteBuffer) {
        if message.contentType.count > 0 {
            CompositeMetadata.appendHead(
                id: MimeType.dataMimeID, count: mimeTypeCount(message.contentType), into: &out)
            if let id = WellKnownMimes.id(message.contentType) {
                out.append(bigEndian: 0x80 | id)
            } else {
                out.append(bigEndian: UInt8(message.contentType.count - 1))
                out.append(message.contentType)
            }
        }
        guard !message.headers.isEmpty else { return }
        CompositeMetadata.appendHead(name: mime, count: contentCount(message.headers), into: &out)
        for header in message.headers {
            out.append(bigEndian: UInt16(header.name.count))
            out.append(header.name)
            out.append(bigEndian: UInt32(header.value.count))
            out.append(header.value)
        }
    }

    private static func mimeTypeCount(_ type: UnsafeRawBufferPointer) -> Int {
        WellKnownMimes.id(type) == nil ? 1 + type.count : 1
    }

    private static func contentCount(_ headers: [HeaderView]) -> Int {
        headers.reduce(0) { $0 + 6 + $1.name.count + $1.value.count }
    }

    /// Walks over the content of an entry of headers.
    struct Content {
        private let bytes: UnsafeRawBufferPointer
        private var offset = 0

        init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

        var isAtEnd: Bool { offset == bytes.count }

        /// The next header, nil at the end, or where the rest is no header.
        mutating func next() -> HeaderView? {
            guard let name = piece(counted: 2), let value = piece(counted: 4) else { return nil }
            return HeaderView(name: name, value: value)
        }

        /// Bytes behind their own number, which has `width` bytes.
        private mutating func piece(counted width: Int) -> UnsafeRawBufferPointer? {
            guard bytes.count - offset >= width else { return nil }
            let count =
                width == 2
                ? Int(bytes.bigEndian(at: offset, as: UInt16.self)) : Int(bytes.bigEndian(at: offset, as: UInt32.self))
            let start = offset + width
            guard count <= bytes.count - start else { return nil }
            offset = start + count
            return bytes.slice(start..<offset)
        }

        /// Whether all of it can be read, and names are text.
        var isWellFormed: Bool {
            var copy = self
            while !copy.isAtEnd {
                guard let header = copy.next(), header.name.isUTF8 else { return false }
            }
            return true
        }
    }
}

/// What a gRPC subscriber gets of a message's metadata, one item after the other, out of composite metadata as the log
/// keeps it. Metadata that ends within an entry ends there: such was refused when it was published.
struct CarriedItems {
    enum Item {
        case contentType(UnsafeRawBufferPointer)
        case header(CarriedHeader)
    }

    private var entries: CompositeMetadata.Iterator
    private var headers = MessageHeaders.Content(.nothing)
    private var hasContentType = false

    init(_ metadata: UnsafeRawBufferPointer) { entries = CompositeMetadata.Iterator(metadata) }

    mutating func next() -> Item? {
        while true {
            if let header = headers.next() { return .header(CarriedHeader(name: header.name, value: header.value)) }
            guard let entry = try? entries.next() else { return nil }
            if isDataMime(entry), !hasContentType, let type = WellKnownMimes.dataMime(entry.bytes) {
                hasContentType = true
                return .contentType(type)
            }
            if entry.id == nil, WellKnownMimes.spells(entry.name, MessageHeaders.mimeText) {
                let content = MessageHeaders.Content(entry.bytes)
                if content.isWellFormed {
                    headers = content
                    continue
                }
            }
            return .header(CarriedHeader(entry))
        }
    }

    private func isDataMime(_ entry: CompositeMetadata.Entry) -> Bool {
        entry.id == MimeType.dataMimeID || WellKnownMimes.spells(entry.name, "message/x.rsocket.mime-type.v0")
    }
}

/// A header as it is written for gRPC.
struct CarriedHeader {
    /// Two digits of an id without a name; nil where `name` is the name.
    private var bareID: UInt8?
    private var name: UnsafeRawBufferPointer
    private var value: UnsafeRawBufferPointer
    /// The value is not UTF-8: `-bin` and base64.
    private var isBinary: Bool

    private static let unnamed: StaticString = "unnamed"
    private static let suffix: StaticString = "-bin"

    /// - Parameter name: is UTF-8.
    init(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) {
        self.name = name
        self.value = value
        isBinary = !value.isUTF8
    }

    init(_ entry: CompositeMetadata.Entry) {
        self.init(name: entry.name, value: entry.bytes)
        if let id = entry.id {
            if let known = WellKnownMimes.name(id) { name = known } else { bareID = id }
        } else if !name.isUTF8 {
            name = WellKnownMimes.bytes(CarriedHeader.unnamed)
        }
    }

    private var nameCount: Int { (bareID == nil ? name.count : 4) + (isBinary ? 4 : 0) }
    private var valueCount: Int { isBinary ? Base64.count(value.count) : value.count }

    /// Bytes of the map's entry, an embedded message of name and value.
    private var entryCount: Int { Protobuf.size(bytes: nameCount) + Protobuf.size(bytes: valueCount) }

    /// Bytes of the field.
    var size: Int { Protobuf.size(bytes: entryCount) }

    /// Writes it as an entry of the map with field number `number`.
    func write(_ number: UInt8, to writer: inout ProtobufWriter) {
        writer.head(number, count: entryCount)
        writer.head(1, count: nameCount)
        if let bareID {
            writer.byte(UInt8(ascii: "0"))
            writer.byte(UInt8(ascii: "x"))
            writer.byte(CarriedHeader.digit(bareID >> 4))
            writer.byte(CarriedHeader.digit(bareID & 15))
        } else {
            writer.raw(name)
        }
        if isBinary { writer.raw(WellKnownMimes.bytes(CarriedHeader.suffix)) }
        writer.head(2, count: valueCount)
        if isBinary { Base64.write(value, to: &writer) } else { writer.raw(value) }
    }

    private static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x61 + value - 10 }
}

/// Base64 without padding, as gRPC writes binary headers (RFC 4648, section 4).
enum Base64 {
    static func count(_ bytes: Int) -> Int { (bytes * 4 + 2) / 3 }

    static func write(_ bytes: UnsafeRawBufferPointer, to writer: inout ProtobufWriter) {
        var bits: UInt32 = 0
        var have: UInt32 = 0
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            have += 8
            while have >= 6 {
                have -= 6
                writer.byte(letter(UInt8(truncatingIfNeeded: bits >> have) & 63))
            }
        }
        if have > 0 { writer.byte(letter(UInt8(truncatingIfNeeded: bits << (6 - have)) & 63)) }
    }

    private static func letter(_ six: UInt8) -> UInt8 {
        switch six {
        case 0..<26: 0x41 + six
        case 26..<52: 0x61 + six - 26
        case 52..<62: 0x30 + six - 52
        case 62: UInt8(ascii: "+")
        default: UInt8(ascii: "/")
        }
    }
}

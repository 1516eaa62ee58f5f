// CarriedMetadata: what a message carries besides its payload, as stored in the log: RSocket's composite metadata,
// whatever the publisher's protocol. This file creates it for messages from gRPC and plain HTTP; CarriedItems reads it.
//
//     content type   entry 0x7a: a well-known id with bit 7 set, or length minus one and the name
//     headers        entry application/vnd.forebay.headers: name and value of each header, both UTF-8,
//                    numbers big-endian:
//
//                        u16 length of the name | name | u32 length of the value | value

import Bytes

/// A header of a message, pointing into the bytes that it was parsed from.
public struct HeaderView {
    public var name: UnsafeRawBufferPointer
    public var value: UnsafeRawBufferPointer

    public init(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) {
        self.name = name
        self.value = value
    }
}

/// Composite metadata of a content type and headers.
public enum CarriedMetadata {
    /// The MIME type of the entry of headers.
    public static let headersMime = "application/vnd.forebay.headers"
    static let headersMimeText: StaticString = "application/vnd.forebay.headers"
    static let dataMimeText: StaticString = "message/x.rsocket.mime-type.v0"
    /// Bytes of a content type: the longest MIME type that composite metadata can hold.
    public static let longestContentType = 128
    /// Headers of one message.
    public static let mostHeaders = 256
    /// Bytes of a header's name.
    public static let longestName = Int(UInt16.max)

    /// Whether `type` is a content type that can be carried, or empty, which means none.
    public static func isContentType(_ type: some Collection<UInt8>) -> Bool {
        type.count <= longestContentType && isPrintable(type)
    }

    public static func isPrintable(_ name: some Sequence<UInt8>) -> Bool {
        name.allSatisfy { (0x20...0x7E).contains($0) }
    }

    /// Bytes of the entry of a content type; 0 if there is none.
    public static func size(contentType: UnsafeRawBufferPointer) -> Int {
        contentType.isEmpty ? 0 : 4 + mimeSize(contentType)
    }

    private static func mimeSize(_ type: UnsafeRawBufferPointer) -> Int {
        WellKnownMime.id(type) == nil ? 1 + type.count : 1
    }

    /// Appends the entry of a content type for which `isContentType` holds; nothing if it is empty.
    public static func append(contentType: UnsafeRawBufferPointer, into out: inout ByteBuffer) {
        guard !contentType.isEmpty else { return }
        CompositeMetadata.appendHead(id: MimeType.dataMimeID, count: mimeSize(contentType), into: &out)
        if let id = WellKnownMime.id(contentType) {
            out.append(bigEndian: 0x80 | id)
        } else {
            precondition(contentType.count <= longestContentType, "a content type is too long; check it first")
            out.append(bigEndian: UInt8(contentType.count - 1))
            out.append(contentType)
        }
    }

    /// Bytes of an entry of headers with `rows` bytes of rows; 0 if there are none.
    public static func size(headers rows: Int) -> Int { rows == 0 ? 0 : 4 + headersMime.utf8.count + rows }

    /// Bytes of one header's row.
    public static func row(name: Int, value: Int) -> Int { 6 + name + value }

    /// Appends what precedes the headers' rows, which have `rows` bytes.
    public static func appendHead(headers rows: Int, into out: inout ByteBuffer) {
        CompositeMetadata.appendHead(name: headersMime, count: rows, into: &out)
    }

    public static func append(_ header: HeaderView, into out: inout ByteBuffer) {
        precondition(header.name.count <= longestName, "a header name is too long; check it first")
        out.append(bigEndian: UInt16(header.name.count))
        out.append(header.name)
        out.append(bigEndian: UInt32(header.value.count))
        out.append(header.value)
    }
}

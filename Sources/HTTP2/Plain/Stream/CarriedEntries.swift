// CarriedEntries: a publisher's composite metadata as it is told in HTTP, and what came by HTTP as composite metadata.
// The same as in gRPC: whichever protocol a message came by, subscribers of every other see the same of it.
//
//     content type   entry 0x7a, one `head[mime]`: a well-known id with bit 7 set, or length less one and the name
//     headers        entry application/vnd.forebay.headers: rows of u16 length, name, u32 length, value; all UTF-8
//     others         each a header named by its MIME type
//
// A value that is not UTF-8 is told in base64 without padding, under its name with `-bin` behind it.

import Bytes
import RSocket

/// The content type and the headers in a message's metadata. Pointers are into the metadata, or to constants.
public struct CarriedEntries {
    public static let headersMime = "application/vnd.forebay.headers"

    /// In ASCII; nil where the publisher told none that can be read.
    public private(set) var contentType: UnsafeRawBufferPointer?
    private let metadata: UnsafeRawBufferPointer

    /// Reads composite metadata as far as it is well-formed.
    public init(_ metadata: UnsafeRawBufferPointer) {
        self.metadata = metadata
        guard metadata.count > 0 else { return }
        var entries = CompositeMetadata.Iterator(metadata)
        while contentType == nil, let entry = try? entries.next() { contentType = CarriedEntries.contentType(entry) }
    }

    /// The headers, in order.
    var headers: Headers { Headers(metadata) }

    /// Walks over the headers.
    struct Headers: Sequence, IteratorProtocol {
        private var entries: CompositeMetadata.Iterator
        private var rows = Rows(rest: .empty)
        private var hasContentType = false

        fileprivate init(_ metadata: UnsafeRawBufferPointer) { entries = CompositeMetadata.Iterator(metadata) }

        mutating func next() -> CarriedRow? {
            while true {
                if let row = rows.next() { return row }
                guard let entry = try? entries.next() else { return nil }
                if !hasContentType, CarriedEntries.contentType(entry) != nil {
                    hasContentType = true
                } else if entry.id == nil, entry.name.elementsEqual(CarriedEntries.headersMime.utf8),
                    Rows(rest: entry.bytes).areWellFormed
                {
                    rows = Rows(rest: entry.bytes)
                } else {
                    return CarriedRow(entry)
                }
            }
        }
    }

    /// Walks over the content of an entry of headers.
    private struct Rows {
        var rest: UnsafeRawBufferPointer

        /// Nil at the end, and where the rest is no row.
        mutating func next() -> CarriedRow? {
            guard rest.count >= 2 else { return nil }
            let middle = 2 + Int(rest.bigEndian(at: 0, as: UInt16.self))
            guard rest.count - 4 >= middle else { return nil }
            let count = Int(rest.bigEndian(at: middle, as: UInt32.self))
            guard rest.count - 4 - middle >= count else { return nil }
            let end = middle + 4 + count
            let row = CarriedRow(name: rest.slice(2..<middle), value: rest.slice(middle + 4..<end))
            rest = rest.slice(end..<rest.count)
            return row
        }

        /// All of it is rows, and their names are text.
        var areWellFormed: Bool {
            var copy = self
            while let row = copy.next() { if JSONText.escapes(row.name) == nil { return false } }
            return copy.rest.isEmpty
        }
    }

    private static func contentType(_ entry: CompositeMetadata.Entry) -> UnsafeRawBufferPointer? {
        guard entry.id == MimeType.dataMimeID || entry.name.elementsEqual("message/x.rsocket.mime-type.v0".utf8),
            let head = entry.bytes.first
        else { return nil }
        if head & 0x80 != 0 { return entry.bytes.count == 1 ? WellKnownMime.name(head & 0x7F) : nil }
        guard entry.bytes.count == 2 + Int(head) else { return nil }
        let name = entry.bytes.slice(1..<entry.bytes.count)
        return name.allSatisfy { $0 >= 0x20 && $0 < 0x7F } ? name : nil
    }

    // MARK: Writing

    /// Appends a content type as an entry. It is ASCII, of 1 to 128 bytes.
    public static func append(contentType: String, into out: inout ByteBuffer) {
        if let id = WellKnownMime.id(contentType) {
            CompositeMetadata.appendHead(id: MimeType.dataMimeID, count: 1, into: &out)
            out.append(bigEndian: 0x80 | id)
            return
        }
        let length = contentType.utf8.count
        precondition((1...128).contains(length), "a MIME type in composite metadata has 1 to 128 bytes")
        CompositeMetadata.appendHead(id: MimeType.dataMimeID, count: 1 + length, into: &out)
        out.append(bigEndian: UInt8(length - 1))
        out.append(contentType)
    }

    /// Appends headers as an entry; nothing where there are none. A name has at most 65,535 bytes.
    public static func append(headers: [PlainHeader], into out: inout ByteBuffer) {
        guard !headers.isEmpty else { return }
        let count = headers.reduce(0) { $0 + 6 + $1.name.utf8.count + $1.value.utf8.count }
        CompositeMetadata.appendHead(name: headersMime, count: count, into: &out)
        for header in headers {
            precondition(header.name.utf8.count <= UInt16.max, "a header's name has a length of 16 bits")
            out.append(bigEndian: UInt16(header.name.utf8.count))
            out.append(header.name)
            out.append(bigEndian: UInt32(header.value.utf8.count))
            out.append(header.value)
        }
    }
}

/// A header as it is written: `"name":"value"`.
struct CarriedRow {
    /// UTF-8, but for a row that has not been looked at yet.
    private(set) var name: UnsafeRawBufferPointer
    let value: UnsafeRawBufferPointer
    /// An id that has no name: it is written as its number, `0x3b`.
    private let bareID: UInt8?
    /// Bytes that escapes add to the value; nil where it is not UTF-8.
    private let escapes: Int?

    fileprivate init(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) {
        self.name = name
        self.value = value
        bareID = nil
        escapes = JSONText.escapes(value)
    }

    fileprivate init(_ entry: CompositeMetadata.Entry) {
        value = entry.bytes
        escapes = JSONText.escapes(value)
        if let id = entry.id {
            let known = WellKnownMime.name(id)
            name = known ?? .empty
            bareID = known == nil ? id : nil
        } else {
            name = JSONText.escapes(entry.name) == nil ? WellKnownMime.bytes("unnamed") : entry.name
            bareID = nil
        }
    }

    var size: Int {
        let nameSize = bareID == nil ? name.count + (JSONText.escapes(name) ?? 0) : 4
        let valueSize =
            if let escapes { value.count + escapes } else {
                RawWriter.base64(value.count, isPadded: false) + "-bin".utf8.count
            }
        return "\"\":\"\"".utf8.count + nameSize + valueSize
    }

    func write(to out: inout RawWriter) {
        out.put(UInt8(ascii: "\""))
        if let bareID {
            out.put("0x")
            out.put(Hex.digit(bareID >> 4))
            out.put(Hex.digit(bareID & 15))
        } else {
            JSONText.write(name, to: &out)
        }
        if escapes == nil {
            out.put("-bin\":\"")
            out.put(base64: value, isPadded: false)
        } else {
            out.put("\":\"")
            JSONText.write(value, to: &out)
        }
        out.put(UInt8(ascii: "\""))
    }
}

extension UnsafeRawBufferPointer {
    fileprivate static var empty: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }
}

extension PublishCall {
    /// Appends what the message carries beside its payload, as composite metadata.
    public func appendMetadata(into out: inout ByteBuffer) {
        if let contentType { CarriedEntries.append(contentType: contentType, into: &out) }
        CarriedEntries.append(headers: headers, into: &out)
    }
}

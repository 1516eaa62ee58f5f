// CarriedEntries: what of a publisher's composite metadata has a place in HTTP and gRPC, and the way there and back.
//
//     content type   entry 0x7a, one `head[mime]`: a well-known id with bit 7 set, or length less one and the name
//     headers        entry application/vnd.forebay.headers: rows of u16 length, name, u16 length, value; all UTF-8

import Bytes
import RSocket

/// The content type and the headers in a message's metadata. Pointers are into the metadata, or to constants.
public struct CarriedEntries {
    public static let headersMime = "application/vnd.forebay.headers"
    /// Id of the entry that holds a content type.
    static let contentTypeID: UInt8 = 0x7A

    /// In ASCII; nil where the publisher told none, or none that can be read.
    public private(set) var contentType: UnsafeRawBufferPointer?
    /// To be read by `rows`; nil where there are none.
    private var headers: UnsafeRawBufferPointer?

    /// Reads composite metadata as far as it is well-formed. The first entry of each kind counts.
    public init(_ metadata: UnsafeRawBufferPointer) {
        guard metadata.count > 0 else { return }
        var entries = CompositeMetadata.Iterator(metadata)
        while let entry = try? entries.next() {
            if entry.id == CarriedEntries.contentTypeID {
                if contentType == nil { contentType = CarriedEntries.mime(entry.bytes) }
            } else if entry.id == nil, headers == nil, CarriedEntries.isHeaders(entry.name) {
                headers = entry.bytes
            }
        }
    }

    /// The headers, in order.
    public var rows: Rows { Rows(rest: headers ?? UnsafeRawBufferPointer(start: nil, count: 0)) }

    /// Walks over headers. A row that is cut short ends it; one that is not UTF-8 is passed over.
    public struct Rows: Sequence, IteratorProtocol {
        fileprivate var rest: UnsafeRawBufferPointer

        public mutating func next() -> (name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer)? {
            while let name = field(), let value = field() {
                if JSONText.escapes(name) != nil, JSONText.escapes(value) != nil { return (name, value) }
            }
            return nil
        }

        private mutating func field() -> UnsafeRawBufferPointer? {
            guard rest.count >= 2 else { return nil }
            let end = 2 + Int(rest.bigEndian(at: 0, as: UInt16.self))
            guard end <= rest.count else { return nil }
            defer { rest = rest.slice(end..<rest.count) }
            return rest.slice(2..<end)
        }
    }

    // MARK: Writing

    /// Appends a content type as an entry. It is ASCII, of 1 to 128 bytes.
    public static func append(contentType: String, into out: inout ByteBuffer) {
        if let id = WellKnownMime.id(contentType) {
            CompositeMetadata.appendHead(id: contentTypeID, count: 1, into: &out)
            out.append(bigEndian: 0x80 | id)
            return
        }
        let length = contentType.utf8.count
        precondition((1...128).contains(length), "a MIME type in composite metadata has 1 to 128 bytes")
        CompositeMetadata.appendHead(id: contentTypeID, count: 1 + length, into: &out)
        out.append(bigEndian: UInt8(length - 1))
        out.append(contentType)
    }

    /// Appends headers as an entry; nothing where there are none. Each name and value has at most 65,535 bytes.
    public static func append(headers: [PlainHeader], into out: inout ByteBuffer) {
        guard !headers.isEmpty else { return }
        let count = headers.reduce(0) { $0 + 4 + $1.name.utf8.count + $1.value.utf8.count }
        CompositeMetadata.appendHead(name: headersMime, count: count, into: &out)
        for header in headers {
            for text in [header.name, header.value] {
                precondition(text.utf8.count <= UInt16.max, "a message's header has names and values of 16-bit length")
                out.append(bigEndian: UInt16(text.utf8.count))
                out.append(text)
            }
        }
    }

    private static func mime(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        guard let head = bytes.first else { return nil }
        if head & 0x80 != 0 { return WellKnownMime.name(head & 0x7F) }
        let end = 2 + Int(head)
        guard end <= bytes.count else { return nil }
        let name = bytes.slice(1..<end)
        return name.allSatisfy { $0 >= 0x20 && $0 < 0x7F } ? name : nil
    }

    private static func isHeaders(_ name: UnsafeRawBufferPointer) -> Bool {
        name.count == headersMime.utf8.count && name.elementsEqual(headersMime.utf8)
    }
}

extension PublishCall {
    /// Appends what the message carries beside its payload, as composite metadata.
    public func appendMetadata(into out: inout ByteBuffer) {
        if let contentType { CarriedEntries.append(contentType: contentType, into: &out) }
        CarriedEntries.append(headers: headers, into: &out)
    }
}

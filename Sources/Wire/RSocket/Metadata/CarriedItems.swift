// CarriedItems: a message's metadata as subscribers over gRPC or plain HTTP receive it, item by item. Each protocol
// encodes the items in its own way; the items are the same.
//
//     the first entry 0x7a       the content type
//     the entry of headers       headers, unchanged; a value that is not UTF-8 is converted as below
//     any other entry            a header named after its MIME type. The value is the content if that is UTF-8;
//                                otherwise base64 without padding, with `-bin` appended to the name
//
// An entry 0x7a or an entry of headers that cannot be parsed is "any other entry", so nothing is lost. A well-known id
// without a name is shown as its number, such as `0x3b`; a name that is not UTF-8 becomes `unnamed`. MIME types are
// compared without regard to case. If a name occurs more than once, its last value counts, as in protobuf's maps.

import Bytes

/// Iterates over composite metadata as stored in the log. It stops at a truncated entry, but the broker rejects such
/// metadata at publish. Pointers point into the metadata or to constants.
public struct CarriedItems {
    public enum Item {
        case contentType(UnsafeRawBufferPointer)
        case header(CarriedHeader)
    }

    private var entries: CompositeMetadata.Iterator
    private var rows = HeaderRows(.nothing)
    private var hasContentType = false

    public init(_ metadata: UnsafeRawBufferPointer) { entries = CompositeMetadata.Iterator(metadata) }

    public mutating func next() -> Item? {
        while true {
            if let row = rows.next() { return .header(CarriedHeader(name: row.name, value: row.value)) }
            guard let entry = try? entries.next() else { return nil }
            if !hasContentType, let type = CarriedItems.contentType(entry) {
                hasContentType = true
                return .contentType(type)
            }
            let content = HeaderRows(entry.bytes)
            if entry.id == nil, MimeType.matches(entry.name, CarriedMetadata.headersMimeText), content.isWellFormed {
                rows = content
                continue
            }
            return .header(CarriedHeader(entry))
        }
    }

    /// The content type in `metadata`, in ASCII; nil if there is none or it cannot be parsed.
    public static func contentType(of metadata: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        var entries = CompositeMetadata.Iterator(metadata)
        while let entry = try? entries.next() {
            if let type = contentType(entry) { return type }
        }
        return nil
    }

    /// The MIME type of the data that an entry declares; nil if it declares none in printable ASCII.
    private static func contentType(_ entry: CompositeMetadata.Entry) -> UnsafeRawBufferPointer? {
        guard entry.id == MimeType.dataMimeID || MimeType.matches(entry.name, CarriedMetadata.dataMimeText),
            let head = entry.bytes.first
        else { return nil }
        if head & 0x80 != 0 { return entry.bytes.count == 1 ? WellKnownMime.name(head & 0x7F) : nil }
        guard entry.bytes.count == 2 + Int(head) else { return nil }
        let name = entry.bytes.slice(1..<entry.bytes.count)
        return CarriedMetadata.isPrintable(name) ? name : nil
    }
}

/// Iterates over the content of an entry of headers.
private struct HeaderRows {
    private var rest: UnsafeRawBufferPointer

    init(_ bytes: UnsafeRawBufferPointer) { rest = bytes }

    /// Nil at the end, or if the rest is not a row.
    mutating func next() -> HeaderView? {
        guard rest.count >= 2 else { return nil }
        let middle = 2 + Int(rest.bigEndian(at: 0, as: UInt16.self))
        guard rest.count - 4 >= middle else { return nil }
        let count = Int(rest.bigEndian(at: middle, as: UInt32.self))
        guard rest.count - 4 - middle >= count else { return nil }
        let end = middle + 4 + count
        let row = HeaderView(name: rest.slice(2..<middle), value: rest.slice(middle + 4..<end))
        rest = rest.slice(end..<rest.count)
        return row
    }

    /// Whether the content consists of rows whose names are UTF-8.
    var isWellFormed: Bool {
        var copy = self
        while let row = copy.next() { if !row.name.isUTF8 { return false } }
        return copy.rest.isEmpty
    }
}

/// A header as a subscriber receives it.
public struct CarriedHeader {
    /// UTF-8; empty if `bareID` is the name.
    private let name: UnsafeRawBufferPointer
    public let value: UnsafeRawBufferPointer
    /// Whether the value is not UTF-8 and is sent in base64.
    public let isBinary: Bool
    /// An id without a name, which is sent as its number, such as `0x3b`.
    private let bareID: UInt8?

    private static let suffix: StaticString = "-bin"

    /// - Parameter name: must be UTF-8.
    fileprivate init(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer, bareID: UInt8? = nil) {
        self.name = name
        self.value = value
        self.bareID = bareID
        isBinary = !value.isUTF8
    }

    fileprivate init(_ entry: CompositeMetadata.Entry) {
        if let id = entry.id {
            let known = WellKnownMime.name(id)
            self.init(name: known ?? .nothing, value: entry.bytes, bareID: known == nil ? id : nil)
        } else {
            self.init(name: entry.name.isUTF8 ? entry.name : WellKnownMime.bytes("unnamed"), value: entry.bytes)
        }
    }

    /// Bytes of the encoded name. `bytes` returns the encoded size of a text.
    public func nameSize(_ bytes: (UnsafeRawBufferPointer) -> Int) -> Int {
        (bareID == nil ? bytes(name) : 4) + (isBinary ? CarriedHeader.suffix.utf8CodeUnitCount : 0)
    }

    /// Writes the name, with `write` for text that needs encoding.
    public func writeName(to out: inout RawWriter, _ write: (UnsafeRawBufferPointer, inout RawWriter) -> Void) {
        if let bareID {
            out.put("0x")
            out.put(hex: bareID)
        } else {
            write(name, &out)
        }
        if isBinary { out.put(CarriedHeader.suffix) }
    }

    /// Bytes of the encoded value. `bytes` returns the encoded size of a text.
    public func valueSize(_ bytes: (UnsafeRawBufferPointer) -> Int) -> Int {
        isBinary ? Base64.size(value.count, isPadded: false) : bytes(value)
    }

    /// Writes the value, with `write` if it is text.
    public func writeValue(to out: inout RawWriter, _ write: (UnsafeRawBufferPointer, inout RawWriter) -> Void) {
        if isBinary { out.put(base64: value, isPadded: false) } else { write(value, &out) }
    }
}

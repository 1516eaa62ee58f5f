// HTTPFields: header and trailer fields to send, and HTTPFieldsView, a view of received ones.

import Bytes

/// Fields to send, in order. Names are lower case; names and values contain no CR, LF or NUL (RFC 9113, 8.2.1).
public struct HTTPFields: Sendable, ExpressibleByDictionaryLiteral {
    /// Names and values, concatenated.
    var bytes: [UInt8] = []
    /// Where each name and each value ends.
    var ends: [(name: Int, value: Int)] = []

    public init() {}

    public init(dictionaryLiteral elements: (String, String)...) {
        for (name, value) in elements { add(name, value) }
    }

    public var count: Int { ends.count }

    public mutating func add(_ name: String, _ value: String) {
        append(name)
        let middle = bytes.count
        append(value)
        ends.append((middle, bytes.count))
    }

    /// Copies memory, which is faster than byte by byte.
    private mutating func append(_ text: String) {
        var text = text
        text.withUTF8 { bytes.append(contentsOf: $0) }
    }

    public mutating func add(_ name: String, _ value: UnsafeRawBufferPointer) {
        bytes.append(contentsOf: name.utf8)
        let middle = bytes.count
        bytes.append(contentsOf: value)
        ends.append((middle, bytes.count))
    }

    /// Empties the list but keeps its memory.
    public mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        ends.removeAll(keepingCapacity: true)
    }
}

/// The location of a field in a header section.
struct FieldRange {
    var start: Int
    var nameEnd: Int
    var valueEnd: Int
}

/// Received fields; names are lower case. Valid until the next call of `next`, `feed` or `hold`.
public struct HTTPFieldsView {
    var base: UnsafeRawBufferPointer
    var ranges: UnsafeBufferPointer<FieldRange>

    public var count: Int { ranges.count }

    public subscript(index: Int) -> (name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) {
        let range = ranges[index]
        return (base.slice(range.start..<range.nameEnd), base.slice(range.nameEnd..<range.valueEnd))
    }

    /// The value of the first field called `name`, which must be lower case.
    public func first(_ name: StaticString) -> UnsafeRawBufferPointer? {
        let wanted = UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
        for index in 0..<count {
            let field = self[index]
            if field.name.count == wanted.count && field.name.elementsEqual(wanted) { return field.value }
        }
        return nil
    }

    /// A copy of the fields that stays valid.
    public func copied() -> HTTPFields {
        var fields = HTTPFields()
        for index in 0..<count {
            let field = self[index]
            fields.add(String(decoding: field.name, as: UTF8.self), field.value)
        }
        return fields
    }
}

/// The head of a request. Valid as long as an `HTTPFieldsView`.
public struct RequestHead {
    public var method: UnsafeRawBufferPointer
    /// Empty in a CONNECT request, as is `path`.
    public var scheme: UnsafeRawBufferPointer
    /// Empty if there is none.
    public var authority: UnsafeRawBufferPointer
    public var path: UnsafeRawBufferPointer
    /// All other fields.
    public var fields: HTTPFieldsView
}

/// The head of a response. Valid as long as an `HTTPFieldsView`.
public struct ResponseHead {
    /// 200 to 999 (RFC 9110, 15).
    public var status: Int
    public var fields: HTTPFieldsView
}

/// A header section while it is being received.
struct HeaderSection: ~Copyable {
    private var bytes = ByteBuffer()
    /// Allocated manually, because pointers into an array are not valid beyond a call.
    private var ranges = UnsafeMutableBufferPointer<FieldRange>(start: nil, count: 0)
    private var count = 0
    private var pseudo = Pseudo()
    /// Counted like SETTINGS_MAX_HEADER_LIST_SIZE (RFC 9113, 6.5.2).
    private(set) var size = 0
    /// What a field counts in addition to its name and value.
    static let fieldSize = 32

    private struct Pseudo {
        var method = 0..<0
        var scheme = 0..<0
        var authority = 0..<0
        var path = 0..<0
        var status = 0..<0
    }

    deinit { ranges.deallocate() }

    var capacity: Int { bytes.capacity + ranges.count * MemoryLayout<FieldRange>.stride }

    mutating func clear() {
        // Free the memory of a long section.
        bytes.removeAll()
        bytes.shrink(above: 4 << 10)
        if ranges.count > 64 {
            ranges.deallocate()
            ranges = UnsafeMutableBufferPointer(start: nil, count: 0)
        }
        count = 0
        pseudo = Pseudo()
        size = 0
    }

    /// Adds a field; beyond `limit` it is counted but not stored.
    mutating func add(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer, limit: Int) {
        size += name.count + value.count + Self.fieldSize
        guard size <= limit else { return }
        let start = bytes.count
        if name.first == UInt8(ascii: ":") {
            bytes.append(value)
            let range = start..<bytes.count
            // Nghttp2 accepts no other name, and none twice.
            switch name.count {
            case 5: pseudo.path = range
            case 7 where name[1] == UInt8(ascii: "m"): pseudo.method = range
            case 7 where name[2] == UInt8(ascii: "t"): pseudo.status = range
            case 7: pseudo.scheme = range
            case 10: pseudo.authority = range
            default: break
            }
            return
        }
        bytes.append(name)
        let middle = bytes.count
        bytes.append(value)
        if count == ranges.count { grow() }
        ranges[count] = FieldRange(start: start, nameEnd: middle, valueEnd: bytes.count)
        count += 1
    }

    private mutating func grow() {
        let larger = UnsafeMutableBufferPointer<FieldRange>.allocate(capacity: max(16, 2 * ranges.count))
        larger.initialize(repeating: FieldRange(start: 0, nameEnd: 0, valueEnd: 0))
        for index in 0..<count { larger[index] = ranges[index] }
        ranges.deallocate()
        ranges = larger
    }

    /// Returns the fields; the pointers are valid until the next change.
    func fields() -> HTTPFieldsView {
        HTTPFieldsView(base: bytes.readable, ranges: UnsafeBufferPointer(rebasing: ranges[0..<count]))
    }

    /// The status of a response; nil in trailers. Nghttp2 has checked that it has three digits.
    var status: Int? {
        pseudo.status.isEmpty ? nil : bytes.readable.slice(pseudo.status).reduce(0) { $0 * 10 + Int($1 & 15) }
    }

    func head() -> RequestHead {
        let all = bytes.readable
        return RequestHead(
            method: all.slice(pseudo.method), scheme: all.slice(pseudo.scheme), authority: all.slice(pseudo.authority),
            path: all.slice(pseudo.path), fields: fields())
    }
}

// Header and trailer fields: a list that the owner fills, and a view of those that came.

import Bytes

/// Fields to send, in order. Names are lower case; names and values hold what RFC 9110, 5.5 allows – no CR, LF, NUL.
public struct HTTPFields: Sendable, ExpressibleByDictionaryLiteral {
    /// Names and values, one behind the other.
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

    /// By memory, not byte by byte.
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

    /// Empties the list; its memory is kept for the next use.
    public mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        ends.removeAll(keepingCapacity: true)
    }
}

/// Where a field lies in a header section.
struct FieldRange {
    var start: Int
    var nameEnd: Int
    var valueEnd: Int
}

/// Fields that came; names are lower case. Valid until the next call of `next`, `feed` or `hold`.
public struct HTTPFieldsView {
    var base: UnsafeRawBufferPointer
    var ranges: UnsafeBufferPointer<FieldRange>

    public var count: Int { ranges.count }

    public subscript(index: Int) -> (name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer) {
        let range = ranges[index]
        return (base.slice(range.start..<range.nameEnd), base.slice(range.nameEnd..<range.valueEnd))
    }

    /// The value of the first field called `name`, which is given in lower case.
    public func first(_ name: StaticString) -> UnsafeRawBufferPointer? {
        let wanted = UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
        for index in 0..<count {
            let field = self[index]
            if field.name.count == wanted.count && field.name.elementsEqual(wanted) { return field.value }
        }
        return nil
    }

    /// The same fields, to keep.
    public func copied() -> HTTPFields {
        var fields = HTTPFields()
        for index in 0..<count {
            let field = self[index]
            fields.add(String(decoding: field.name, as: UTF8.self), field.value)
        }
        return fields
    }
}

/// The head of a request. Valid as `HTTPFieldsView` is.
public struct RequestHead {
    public var method: UnsafeRawBufferPointer
    /// Empty in a CONNECT request, as is the path.
    public var scheme: UnsafeRawBufferPointer
    /// Empty when there is none.
    public var authority: UnsafeRawBufferPointer
    public var path: UnsafeRawBufferPointer
    /// All others.
    public var fields: HTTPFieldsView
}

/// The head of a response. Valid as `HTTPFieldsView` is.
public struct ResponseHead {
    /// 200 to 999 (RFC 9110, 15).
    public var status: Int
    public var fields: HTTPFieldsView
}

/// A header section while it comes.
struct HeaderSection: ~Copyable {
    private var bytes = ByteBuffer()
    /// Memory of its own, as an array's may not be pointed to beyond a call.
    private var ranges = UnsafeMutableBufferPointer<FieldRange>(start: nil, count: 0)
    private var count = 0
    private var pseudo = Pseudo()
    /// As SETTINGS_MAX_HEADER_LIST_SIZE counts (RFC 9113, 6.5.2).
    private(set) var size = 0
    /// What a field counts beside its name and value.
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
        // A long section does not hold its memory until the connection ends.
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

    /// Adds a field; beyond `limit` it is counted but not kept.
    mutating func add(name: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer, limit: Int) {
        size += name.count + value.count + Self.fieldSize
        guard size <= limit else { return }
        let start = bytes.count
        if name.first == UInt8(ascii: ":") {
            bytes.append(value)
            let range = start..<bytes.count
            // nghttp2 lets no other name, and none twice, come this far.
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

    /// Hands out the fields; the pointers are valid until the next change.
    func fields() -> HTTPFieldsView {
        HTTPFieldsView(base: bytes.readable, ranges: UnsafeBufferPointer(rebasing: ranges[0..<count]))
    }

    /// The status of a response, nil in trailers. Nghttp2 has seen that it is three digits.
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

// CompositeMetadata: entries of `head:u8 [mime] length:u24 bytes`, read in place and written. If bit 7 of the head is
// set, the low 7 bits are a well-known MIME id. If it is clear, they are the MIME type's length minus one, as in
// rsocket-java, -js and -py, although the specification's text suggests the plain length.

import Bytes

/// Reading and writing of `message/x.rsocket.composite-metadata.v0`.
public enum CompositeMetadata {
    /// One entry. The pointers point into the metadata that was parsed.
    public struct Entry {
        /// The well-known MIME id; nil if the type is spelled out.
        public var id: UInt8?
        /// The MIME type as spelled; empty if there is an id.
        public var name: UnsafeRawBufferPointer
        /// The entry's content.
        public var bytes: UnsafeRawBufferPointer
        /// The range of the whole entry in the metadata, including its head.
        public var range: Range<Int>

        /// Whether the entry is a route, by id or by name.
        public var isRouting: Bool {
            id == MimeType.routingID || MimeType.matches(name, "message/x.rsocket.routing.v0")
        }

        /// Whether the entry contains credentials, by id or by name.
        public var isAuthentication: Bool {
            id == MimeType.authenticationID || MimeType.matches(name, "message/x.rsocket.authentication.v0")
        }
    }

    /// Iterates over the entries in order.
    public struct Iterator {
        private let metadata: UnsafeRawBufferPointer
        private let stream: UInt32
        private var offset = 0

        /// - Parameter stream: the stream to name in errors.
        public init(_ metadata: UnsafeRawBufferPointer, stream: UInt32 = 0) {
            self.metadata = metadata
            self.stream = stream
        }

        /// The next entry; nil after the last.
        ///
        /// - Throws: INVALID on the stream if an entry extends beyond the metadata's end.
        public mutating func next() throws(RSocketError) -> Entry? {
            guard offset < metadata.count else { return nil }
            let start = offset
            let head = metadata[start]
            let nameEnd = start + 1 + (head & 0x80 != 0 ? 0 : Int(head) + 1)
            guard nameEnd + 3 <= metadata.count else {
                throw malformed(start, "ends within its MIME type or length")
            }
            let length = metadata.u24(at: nameEnd)
            let end = nameEnd + 3 + length
            guard end <= metadata.count else {
                throw malformed(
                    start, "declares \(length) bytes, but only \(metadata.count - nameEnd - 3) are left")
            }
            offset = end
            return Entry(
                id: head & 0x80 != 0 ? head & 0x7f : nil, name: metadata.slice(start + 1..<nameEnd),
                bytes: metadata.slice(nameEnd + 3..<end), range: start..<end)
        }

        private func malformed(_ start: Int, _ what: String) -> RSocketError {
            .stream(stream, .invalid, "The composite metadata is malformed: the entry at byte \(start) \(what).")
        }
    }

    // MARK: Metadata carried from publisher to subscriber

    /// How many bytes `appendCarried` would append: 0 in the usual case of a message with only its route.
    ///
    /// - Parameter most: the largest allowed number of carried entries.
    /// - Throws: INVALID on the stream if the metadata is malformed or has more entries (`Bound.metadata`).
    public static func carriedCount(
        _ metadata: UnsafeRawBufferPointer, form: MetadataForm, stream: UInt32 = 0, most: Int = .max
    ) throws(RSocketError) -> Int {
        guard form == .composite else { return 0 }
        var entries = Iterator(metadata, stream: stream)
        var count = 0
        var number = 0
        while let entry = try entries.next() {
            guard !entry.isRouting, !entry.isAuthentication else { continue }
            count += entry.range.count
            number += 1
            guard number <= most else {
                throw .stream(
                    stream, .invalid,
                    "A message has more than \(most) metadata entries besides its route; send fewer, or larger ones.",
                    bound: .metadata)
            }
        }
        return count
    }

    /// Appends the entries of a publisher's metadata that subscribers receive, unchanged and in order: all except
    /// routes and credentials. Metadata that is not composite is only a route, so none of it is carried.
    ///
    /// - Throws: INVALID on the stream if the metadata is malformed; `out` may then hold some of its entries.
    public static func appendCarried(
        _ metadata: UnsafeRawBufferPointer, form: MetadataForm, stream: UInt32 = 0, into out: inout ByteBuffer
    ) throws(RSocketError) {
        guard form == .composite else { return }
        var entries = Iterator(metadata, stream: stream)
        // Copy adjacent entries together.
        var run = 0..<0
        while let entry = try entries.next() {
            if entry.isRouting || entry.isAuthentication { continue }
            if entry.range.lowerBound == run.upperBound {
                run = run.lowerBound..<entry.range.upperBound
            } else {
                out.append(metadata.slice(run))
                run = entry.range
            }
        }
        out.append(metadata.slice(run))
    }

    // MARK: Writing

    /// Appends an entry with a well-known MIME id.
    public static func appendEntry(id: UInt8, _ bytes: UnsafeRawBufferPointer, into out: inout ByteBuffer) {
        appendHead(id: id, count: bytes.count, into: &out)
        out.append(bytes)
    }

    /// Appends an entry with its MIME type spelled out, in 1 to 128 bytes.
    public static func appendEntry(name: String, _ bytes: UnsafeRawBufferPointer, into out: inout ByteBuffer) {
        appendHead(name: name, count: bytes.count, into: &out)
        out.append(bytes)
    }

    /// Appends what precedes an entry's `count` bytes, which the caller appends itself.
    public static func appendHead(id: UInt8, count: Int, into out: inout ByteBuffer) {
        precondition(count <= Wire.maxFrame, "an entry of composite metadata has at most 16,777,215 bytes")
        out.append(bigEndian: 0x80 | id)
        out.append(u24: count)
    }

    /// Appends what precedes an entry's `count` bytes, which the caller appends itself.
    public static func appendHead(name: String, count: Int, into out: inout ByteBuffer) {
        let length = name.utf8.count
        precondition((1...128).contains(length), "a MIME type in composite metadata has 1 to 128 bytes")
        precondition(count <= Wire.maxFrame, "an entry of composite metadata has at most 16,777,215 bytes")
        out.append(bigEndian: UInt8(length - 1))
        out.append(name)
        out.append(u24: count)
    }

    /// Appends a routing entry.
    ///
    /// - Parameter tags: the route first, then one `option=value` each for options that do not fit its 255 bytes.
    /// - Throws: INVALID if there is no tag, or one is longer than 255 bytes.
    public static func appendRoute(_ tags: [String], into out: inout ByteBuffer) throws(RSocketError) {
        for tag in tags where tag.utf8.count > 255 {
            throw .stream(
                0, .invalid,
                "A route tag has \(tag.utf8.count) bytes, more than 255; shorten it, or "
                    + "send its options as separate tags.")
        }
        guard !tags.isEmpty else { throw .stream(0, .invalid, "A route needs at least one tag.") }
        appendHead(id: MimeType.routingID, count: tags.reduce(0) { $0 + 1 + $1.utf8.count }, into: &out)
        for tag in tags {
            out.append(bigEndian: UInt8(tag.utf8.count))
            out.append(tag)
        }
    }
}

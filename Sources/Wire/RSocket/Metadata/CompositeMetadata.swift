// Composite metadata: entries of `head:u8 [mime] length:u24 bytes`, read in place and written.
// With bit 7 of the head set, the low 7 bits are a well-known MIME id. Clear, they are the MIME type's length minus
// one: so rsocket-java, -js and -py have it, although the specification's text reads as the plain length.

import Bytes

/// Reading and writing of `message/x.rsocket.composite-metadata.v0`.
public enum CompositeMetadata {
    /// One entry. The pointers are into the metadata it was read from.
    public struct Entry {
        /// The well-known MIME id, or nil where the type is spelt out.
        public var id: UInt8?
        /// The MIME type as spelt; empty where there is an id.
        public var name: UnsafeRawBufferPointer
        /// What the entry holds.
        public var bytes: UnsafeRawBufferPointer
        /// Where the whole entry, its head included, lies in the metadata.
        public var range: Range<Int>

        /// A route, by id or by name.
        public var isRouting: Bool {
            id == MimeType.routingID || MimeType.matches(name, "message/x.rsocket.routing.v0")
        }

        /// Credentials, by id or by name.
        public var isAuthentication: Bool {
            id == MimeType.authenticationID || MimeType.matches(name, "message/x.rsocket.authentication.v0")
        }
    }

    /// Walks over the entries in order.
    public struct Iterator {
        private let metadata: UnsafeRawBufferPointer
        private let stream: UInt32
        private var offset = 0

        /// - Parameter stream: the stream that an error names.
        public init(_ metadata: UnsafeRawBufferPointer, stream: UInt32 = 0) {
            self.metadata = metadata
            self.stream = stream
        }

        /// The next entry, nil after the last.
        ///
        /// - Throws: INVALID on the stream when an entry goes beyond the metadata's end.
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
                    start, "says it holds \(length) bytes where \(metadata.count - nameEnd - 3) are left")
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

    // MARK: What is carried from publisher to subscriber

    /// How many bytes `appendCarried` would append: 0 in the usual case of a message with nothing but its route.
    ///
    /// - Parameter most: entries that may be carried.
    /// - Throws: INVALID on the stream when the metadata is malformed, or has more entries (`Bound.metadata`).
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
                    "A message has more than \(most) entries of metadata beside its route; send fewer, or larger ones.",
                    bound: .metadata)
            }
        }
        return count
    }

    /// Appends the entries of a publisher's metadata that go to subscribers, unchanged and in order: all but routes and
    /// credentials. Metadata that is not composite is nothing but a route, so nothing of it is carried.
    ///
    /// - Throws: INVALID on the stream when the metadata is malformed; `out` may then hold some of its entries.
    public static func appendCarried(
        _ metadata: UnsafeRawBufferPointer, form: MetadataForm, stream: UInt32 = 0, into out: inout ByteBuffer
    ) throws(RSocketError) {
        guard form == .composite else { return }
        var entries = Iterator(metadata, stream: stream)
        // Neighbours go in one copy.
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

    /// Appends an entry whose MIME type is spelt out, in 1 to 128 bytes.
    public static func appendEntry(name: String, _ bytes: UnsafeRawBufferPointer, into out: inout ByteBuffer) {
        appendHead(name: name, count: bytes.count, into: &out)
        out.append(bytes)
    }

    /// Appends what stands before the `count` bytes of an entry, which the caller appends itself.
    public static func appendHead(id: UInt8, count: Int, into out: inout ByteBuffer) {
        precondition(count <= Wire.maxFrame, "an entry of composite metadata has at most 16,777,215 bytes")
        out.append(bigEndian: 0x80 | id)
        out.append(u24: count)
    }

    /// Appends what stands before the `count` bytes of an entry, which the caller appends itself.
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
    /// - Parameter tags: the route first, then one `option=value` each where they do not fit the route's 255 bytes.
    /// - Throws: INVALID when there is no tag, or one is longer than 255 bytes.
    public static func appendRoute(_ tags: [String], into out: inout ByteBuffer) throws(RSocketError) {
        for tag in tags where tag.utf8.count > 255 {
            throw .stream(
                0, .invalid,
                "A route tag holds at most 255 bytes, and one has \(tag.utf8.count): shorten it, or "
                    + "give its options as tags of their own.")
        }
        guard !tags.isEmpty else { throw .stream(0, .invalid, "A route needs at least one tag.") }
        appendHead(id: MimeType.routingID, count: tags.reduce(0) { $0 + 1 + $1.utf8.count }, into: &out)
        for tag in tags {
            out.append(bigEndian: UInt8(tag.utf8.count))
            out.append(tag)
        }
    }
}

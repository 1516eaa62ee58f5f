// RequestMetadata: the route of a request, in whichever of the three forms its client sends it.

import Bytes

/// The route of a request and its further tags, as text.
public struct RequestMetadata: Sendable, Equatable {
    /// `TOPIC?option=value&…`: the first tag, or the plain text. Never empty.
    public var route: String
    /// One `option=value` each.
    public var extraTags: [String]

    /// Reads the route from a request's metadata.
    ///
    /// - Parameters:
    ///   - metadata: nil where the request had none.
    ///   - form: as SETUP's metadata MIME type told.
    ///   - stream: the stream that an error names.
    /// - Throws: INVALID on the stream when there is no route, more than one, one that is not UTF-8, or when the
    ///   metadata is malformed.
    public static func parse(
        _ metadata: UnsafeRawBufferPointer?, form: MetadataForm, stream: UInt32 = 0
    ) throws(RSocketError) -> RequestMetadata {
        try RequestMetadata(RouteTags(metadata, form: form, stream: stream), stream: stream)
    }

    fileprivate static func text(_ bytes: UnsafeRawBufferPointer, _ stream: UInt32) throws(RSocketError) -> String {
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw .stream(stream, .invalid, "The route is not valid UTF-8.")
        }
        return text
    }
}

extension RequestMetadata {
    /// The text of `tags`.
    ///
    /// - Parameter stream: the stream that an error names.
    /// - Throws: INVALID on the stream when one of them is not UTF-8.
    public init(_ tags: RouteTags, stream: UInt32 = 0) throws(RSocketError) {
        var tags = tags
        route = try RequestMetadata.text(tags.route, stream)
        extraTags = []
        while let tag = tags.nextExtra() { extraTags.append(try RequestMetadata.text(tag, stream)) }
    }
}

/// The same route as bytes in place, for a caller that must not allocate: one that looks it up in a cache, say.
public struct RouteTags {
    /// The route; never empty, not yet checked to be UTF-8.
    public let route: UnsafeRawBufferPointer
    /// The further tags as they lie, each with its length; already checked.
    public let extra: UnsafeRawBufferPointer
    /// The metadata holds nothing but the route: there is nothing in it to be carried.
    public let isAlone: Bool
    private var offset = 0

    /// Finds the route. Parameters and errors as with `RequestMetadata.parse`, but for UTF-8.
    public init(
        _ metadata: UnsafeRawBufferPointer?, form: MetadataForm, stream: UInt32 = 0
    ) throws(RSocketError) {
        guard let metadata else {
            throw .stream(
                stream, .invalid, "The request has no metadata, so no route: name a topic as the route.")
        }
        switch form {
        case .plain:
            route = metadata
            extra = UnsafeRawBufferPointer(start: nil, count: 0)
            isAlone = true
        case .routing:
            (route, extra) = try Self.split(metadata, stream)
            isAlone = true
        case .composite:
            let entry = try Self.routingEntry(metadata, stream)
            (route, extra) = try Self.split(entry.bytes, stream)
            isAlone = entry.range.count == metadata.count
        }
        guard !route.isEmpty else {
            throw .stream(stream, .invalid, "The request's route is empty: name a topic as the route.")
        }
    }

    /// The next further tag, nil after the last.
    public mutating func nextExtra() -> UnsafeRawBufferPointer? {
        guard offset < extra.count else { return nil }
        let end = offset + 1 + Int(extra[offset])
        defer { offset = end }
        return extra.slice(offset + 1..<end)
    }

    private static func routingEntry(
        _ metadata: UnsafeRawBufferPointer, _ stream: UInt32
    ) throws(RSocketError) -> CompositeMetadata.Entry {
        var entries = CompositeMetadata.Iterator(metadata, stream: stream)
        var found: CompositeMetadata.Entry?
        // To the end, so that malformed metadata is refused wherever the fault is.
        while let entry = try entries.next() {
            guard entry.isRouting else { continue }
            guard found == nil else {
                throw .stream(stream, .invalid, "The composite metadata holds more than one routing entry.")
            }
            found = entry
        }
        guard let found else {
            throw .stream(
                stream, .invalid,
                "The composite metadata holds no routing entry (0x7E): name a topic as the route.")
        }
        return found
    }

    /// Splits a tag list into its first tag and the rest, and checks every tag's length.
    private static func split(
        _ tags: UnsafeRawBufferPointer, _ stream: UInt32
    ) throws(RSocketError) -> (UnsafeRawBufferPointer, UnsafeRawBufferPointer) {
        guard let first = tags.first else {
            throw .stream(stream, .invalid, "The routing metadata holds no tag: name a topic as the route.")
        }
        var offset = 0
        while offset < tags.count {
            let end = offset + 1 + Int(tags[offset])
            guard end <= tags.count else {
                throw .stream(
                    stream, .invalid,
                    "The routing metadata is malformed: the tag at byte \(offset) says it has \(tags[offset]) bytes "
                        + "where \(tags.count - offset - 1) are left.")
            }
            offset = end
        }
        let split = 1 + Int(first)
        return (tags.slice(1..<split), tags.slice(split..<tags.count))
    }
}

// RequestMetadata: the route of a request, in any of the three forms that clients send.

import Bytes

/// The route of a request and its additional tags, as text.
public struct RequestMetadata: Sendable, Equatable {
    /// `TOPIC?option=value&…`: the first tag, or the plain text. Never empty.
    public var route: String
    /// One `option=value` each.
    public var extraTags: [String]

    /// Reads the route from a request's metadata.
    ///
    /// - Parameters:
    ///   - metadata: nil if the request had none.
    ///   - form: as given by SETUP's metadata MIME type.
    ///   - stream: the stream to name in errors.
    /// - Throws: INVALID on the stream if there is no route, more than one, one that is not UTF-8, or if the metadata
    ///   is malformed.
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
    /// Converts `tags` to text.
    ///
    /// - Parameter stream: the stream to name in errors.
    /// - Throws: INVALID on the stream if one of them is not UTF-8.
    public init(_ tags: RouteTags, stream: UInt32 = 0) throws(RSocketError) {
        var tags = tags
        route = try RequestMetadata.text(tags.route, stream)
        extraTags = []
        while let tag = tags.nextExtra() { extraTags.append(try RequestMetadata.text(tag, stream)) }
    }
}

/// The same route as bytes in place, for a caller that must not allocate, such as a cache lookup.
public struct RouteTags {
    /// The route; never empty, not yet checked for UTF-8.
    public let route: UnsafeRawBufferPointer
    /// The additional tags in their encoded form, each with its length; already validated.
    public let extra: UnsafeRawBufferPointer
    /// Whether the metadata contains only the route, which leaves nothing to carry.
    public let isAlone: Bool
    private var offset = 0

    /// Finds the route. Parameters and errors are those of `RequestMetadata.parse`, except that UTF-8 is not checked.
    public init(
        _ metadata: UnsafeRawBufferPointer?, form: MetadataForm, stream: UInt32 = 0
    ) throws(RSocketError) {
        guard let metadata else {
            throw .stream(
                stream, .invalid, "The request has no metadata and so no route; name a topic as the route.")
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
            throw .stream(stream, .invalid, "The request's route is empty; name a topic as the route.")
        }
    }

    /// The next additional tag; nil after the last.
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
        // Continue to the end, so that malformed metadata is rejected wherever the fault is.
        while let entry = try entries.next() {
            guard entry.isRouting else { continue }
            guard found == nil else {
                throw .stream(stream, .invalid, "The composite metadata has more than one routing entry.")
            }
            found = entry
        }
        guard let found else {
            throw .stream(
                stream, .invalid,
                "The composite metadata has no routing entry (0x7E); name a topic as the route.")
        }
        return found
    }

    /// Splits a list of tags into the first one and the rest, and checks every tag's length.
    private static func split(
        _ tags: UnsafeRawBufferPointer, _ stream: UInt32
    ) throws(RSocketError) -> (UnsafeRawBufferPointer, UnsafeRawBufferPointer) {
        guard let first = tags.first else {
            throw .stream(stream, .invalid, "The routing metadata has no tag; name a topic as the route.")
        }
        var offset = 0
        while offset < tags.count {
            let end = offset + 1 + Int(tags[offset])
            guard end <= tags.count else {
                throw .stream(
                    stream, .invalid,
                    "The routing metadata is malformed: the tag at byte \(offset) declares \(tags[offset]) bytes, "
                        + "but only \(tags.count - offset - 1) are left.")
            }
            offset = end
        }
        let split = 1 + Int(first)
        return (tags.slice(1..<split), tags.slice(split..<tags.count))
    }
}

// MessageHeaders: content type and headers of a message in gRPC: `content_type` and the map `headers` in protobuf's
// encoding, from publishers and to subscribers.

import Bytes
import RSocket

/// What a publisher's message has besides its payload.
public enum MessageHeaders {
    /// Bytes of the composite metadata for a message's content type and headers; 0 if it has none.
    ///
    /// - Parameter limit: the broker's limit for metadata.
    /// - Throws: INVALID_ARGUMENT for a content type that is too long or not printable ASCII, RESOURCE_EXHAUSTED for
    ///   too many headers or more bytes than `limit`.
    public static func metadataCount(of message: PublishedMessage, limit: Int) throws(GRPCError) -> Int {
        guard CarriedMetadata.isContentType(message.contentType) else {
            throw .invalid(
                "A content_type must be a MIME type of at most \(CarriedMetadata.longestContentType) bytes of "
                    + "printable ASCII, such as application/json.")
        }
        guard message.headers.allSatisfy({ $0.name.count <= CarriedMetadata.longestName }) else {
            throw GRPCError(
                .resourceExhausted,
                "A header name has more than \(CarriedMetadata.longestName) bytes; shorten it.")
        }
        let count =
            CarriedMetadata.size(contentType: message.contentType) + CarriedMetadata.size(headers: rows(of: message))
        guard count <= Swift.min(limit, Wire.maxFrame) else {
            throw GRPCError(
                .resourceExhausted,
                "The message's headers have \(count) bytes; send at most \(limit), and the rest in the payload.")
        }
        return count
    }

    /// Appends the composite metadata for a message's content type and headers. Call `metadataCount` first to check
    /// that it is allowed.
    public static func appendMetadata(of message: PublishedMessage, into out: inout ByteBuffer) {
        CarriedMetadata.append(contentType: message.contentType, into: &out)
        guard !message.headers.isEmpty else { return }
        CarriedMetadata.appendHead(headers: rows(of: message), into: &out)
        for header in message.headers { CarriedMetadata.append(header, into: &out) }
    }

    private static func rows(of message: PublishedMessage) -> Int {
        message.headers.reduce(0) { $0 + CarriedMetadata.row(name: $1.name.count, value: $1.value.count) }
    }
}

extension Protobuf {
    /// Bytes of a header as a map entry, which is an embedded message of name and value.
    static func size(_ header: CarriedHeader) -> Int { size(bytes: entrySize(header)) }

    fileprivate static func entrySize(_ header: CarriedHeader) -> Int {
        size(bytes: header.nameSize(\.count)) + size(bytes: header.valueSize(\.count))
    }
}

extension RawWriter {
    /// Writes a header as an entry of the map with field number `number`.
    mutating func field(_ number: UInt8, _ header: CarriedHeader) {
        head(number, count: Protobuf.entrySize(header))
        head(1, count: header.nameSize(\.count))
        header.writeName(to: &self) { $1.put($0) }
        head(2, count: header.valueSize(\.count))
        header.writeValue(to: &self) { $1.put($0) }
    }
}

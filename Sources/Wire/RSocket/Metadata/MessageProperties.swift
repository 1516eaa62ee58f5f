// MessageProperties: a message's content type and headers for a client, written in each protocol's form and read from
// composite metadata, whatever the publisher's protocol.

import Bytes

/// The content type and the headers of a message.
public struct MessageProperties: Equatable, Sendable {
    /// A MIME type; empty if there is none.
    public var contentType: String
    /// In order; if a name occurs more than once, the last one counts.
    public var headers: [(name: String, value: String)]

    /// The largest number of headers of a message.
    public static let mostHeaders = CarriedMetadata.mostHeaders

    public init(contentType: String = "", headers: [(name: String, value: String)] = []) {
        self.contentType = contentType
        self.headers = headers
    }

    public static func == (a: Self, b: Self) -> Bool {
        a.contentType == b.contentType && a.headers.elementsEqual(b.headers, by: ==)
    }

    public var isEmpty: Bool { contentType.isEmpty && headers.isEmpty }

    /// Whether the properties can be encoded: the content type is ASCII of at most 128 characters, and neither the
    /// number of headers nor a name exceeds its limit.
    public var isValid: Bool {
        CarriedMetadata.isContentType(contentType.utf8) && headers.count <= Self.mostHeaders
            && headers.allSatisfy { $0.name.utf8.count <= CarriedMetadata.longestName }
            && rows <= Wire.maxFrame / 2
    }

    private var rows: Int {
        headers.reduce(0) { $0 + CarriedMetadata.row(name: $1.name.utf8.count, value: $1.value.utf8.count) }
    }

    /// Appends the entries of composite metadata. Requires `isValid`.
    public func appendMetadata(into out: inout ByteBuffer) {
        var type = contentType
        type.withUTF8 { CarriedMetadata.append(contentType: UnsafeRawBufferPointer($0), into: &out) }
        guard !headers.isEmpty else { return }
        CarriedMetadata.appendHead(headers: rows, into: &out)
        for (name, value) in headers {
            var (name, value) = (name, value)
            name.withUTF8 { name in
                value.withUTF8 { value in
                    let view = HeaderView(name: UnsafeRawBufferPointer(name), value: UnsafeRawBufferPointer(value))
                    CarriedMetadata.append(view, into: &out)
                }
            }
        }
    }

    /// Reads composite metadata as gRPC subscribers receive it: other entries become headers named after their MIME
    /// types, and values that are not UTF-8 become base64, with `-bin` appended to the name.
    public init(metadata: UnsafeRawBufferPointer) {
        self.init()
        var items = CarriedItems(metadata)
        while let item = items.next() {
            switch item {
            case .contentType(let type): contentType = String(decoding: type, as: UTF8.self)
            case .header(let header):
                let name = Self.text(header.nameSize(\.count)) { header.writeName(to: &$0) { $1.put($0) } }
                let value = Self.text(header.valueSize(\.count)) { header.writeValue(to: &$0) { $1.put($0) } }
                headers.append((name, value))
            }
        }
    }

    private static func text(_ size: Int, _ write: (inout RawWriter) -> Void) -> String {
        String(unsafeUninitializedCapacity: size) { buffer in
            guard let start = buffer.baseAddress, size > 0 else { return 0 }
            var writer = RawWriter(UnsafeMutableRawPointer(start))
            write(&writer)
            return size
        }
    }
}

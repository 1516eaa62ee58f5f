// MessageProperties: what goes with a message beside its payload, for a client: written as the protocols have it, read
// from composite metadata, whatever protocol it came by.

import Bytes

/// The content type and the headers of a message.
public struct MessageProperties: Equatable, Sendable {
    /// A MIME type; empty if there is none.
    public var contentType: String
    /// In order; of a name that comes twice the last counts.
    public var headers: [(name: String, value: String)]

    /// Headers that a message may have.
    public static let mostHeaders = CarriedMetadata.mostHeaders

    public init(contentType: String = "", headers: [(name: String, value: String)] = []) {
        self.contentType = contentType
        self.headers = headers
    }

    public static func == (a: Self, b: Self) -> Bool {
        a.contentType == b.contentType && a.headers.elementsEqual(b.headers, by: ==)
    }

    public var isEmpty: Bool { contentType.isEmpty && headers.isEmpty }

    /// It can be written: the content type is at most 128 characters of ASCII, and there are not too many headers, none
    /// of them with too long a name.
    public var isValid: Bool {
        CarriedMetadata.isContentType(contentType.utf8) && headers.count <= Self.mostHeaders
            && headers.allSatisfy { $0.name.utf8.count <= CarriedMetadata.longestName }
            && rows <= Wire.maxFrame / 2
    }

    private var rows: Int {
        headers.reduce(0) { $0 + CarriedMetadata.row(name: $1.name.utf8.count, value: $1.value.utf8.count) }
    }

    /// Appends the entries of composite metadata; `isValid` holds.
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

    /// Reads composite metadata, as a subscriber over gRPC gets it: entries that are neither are headers named by their
    /// MIME types, and values that are not UTF-8 come in base64, with `-bin` behind the name.
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

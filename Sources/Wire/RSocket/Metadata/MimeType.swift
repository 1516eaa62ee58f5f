// MimeType: the MIME types that the broker and its clients use, and the form of a connection's metadata.

/// MIME types and their well-known ids in composite metadata.
public enum MimeType {
    public static let compositeMetadata = "message/x.rsocket.composite-metadata.v0"
    public static let routing = "message/x.rsocket.routing.v0"
    public static let authentication = "message/x.rsocket.authentication.v0"
    public static let octetStream = "application/octet-stream"
    public static let json = "application/json"
    public static let text = "text/plain"

    public static let jsonID: UInt8 = 0x05
    public static let octetStreamID: UInt8 = 0x06
    public static let textID: UInt8 = 0x21
    public static let dataMimeID: UInt8 = 0x7a
    public static let acceptedMimesID: UInt8 = 0x7b
    public static let authenticationID: UInt8 = 0x7c
    public static let zipkinID: UInt8 = 0x7d
    public static let routingID: UInt8 = 0x7e
    public static let compositeMetadataID: UInt8 = 0x7f

    /// Whether `bytes` equals `name`, ignoring case, as MIME types are case-insensitive.
    public static func matches(_ bytes: UnsafeRawBufferPointer, _ name: StaticString) -> Bool {
        guard bytes.count == name.utf8CodeUnitCount else { return false }
        for index in 0..<bytes.count {
            let byte = bytes[index]
            let lower = byte >= 0x41 && byte <= 0x5a ? byte | 0x20 : byte
            if lower != name.utf8Start[index] { return false }
        }
        return true
    }
}

/// How to read the metadata of a connection's requests, as chosen by SETUP's metadata MIME type.
public enum MetadataForm: Sendable, Equatable {
    /// Entries with a MIME type each; the route is one of them.
    case composite
    /// A bare list of routing tags.
    case routing
    /// Any other MIME type: the metadata is the route itself.
    case plain

    public init(mime: String) {
        switch mime.lowercased() {
        case MimeType.compositeMetadata: self = .composite
        case MimeType.routing: self = .routing
        default: self = .plain
        }
    }
}

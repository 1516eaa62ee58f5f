// The MIME types that RSocket has one-byte ids for (RSocket, "Well-known MIME Types"), and the content of the entry
// 0x7a, which tells the MIME type of the data.

import Bytes
import RSocket

enum WellKnownMimes {
    /// Ids 0x00 to 0x2a.
    private static let low: [StaticString] = [
        "application/avro", "application/cbor", "application/graphql", "application/gzip", "application/javascript",
        "application/json", "application/octet-stream", "application/pdf", "application/vnd.apache.thrift.binary",
        "application/vnd.google.protobuf", "application/xml", "application/zip", "audio/aac", "audio/mp3", "audio/mp4",
        "audio/mpeg3", "audio/mpeg", "audio/ogg", "audio/opus", "audio/vorbis", "image/bmp", "image/gif",
        "image/heic-sequence", "image/heic", "image/heif-sequence", "image/heif", "image/jpeg", "image/png",
        "image/tiff", "multipart/mixed", "text/css", "text/csv", "text/html", "text/plain", "text/xml", "video/H264",
        "video/H265", "video/VP8", "application/x-hessian", "application/x-java-object", "application/cloudevents+json",
        "application/x-capnp", "application/x-flatbuffers",
    ]

    /// Ids 0x7a to 0x7f.
    private static let high: [StaticString] = [
        "message/x.rsocket.mime-type.v0", "message/x.rsocket.accept-mime-types.v0",
        "message/x.rsocket.authentication.v0", "message/x.rsocket.tracing-zipkin.v0", "message/x.rsocket.routing.v0",
        "message/x.rsocket.composite-metadata.v0",
    ]

    private static let firstHigh: UInt8 = 0x7a

    /// The name of an id below 128, nil where it has none.
    static func name(_ id: UInt8) -> UnsafeRawBufferPointer? {
        if Int(id) < low.count { return bytes(low[Int(id)]) }
        guard id >= firstHigh, Int(id - firstHigh) < high.count else { return nil }
        return bytes(high[Int(id - firstHigh)])
    }

    /// The id of a data type that is spelt exactly so.
    static func id(_ name: UnsafeRawBufferPointer) -> UInt8? {
        for index in low.indices where same(bytes(low[index]), name) { return UInt8(index) }
        return nil
    }

    /// The MIME type that the content of an entry 0x7a tells, nil where it is not one type in printable ASCII.
    static func dataMime(_ content: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        guard let head = content.first else { return nil }
        if head & 0x80 != 0 { return content.count == 1 ? name(head & 0x7f) : nil }
        guard content.count == 2 + Int(head) else { return nil }
        let name = content.slice(1..<content.count)
        return isPrintable(name) ? name : nil
    }

    static func isPrintable(_ name: UnsafeRawBufferPointer) -> Bool {
        name.allSatisfy { (0x20...0x7e).contains($0) }
    }

    static func same(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        left.count == right.count && left.elementsEqual(right)
    }

    /// Whether `bytes` spell `name`, which is in lower case, whatever the case of `bytes`.
    static func spells(_ bytes: UnsafeRawBufferPointer, _ name: StaticString) -> Bool {
        guard bytes.count == name.utf8CodeUnitCount else { return false }
        for (index, byte) in bytes.enumerated() {
            let lower = (0x41...0x5a).contains(byte) ? byte | 0x20 : byte
            if lower != name.utf8Start[index] { return false }
        }
        return true
    }

    static func bytes(_ name: StaticString) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
    }
}

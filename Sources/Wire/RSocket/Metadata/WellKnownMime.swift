// The MIME types that RSocket has one-byte ids for: its extension "Well-known MIME Types".

import Bytes

enum WellKnownMime {
    /// Of payloads, by id from 0.
    private static let names: [StaticString] = [
        "application/avro", "application/cbor", "application/graphql", "application/gzip", "application/javascript",
        "application/json", "application/octet-stream", "application/pdf", "application/vnd.apache.thrift.binary",
        "application/vnd.google.protobuf", "application/xml", "application/zip", "audio/aac", "audio/mp3", "audio/mp4",
        "audio/mpeg3", "audio/mpeg", "audio/ogg", "audio/opus", "audio/vorbis", "image/bmp", "image/gif",
        "image/heic-sequence", "image/heic", "image/heif-sequence", "image/heif", "image/jpeg", "image/png",
        "image/tiff", "multipart/mixed", "text/css", "text/csv", "text/html", "text/plain", "text/xml", "video/H264",
        "video/H265", "video/VP8", "application/x-hessian", "application/x-java-object",
        "application/cloudevents+json", "application/x-capnp", "application/x-flatbuffers",
    ]

    /// Of metadata, by id from 0x7a.
    private static let metadataNames: [StaticString] = [
        "message/x.rsocket.mime-type.v0", "message/x.rsocket.accept-mime-types.v0",
        "message/x.rsocket.authentication.v0", "message/x.rsocket.tracing-zipkin.v0", "message/x.rsocket.routing.v0",
        "message/x.rsocket.composite-metadata.v0",
    ]

    /// Nil for a number that has no name.
    static func name(_ id: UInt8) -> UnsafeRawBufferPointer? {
        if Int(id) < names.count { return bytes(names[Int(id)]) }
        let index = Int(id) - 0x7A
        return metadataNames.indices.contains(index) ? bytes(metadataNames[index]) : nil
    }

    /// The number of a payload's type. Nil for a name without a number, and for one in other letters: it is carried as
    /// it was written.
    static func id(_ name: UnsafeRawBufferPointer) -> UInt8? {
        for (id, known) in names.enumerated()
        where known.utf8CodeUnitCount == name.count && name.elementsEqual(bytes(known)) {
            return UInt8(id)
        }
        return nil
    }

    static func bytes(_ name: StaticString) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
    }
}

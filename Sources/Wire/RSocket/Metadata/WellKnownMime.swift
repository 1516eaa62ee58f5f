// WellKnownMime: the MIME types with one-byte ids in RSocket's extension "Well-known MIME Types".

import Bytes

enum WellKnownMime {
    /// MIME types of payloads, by id from 0.
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

    /// MIME types of metadata, by id from 0x7a.
    private static let metadataNames: [StaticString] = [
        "message/x.rsocket.mime-type.v0", "message/x.rsocket.accept-mime-types.v0",
        "message/x.rsocket.authentication.v0", "message/x.rsocket.tracing-zipkin.v0", "message/x.rsocket.routing.v0",
        "message/x.rsocket.composite-metadata.v0",
    ]

    /// Nil for an id without a name.
    static func name(_ id: UInt8) -> UnsafeRawBufferPointer? {
        if Int(id) < names.count { return bytes(names[Int(id)]) }
        let index = Int(id) - 0x7A
        return metadataNames.indices.contains(index) ? bytes(metadataNames[index]) : nil
    }

    /// The id of a payload's MIME type. Nil for a name without an id, or in a different case: such a name is carried as
    /// written.
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

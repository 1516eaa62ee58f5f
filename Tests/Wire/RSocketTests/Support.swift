// What the tests share: bytes in and out, and writers by frame type.

import Bytes
import Testing

@testable import RSocket

/// Runs `body` with the bytes of `text`.
func bytes<R>(_ text: String, _ body: (UnsafeRawBufferPointer) -> R) -> R {
    Array(text.utf8).withUnsafeBytes(body)
}

/// `count` bytes that depend on their position, so that a swapped or lost byte is noticed.
func pattern(_ count: Int, _ seed: UInt8) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) &+ seed }
}

/// The bytes that `body` writes.
func encoded(_ body: (inout ByteBuffer) -> Void) -> [UInt8] {
    var out = ByteBuffer()
    body(&out)
    return Array(out.readable)
}

/// The frames that `body` writes, each without its length.
func written(_ body: (inout ByteBuffer) -> Void) -> [[UInt8]] {
    split(encoded(body))
}

/// Splits a TCP stream into frames.
func split(_ stream: [UInt8]) -> [[UInt8]] {
    var rest = stream[...]
    var frames: [[UInt8]] = []
    while rest.count >= 3 {
        let head = Array(rest.prefix(3))
        let length = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
        rest = rest.dropFirst(3)
        frames.append(Array(rest.prefix(length)))
        rest = rest.dropFirst(length)
    }
    #expect(rest.isEmpty)
    return frames
}

func decode(_ frame: [UInt8]) throws -> Frame {
    try Frame.decode(frame.span.bytes)
}

func contentOf(_ frame: Frame) -> Frame.Content? {
    switch frame.body {
    case .payload(_, _, let content), .requestResponse(let content), .requestFNF(let content),
        .requestStream(_, let content), .requestChannel(_, _, let content):
        content
    default: nil
    }
}

/// Writes a request or PAYLOAD on stream 1, complete, with an initial n of 5.
func write(
    _ type: FrameType, _ metadata: [UInt8]?, _ data: [UInt8], stream: UInt32 = 1, initialN: UInt32 = 5,
    complete: Bool = true, fragment: Int = 0, into out: inout ByteBuffer
) {
    data.withUnsafeBytes { data in
        func go(_ metadata: UnsafeRawBufferPointer?) {
            switch type {
            case .requestResponse:
                FrameWriter.requestResponse(
                    stream: stream, metadata: metadata, data: data, fragment: fragment, into: &out)
            case .requestFNF:
                FrameWriter.requestFNF(
                    stream: stream, metadata: metadata, data: data, fragment: fragment, into: &out)
            case .requestStream:
                FrameWriter.requestStream(
                    stream: stream, initialN: initialN, metadata: metadata, data: data, fragment: fragment,
                    into: &out)
            case .requestChannel:
                FrameWriter.requestChannel(
                    stream: stream, initialN: initialN, complete: complete, metadata: metadata, data: data,
                    fragment: fragment, into: &out)
            default:
                FrameWriter.payload(
                    stream: stream, next: true, complete: complete, metadata: metadata, data: data,
                    fragment: fragment, into: &out)
            }
        }
        if let metadata { metadata.withUnsafeBytes { go($0) } } else { go(nil) }
    }
}

/// One of every frame that can be written, with metadata if it allows any.
func everyFrame(into out: inout ByteBuffer) {
    FrameWriter.setup(into: &out)
    var setup = SetupRequest()
    setup.resumeToken = [9, 9]
    bytes("m") { meta in
        FrameWriter.setup(setup, metadata: meta, into: &out)
        FrameWriter.metadataPush(meta, into: &out)
        FrameWriter.lease(ttl: 1000, n: 5, metadata: meta, into: &out)
    }
    bytes("ping") { FrameWriter.keepalive(respond: true, position: 77, data: $0, into: &out) }
    for type in [FrameType.requestResponse, .requestFNF, .requestStream, .requestChannel, .payload] {
        write(type, nil, Array("data".utf8), into: &out)
        write(type, Array("meta".utf8), Array("data".utf8), into: &out)
    }
    FrameWriter.requestN(stream: 1, n: 3, into: &out)
    FrameWriter.cancel(stream: 1, into: &out)
    FrameWriter.error(stream: 1, code: .rejected, message: "no", into: &out)
    FrameWriter.resume(
        token: [1, 2], lastReceivedServerPosition: 0x18, firstAvailableClientPosition: 0, into: &out)
    FrameWriter.resumeOK(lastReceivedClientPosition: 0x1b, into: &out)
}

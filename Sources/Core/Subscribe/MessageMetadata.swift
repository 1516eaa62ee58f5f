// MessageMetadata: what `meta=on` puts before a message: an entry of the broker's own, then the publisher's entries.
//
//     PAYLOAD header | metadata length u24 | 0x9D? mime … length u24 | epoch sequence timestamp dropped-before | …

import Bytes
import Replay
import RSocket

struct MessageMetadata {
    static let mime = "application/vnd.forebay.message"
    /// Mime length, mime, u24 length, and the four 64-bit figures.
    static let entry = 1 + mime.utf8.count + 3 + 32

    var epoch: UInt64
    var sequence: SequenceNumber
    var timestamp: Int64
    /// Messages that this subscription lost just before this one.
    var droppedBefore: UInt64

    /// Bytes of the frames of one message.
    static func framed(payload: Int, carried: Int) -> Int {
        PayloadFraming.framed(payload) + 3 + entry + carried
    }

    /// Writes the frames of the message that `entry` names.
    func write(_ chunk: Chunk, _ message: Chunk.Entry, stream: UInt32, to target: UnsafeMutableRawBufferPointer) {
        let carried = Int(message.metadata)
        let metadata = MessageMetadata.entry + carried
        let frames = chunk.bytes(Int(message.offset), Int(message.framed))
        // The frames as they stand in the log, with the metadata slipped in behind the first header.
        let head = PayloadFraming.header
        let base = target.baseAddress!
        base.copyMemory(from: frames.baseAddress!, byteCount: head)
        let body = frames.u24(at: 0) - 6
        let flags = frames.bigEndian(at: 7, as: UInt16.self) & 0x3FF | FrameFlags.metadata.rawValue
        PayloadFraming.writeHeader(
            to: base, stream: stream, type: FrameType.payload.rawValue, flags: flags, body: body + 3 + metadata)
        write(to: base + head, metadataLength: metadata)
        let source = chunk.bytes(Int(message.offset) - carried, carried)
        let behind = base + head + 3 + MessageMetadata.entry
        if carried > 0 { behind.copyMemory(from: source.baseAddress!, byteCount: carried) }
        let rest = frames.count - head
        if rest > 0 { (behind + carried).copyMemory(from: frames.baseAddress! + head, byteCount: rest) }
        if frames.count > head + body {
            let following = target.count - (head + 3 + metadata + body)
            PayloadFraming.patch(
                UnsafeMutableRawBufferPointer(start: behind + carried + body, count: following), stream: stream)
        }
    }

    /// The broker's own entry alone.
    var bytes: [UInt8] {
        let length = 3
        return [UInt8](unsafeUninitializedCapacity: length + MessageMetadata.entry) { buffer, count in
            write(to: UnsafeMutableRawPointer(buffer.baseAddress!), metadataLength: MessageMetadata.entry)
            count = length + MessageMetadata.entry
        }.dropFirst(length).map { $0 }
    }

    /// The metadata length and the broker's own entry.
    func write(to target: UnsafeMutableRawPointer, metadataLength: Int) {
        MessageMetadata.put(u24: metadataLength, at: target)
        let mime = MessageMetadata.mime.utf8.count
        target.storeBytes(of: UInt8(mime - 1), toByteOffset: 3, as: UInt8.self)
        var name = MessageMetadata.mime
        name.withUTF8 { (target + 4).copyMemory(from: $0.baseAddress!, byteCount: mime) }
        MessageMetadata.put(u24: 32, at: target + 4 + mime)
        let figures = target + 7 + mime
        figures.storeBytes(of: epoch.bigEndian, as: UInt64.self)
        figures.storeBytes(of: sequence.value.bigEndian, toByteOffset: 8, as: UInt64.self)
        figures.storeBytes(of: timestamp.bigEndian, toByteOffset: 16, as: Int64.self)
        figures.storeBytes(of: droppedBefore.bigEndian, toByteOffset: 24, as: UInt64.self)
    }

    private static func put(u24 value: Int, at target: UnsafeMutableRawPointer) {
        target.storeBytes(of: UInt8(truncatingIfNeeded: value >> 16), as: UInt8.self)
        target.storeBytes(of: UInt8(truncatingIfNeeded: value >> 8), toByteOffset: 1, as: UInt8.self)
        target.storeBytes(of: UInt8(truncatingIfNeeded: value), toByteOffset: 2, as: UInt8.self)
    }
}

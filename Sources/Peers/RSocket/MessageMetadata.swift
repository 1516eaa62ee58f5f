// MessageMetadata: what `meta=on` puts ahead of a message: the broker's own entry, then the publisher's entries.
//
//     header | u24 length | the broker's own entry | the publisher's entries | payload
//
// A frame holds at most `Limits.fragment` bytes of metadata and payload together. Metadata that does not fit next to
// the first piece of payload goes ahead of it, in separate fragments.

import Bytes
import RSocket
import Replay

struct MessageMetadata {
    static let mime = "application/vnd.forebay.message"
    /// Mime length, mime, u24 length, and four 64-bit fields.
    static let entry = 1 + mime.utf8.count + 3 + 32

    var epoch: UInt64
    var sequence: SequenceNumber
    var timestamp: Int64
    /// Messages that this subscription lost immediately before this one.
    var droppedBefore: UInt64
    /// The entry with the topic's name, as made by `topicEntry`; empty unless the subscription is to a pattern.
    var topic = UnsafeRawBufferPointer(start: nil, count: 0)
    /// Bytes of the broker's own entries.
    private var own: Int { MessageMetadata.entry + topic.count }

    /// The entry that names a message's topic.
    static func topicEntry(_ name: String) -> [UInt8] {
        let mime = "application/vnd.forebay.topic"
        let length = name.utf8.count
        return [UInt8(mime.utf8.count - 1)] + Array(mime.utf8) + [
            0, UInt8(length >> 8), UInt8(truncatingIfNeeded: length),
        ]
            + Array(name.utf8)
    }

    /// The number of separate frames that the metadata takes; 0 if it goes with the first piece of payload.
    private static func ownFrames(payload: Int, metadata: Int) -> Int {
        if metadata + Swift.min(payload, Limits.fragment) <= Limits.fragment { return 0 }
        return metadata <= Limits.fragment ? 1 : 2
    }

    /// Bytes of the frames of one message.
    /// - Parameter topic: bytes of the entry with the topic's name.
    static func framed(payload: Int, carried: Int, topic: Int = 0) -> Int {
        let metadata = entry + topic + carried
        let own = ownFrames(payload: payload, metadata: metadata)
        return PayloadFraming.framed(payload) + metadata + (own == 0 ? 3 : own * (PayloadFraming.header + 3))
    }

    /// Writes the frames of the message that `message` locates; `target` has exactly their size.
    func write(_ chunk: Chunk, _ message: Chunk.Entry, stream: UInt32, to target: UnsafeMutableRawBufferPointer) {
        let carried = chunk.bytes(Int(message.offset - message.metadata), Int(message.metadata))
        let frames = chunk.bytes(Int(message.offset), Int(message.framed))
        let metadata = own + carried.count
        switch MessageMetadata.ownFrames(payload: Int(message.payload), metadata: metadata) {
        case 0: writeTogether(frames, carried, stream: stream, to: target)
        case let count: writeApart(frames, carried, in: count, stream: stream, to: target)
        }
    }

    /// Writes the frames as they are in the log, with the metadata inserted after the first header.
    private func writeTogether(
        _ frames: UnsafeRawBufferPointer, _ carried: UnsafeRawBufferPointer, stream: UInt32,
        to target: UnsafeMutableRawBufferPointer
    ) {
        let head = PayloadFraming.header
        let metadata = own + carried.count
        let body = frames.u24(at: 0) - 6
        let base = target.baseAddress!
        let flags = frames.bigEndian(at: 7, as: UInt16.self) & 0x3FF | FrameFlags.metadata.rawValue
        PayloadFraming.writeHeader(
            to: base, stream: stream, type: FrameType.payload.rawValue, flags: flags, body: 3 + metadata + body)
        MessageMetadata.put(u24: metadata, at: base + head)
        writeEntry(to: base + head + 3)
        let behind = target.slice(head + 3 + own)
        behind.copyMemory(from: carried)
        let rest = behind.slice(carried.count)
        rest.copyMemory(from: frames.slice(head..<frames.count))
        // Further fragments follow the first piece of payload.
        PayloadFraming.patch(rest.slice(body), stream: stream)
    }

    /// Writes the metadata in `frameCount` fragments, followed by the frames from the log.
    private func writeApart(
        _ frames: UnsafeRawBufferPointer, _ carried: UnsafeRawBufferPointer, in frameCount: Int, stream: UInt32,
        to target: UnsafeMutableRawBufferPointer
    ) {
        var rest = target
        var left = own + carried.count
        var taken = 0
        for index in 0..<frameCount {
            let part = left / (frameCount - index)
            PayloadFraming.writeHeader(
                to: rest.baseAddress!, stream: stream, type: FrameType.payload.rawValue,
                flags: FrameFlags.next.union([.follows, .metadata]).rawValue, body: 3 + part)
            MessageMetadata.put(u24: part, at: rest.baseAddress! + PayloadFraming.header)
            rest = rest.slice(PayloadFraming.header + 3)
            let entry = index == 0 ? own : 0
            if index == 0 { writeEntry(to: rest.baseAddress!) }
            let piece = carried.slice(taken..<taken + part - entry)
            rest.slice(entry).copyMemory(from: piece)
            taken += piece.count
            rest = rest.slice(part)
            left -= part
        }
        rest.copyMemory(from: frames)
        PayloadFraming.patch(rest, stream: stream)
    }

    /// Like `write`, but the publisher's entries and the payload are sent from the log's memory.
    func share(_ chunk: Chunk, _ message: Chunk.Entry, stream: UInt32, in output: inout Output) {
        let carried = chunk.bytes(Int(message.offset - message.metadata), Int(message.metadata))
        let frames = chunk.bytes(Int(message.offset), Int(message.framed))
        let metadata = own + carried.count
        let frameCount = MessageMetadata.ownFrames(payload: Int(message.payload), metadata: metadata)
        guard frameCount == 0 else {
            return shareApart(chunk, frames, carried, in: frameCount, stream: stream, in: &output)
        }
        let head = PayloadFraming.header
        let body = frames.u24(at: 0) - 6
        let base = output.reserve(head + 3 + own).baseAddress!
        let flags = frames.bigEndian(at: 7, as: UInt16.self) & 0x3FF | FrameFlags.metadata.rawValue
        PayloadFraming.writeHeader(
            to: base, stream: stream, type: FrameType.payload.rawValue, flags: flags, body: 3 + metadata + body)
        MessageMetadata.put(u24: metadata, at: base + head)
        writeEntry(to: base + head + 3)
        output.append(carried, of: chunk, isTail: true)
        output.append(frames.slice(head..<head + body), of: chunk, isTail: true)
        output.append(frames.slice(head + body..<frames.count), of: chunk, stream: stream)
    }

    private func shareApart(
        _ chunk: Chunk, _ frames: UnsafeRawBufferPointer, _ carried: UnsafeRawBufferPointer, in frameCount: Int,
        stream: UInt32, in output: inout Output
    ) {
        var left = own + carried.count
        var taken = 0
        for index in 0..<frameCount {
            let part = left / (frameCount - index)
            let entry = index == 0 ? own : 0
            let base = output.reserve(PayloadFraming.header + 3 + entry).baseAddress!
            PayloadFraming.writeHeader(
                to: base, stream: stream, type: FrameType.payload.rawValue,
                flags: FrameFlags.next.union([.follows, .metadata]).rawValue, body: 3 + part)
            MessageMetadata.put(u24: part, at: base + PayloadFraming.header)
            if index == 0 { writeEntry(to: base + PayloadFraming.header + 3) }
            output.append(carried.slice(taken..<taken + part - entry), of: chunk, isTail: true)
            taken += part - entry
            left -= part
        }
        output.append(frames, of: chunk, stream: stream)
    }

    /// Only the broker's own entries.
    var bytes: [UInt8] {
        [UInt8](unsafeUninitializedCapacity: own) { buffer, count in
            writeEntry(to: UnsafeMutableRawPointer(buffer.baseAddress!))
            count = own
        }
    }

    private func writeEntry(to target: UnsafeMutableRawPointer) {
        let mime = MessageMetadata.mime.utf8.count
        target.storeBytes(of: UInt8(mime - 1), as: UInt8.self)
        var name = MessageMetadata.mime
        name.withUTF8 { (target + 1).copyMemory(from: $0.baseAddress!, byteCount: mime) }
        MessageMetadata.put(u24: 32, at: target + 1 + mime)
        let figures = target + 4 + mime
        figures.storeBytes(of: epoch.bigEndian, as: UInt64.self)
        figures.storeBytes(of: sequence.value.bigEndian, toByteOffset: 8, as: UInt64.self)
        figures.storeBytes(of: timestamp.bigEndian, toByteOffset: 16, as: Int64.self)
        figures.storeBytes(of: droppedBefore.bigEndian, toByteOffset: 24, as: UInt64.self)
        guard let topicBytes = topic.baseAddress else { return }
        (figures + 32).copyMemory(from: topicBytes, byteCount: topic.count)
    }

    private static func put(u24 value: Int, at target: UnsafeMutableRawPointer) {
        target.storeBytes(of: UInt8(truncatingIfNeeded: value >> 16), as: UInt8.self)
        target.storeBytes(of: UInt8(truncatingIfNeeded: value >> 8), toByteOffset: 1, as: UInt8.self)
        target.storeBytes(of: UInt8(truncatingIfNeeded: value), toByteOffset: 2, as: UInt8.self)
    }
}

extension UnsafeMutableRawBufferPointer {
    /// The bytes from `offset` on.
    fileprivate func slice(_ offset: Int) -> UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(rebasing: self[offset...])
    }
}

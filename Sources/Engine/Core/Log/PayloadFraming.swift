// PayloadFraming: the format of messages in the log: RSocket PAYLOAD frames on stream 1 with N set, fragmented if long.
// Stream 1 is the first that a client may open, so the bytes can be sent to most subscribers as they are. For others,
// the id is patched in a copy.

import Bytes
import RSocket

enum PayloadFraming {
    /// The stream id of frames in the log.
    static let commonStream: UInt32 = 1
    /// Length, stream id, type and flags.
    static let header = 9

    /// The framed size of a payload of `count` bytes.
    @inline(__always)
    static func framed(_ count: Int) -> Int {
        count <= Limits.fragment ? count + header : count + header * fragments(count)
    }

    static func fragments(_ count: Int) -> Int {
        Swift.max(1, (count + Limits.fragment - 1) / Limits.fragment)
    }

    /// Bytes of the frame at `offset`, including the length prefix.
    @inline(__always)
    static func length(of frames: UnsafeRawBufferPointer, at offset: Int = 0) -> Int { 3 + frames.u24(at: offset) }

    /// Writes the frames of `payload` at `target`, which must have room for `framed(payload.count)` bytes.
    static func write(_ payload: UnsafeRawBufferPointer, to target: UnsafeMutableRawPointer) {
        var target = target
        var rest = payload
        repeat {
            let part = Swift.min(rest.count, Limits.fragment)
            let last = part == rest.count
            writeHeader(
                to: target, stream: commonStream, type: FrameType.payload.rawValue,
                flags: last ? FrameFlags.next.rawValue : FrameFlags.next.union(.follows).rawValue, body: part)
            if let source = rest.baseAddress, part > 0 {
                (target + header).copyMemory(from: source, byteCount: part)
            }
            target += header + part
            rest = UnsafeRawBufferPointer(rebasing: rest[part...])
        } while rest.count > 0
    }

    /// Writes one frame header, including the length prefix.
    @inline(__always)
    static func writeHeader(to target: UnsafeMutableRawPointer, stream: UInt32, type: UInt8, flags: UInt16, body: Int) {
        let length = body + 6
        target.storeBytes(of: UInt8(truncatingIfNeeded: length >> 16), as: UInt8.self)
        target.storeBytes(of: UInt16(truncatingIfNeeded: length).bigEndian, toByteOffset: 1, as: UInt16.self)
        target.storeBytes(of: stream.bigEndian, toByteOffset: 3, as: UInt32.self)
        target.storeBytes(of: (UInt16(type) << 10 | flags).bigEndian, toByteOffset: 7, as: UInt16.self)
    }

    /// Overwrites the stream id of each whole frame in `bytes`, which must begin with a frame. Returns the bytes of
    /// these frames; the rest is the beginning of another one.
    ///
    /// Messages of a topic usually have the same size. While a frame is as long as the one before, the next position
    /// does not depend on the length just loaded; only a well-predicted branch does. This takes a fifth of the time.
    @discardableResult
    static func patch(_ bytes: UnsafeMutableRawBufferPointer, stream: UInt32) -> Int {
        guard let base = bytes.baseAddress else { return 0 }
        let id = stream.bigEndian
        let lengthMask = UInt32(0xFFFF_FF00).bigEndian
        var offset = 0
        while bytes.count - offset >= header {
            let length = (base + offset).loadUnaligned(as: UInt32.self) & lengthMask
            let size = 3 + Int(UInt32(bigEndian: length) >> 8)
            let last = bytes.count - size
            guard offset <= last else { break }
            repeat {
                (base + offset + 3).storeBytes(of: id, as: UInt32.self)
                offset += size
            } while offset <= last && (base + offset).loadUnaligned(as: UInt32.self) & lengthMask == length
        }
        return offset
    }
}

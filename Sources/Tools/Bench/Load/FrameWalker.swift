// FrameWalker: finds the first eight bytes of each payload in a stream of equal-sized frames, however it is split.

struct FrameWalker {
    private let size: Int
    private let stampOffset: Int
    private let noise: Noise?
    /// Bytes of the frame seen so far, and remaining bytes of noise between frames.
    private var position = 0
    private var skipping = 0
    private var stamp: UInt64 = 0
    /// Complete stamps seen before the current one.
    private var messages: UInt64 = 0

    /// - Parameter frame: the frame of each message; its payload has at least eight bytes.
    init(_ frame: MessageFrame, noise: Noise?) {
        size = frame.size
        stampOffset = frame.head.count
        self.noise = noise
    }

    /// Calls `found` with the stamp of each message, read as a big-endian number, and the number of messages before it.
    mutating func walk(_ bytes: UnsafeRawBufferPointer, _ found: (_ stamp: UInt64, _ before: UInt64) -> Void) {
        var offset = 0
        while offset < bytes.count {
            if skipping > 0 {
                let part = min(skipping, bytes.count - offset)
                skipping -= part
                offset += part
                continue
            }
            if position == 0, let noise, bytes[offset] == noise.first {
                skipping = noise.count
                continue
            }
            offset += walkFrame(bytes, from: offset, found)
        }
    }

    /// Walks to the end of the frame or of the bytes; returns the offset reached.
    private mutating func walkFrame(
        _ bytes: UnsafeRawBufferPointer, from offset: Int, _ found: (UInt64, UInt64) -> Void
    ) -> Int {
        let part = min(size - position, bytes.count - offset)
        let first = max(position, stampOffset)
        let last = min(position + part, stampOffset + 8)
        if first < last {
            let at = offset + first - position
            if last - first == 8 {
                stamp = UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: at, as: UInt64.self))
            } else {
                for index in at..<(at + last - first) { stamp = stamp << 8 | UInt64(bytes[index]) }
            }
            if last == stampOffset + 8 {
                found(stamp, messages)
                messages += 1
            }
        }
        position += part
        if position == size { position = 0 }
        return part
    }
}

// Segment: a reference to contiguous bytes of a connection's output.

/// Contiguous bytes that are sent as one piece.
struct Segment {
    enum Owner {
        case shared(Region)
        case block(Block)
        case none
    }

    var owner: Owner
    var start: UnsafeRawPointer
    var count: Int
    /// The stream id that the frames of a chunk still need. 0: they are sent unchanged. `tail`: the bytes are the rest
    /// of the previous frame and are sent unchanged. If frames need an id, `start` is at the beginning of a frame.
    var stream: UInt32 = 0

    /// Stream ids never have the highest bit set.
    static let tail: UInt32 = 1 << 31
    var isTail: Bool { stream == Segment.tail }
    /// Whether the segment's frames need a stream id.
    @inline(__always)
    var isPatched: Bool { stream & ~Segment.tail != 0 }

    /// A segment in `block` with a copy of the bytes at `target`, with the stream id that its frames need.
    func copied(into block: Block, at target: UnsafeMutableRawPointer) -> Segment {
        target.copyMemory(from: start, byteCount: count)
        if isPatched {
            PayloadFraming.patch(UnsafeMutableRawBufferPointer(start: target, count: count), stream: stream)
        }
        return Segment(
            owner: .block(block), start: UnsafeRawPointer(target), count: count, stream: isTail ? Segment.tail : 0)
    }

    /// Copies whole frames of a chunk, setting their stream id to `stream`.
    static func write(_ frames: UnsafeRawBufferPointer, stream: UInt32, to target: UnsafeMutableRawBufferPointer) {
        target.copyMemory(from: frames)
        if stream != PayloadFraming.commonStream { PayloadFraming.patch(target, stream: stream) }
    }

    /// Bytes of the frames that are complete within the first `count` bytes. The segment begins with a frame.
    func wholeFrames(within count: Int) -> Int {
        assert(count < self.count)
        // The length field of the cut frame may extend beyond `count`.
        let bytes = UnsafeRawBufferPointer(start: start, count: count + 3)
        var offset = 0
        while offset < count {
            let end = offset + PayloadFraming.length(of: bytes, at: offset)
            if end > count { break }
            offset = end
        }
        return offset
    }
}

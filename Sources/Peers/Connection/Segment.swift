// Segment: where bytes of a connection's output lie.

/// Bytes in one place, which are sent in one piece.
struct Segment {
    enum Owner {
        case shared(Region)
        case block(Block)
        case none
    }

    var owner: Owner
    var start: UnsafeRawPointer
    var count: Int
    /// The stream id that the frames of a chunk still need; 0: they go as they lie; `tail`: so do the bytes, which
    /// are the rest of the frame before. Where frames need one, `start` is a frame's.
    var stream: UInt32 = 0

    /// No id of a stream has the highest bit.
    static let tail: UInt32 = 1 << 31
    var isTail: Bool { stream == Segment.tail }
    /// Its frames need a stream id.
    @inline(__always)
    var isPatched: Bool { stream & ~Segment.tail != 0 }

    /// The same in `block`, where what it names has been copied to `target`, with the stream id that its frames need.
    func copied(into block: Block, at target: UnsafeMutableRawPointer) -> Segment {
        target.copyMemory(from: start, byteCount: count)
        if isPatched {
            PayloadFraming.patch(UnsafeMutableRawBufferPointer(start: target, count: count), stream: stream)
        }
        return Segment(
            owner: .block(block), start: UnsafeRawPointer(target), count: count, stream: isTail ? Segment.tail : 0)
    }

    /// Copies whole frames of a chunk, with `stream` as their stream id.
    static func write(_ frames: UnsafeRawBufferPointer, stream: UInt32, to target: UnsafeMutableRawBufferPointer) {
        target.copyMemory(from: frames)
        if stream != PayloadFraming.commonStream { PayloadFraming.patch(target, stream: stream) }
    }

    /// Bytes of the frames that lie whole in its first `count` bytes. It begins with a frame.
    func wholeFrames(within count: Int) -> Int {
        assert(count < self.count)
        // The length of the frame that is cut may lie behind `count` itself.
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

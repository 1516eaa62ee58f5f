// ResumeStore: the frames written for a client that may resume, until the client acknowledges them. They are stored as
// on the wire, each after its length; frames of stream 0 are never stored.
//
//     position                sent                      end
//        |  may be sent again  |  has not been sent yet  |
//
// Positions are RSocket's: bytes of frames, without the lengths, since the session began. Only the position of the
// first stored byte is kept. Others are found by walking the frames: each frame is walked twice in its life – when it
// is sent and when it is acknowledged – and once more for each RESUME.

import Bytes

/// The frames of one session from the server to the client. It must be given whole frames.
public final class ResumeStore {
    private var frames = ByteBuffer()
    /// The position of the oldest stored frame. Earlier ones have been acknowledged or given up.
    public private(set) var position: UInt64 = 0
    /// Bytes at the front that a socket has taken, lengths included.
    public private(set) var sent = 0
    /// The end of the frame that contains `sent`; at least `sent`.
    private var boundary = 0
    /// Bytes at the front that any socket has taken; at least `sent`. After a RESUME it is larger until the bytes have
    /// been sent again, some of which the client may already have.
    private var reach = 0

    public init() {}

    /// Bytes of all stored frames, lengths included.
    public var count: Int { frames.count }
    /// Bytes that the current socket has not taken.
    public var unsent: Int { frames.count - sent }
    /// Bytes of the partly sent frame that the socket has not taken.
    public var inFlight: Int { boundary - sent }
    /// Bytes of memory held.
    public var capacity: Int { frames.capacity }

    /// The bytes to send next; valid until the store changes.
    public var next: UnsafeRawBufferPointer { frames.readable.slice(sent..<frames.count) }

    /// Space for `count` bytes of whole frames, which the caller must write immediately.
    public func reserve(_ count: Int) -> UnsafeMutableRawBufferPointer {
        let target = UnsafeMutableRawBufferPointer(start: frames.reserve(count), count: count)
        frames.commit(count)
        return target
    }

    /// Appends the frames that `write` writes; returns their size in bytes.
    public func append(_ write: (inout ByteBuffer) -> Void) -> Int {
        let before = frames.count
        write(&frames)
        return frames.count - before
    }

    /// Advances the position by `count` bytes of frames, without lengths, that were sent to the client without being
    /// stored. The store must be empty.
    public func skip(_ count: Int) {
        precondition(frames.count == 0)
        position &+= UInt64(count)
    }

    /// Records that a socket took `count` bytes of `next`.
    public func took(_ count: Int) {
        sent += count
        reach = max(reach, sent)
        while boundary < sent { boundary += frame(at: boundary) }
    }

    /// Removes the frames before `position`, all of which the client has. Frames that have not been sent are kept,
    /// whatever the client claims.
    public func acknowledge(_ position: UInt64) {
        drop { self.position &+ UInt64($1 - Wire.lengthSize) > position || $0 + $1 > self.sent }
    }

    /// Gives up the oldest sent frames until at most `limit` bytes are left. A client that lacks them can no longer
    /// resume.
    public func shorten(to limit: Int) {
        let excess = count - limit
        drop { offset, size in offset >= excess || offset + size > self.sent }
    }

    /// Drops everything unsent, except the rest of a partly sent frame.
    public func dropUnsent() {
        frames.truncate(by: frames.count - boundary)
        reach = min(reach, boundary)
    }

    /// Starts sending again at `position`; the client has everything before it. Returns false and changes nothing if
    /// some of the following frames have been dropped, if `position` was never reached, or if no frame begins there.
    public func rewind(to position: UInt64) -> Bool {
        var offset = 0
        var reached = self.position
        while reached < position, offset < reach {
            let size = frame(at: offset)
            guard offset + size <= reach else { return false }
            offset += size
            reached &+= UInt64(size - Wire.lengthSize)
        }
        guard reached == position else { return false }
        sent = reach
        acknowledge(position)
        sent = 0
        boundary = 0
        return true
    }

    /// Why `rewind` refuses a position.
    public enum Fault: Sendable {
        /// Frames after the position have been acknowledged or given up.
        case gone
        /// The position was never reached; `upTo` is the end of the last whole frame sent.
        case ahead(upTo: UInt64)
        /// The position is inside a frame.
        case within
    }

    /// Why `rewind` has refused a position.
    public func fault(of position: UInt64) -> Fault {
        if position < self.position { return .gone }
        var (offset, reached) = (0, self.position)
        while offset < reach, offset + frame(at: offset) <= reach {
            reached &+= UInt64(frame(at: offset) - Wire.lengthSize)
            offset += frame(at: offset)
        }
        return position > reached ? .ahead(upTo: reached) : .within
    }

    /// Drops sent frames from the front until `isEnd` (a frame's offset and its size) returns true.
    private func drop(until isEnd: (Int, Int) -> Bool) {
        var offset = 0
        while offset < sent {
            let size = frame(at: offset)
            if isEnd(offset, size) { break }
            offset += size
            position &+= UInt64(size - Wire.lengthSize)
        }
        frames.consume(offset)
        frames.shrink(above: 16 << 10)
        sent -= offset
        boundary -= offset
        reach -= offset
    }

    /// The size of the frame at `offset`, including its length field.
    private func frame(at offset: Int) -> Int { Wire.lengthSize + frames.readable.u24(at: offset) }
}

// ResumeStore: what was written for a client that may resume, as long as it has not acknowledged it. Frames stand here
// as on the wire, each with its length before it; those of stream 0 never do.
//
//     position                sent                      end
//        |  may be sent again  |  has not been sent yet  |
//
// Positions are RSocket's: bytes of frames, without the lengths, from the session's beginning. Only the position of the
// first byte here is kept. Where others stand is found by going over the frames, each of which is gone over twice in
// its life – once when it is sent, once when it is acknowledged – and once more for each RESUME.

import Bytes

/// The frames of one session from the server to the client. What it is given has to be whole frames.
public final class ResumeStore {
    private var frames = ByteBuffer()
    /// The position of the oldest frame here: what came before is acknowledged, or given up.
    public private(set) var position: UInt64 = 0
    /// Bytes at the front that a socket has taken, lengths included.
    public private(set) var sent = 0
    /// Where the frame ends within which `sent` lies: as far as `sent`, or beyond.
    private var boundary = 0
    /// Bytes at the front that any socket has taken: as far as `sent`, or beyond, as a RESUME that comes late has sent
    /// again what its client may have by then.
    private var reach = 0

    public init() {}

    /// Bytes of all frames here, lengths included.
    public var count: Int { frames.count }
    /// Bytes that no socket has taken.
    public var unsent: Int { frames.count - sent }
    /// Bytes of the frame under way that no socket has taken.
    public var inFlight: Int { boundary - sent }
    /// Bytes of memory held.
    public var capacity: Int { frames.capacity }

    /// What is to be sent next; valid until the store is changed.
    public var next: UnsafeRawBufferPointer { frames.readable.slice(sent..<frames.count) }

    /// Room for `count` bytes of whole frames, to be written at once.
    public func reserve(_ count: Int) -> UnsafeMutableRawBufferPointer {
        let target = UnsafeMutableRawBufferPointer(start: frames.reserve(count), count: count)
        frames.commit(count)
        return target
    }

    /// Appends the frames that `write` writes; returns how many bytes.
    public func append(_ write: (inout ByteBuffer) -> Void) -> Int {
        let before = frames.count
        write(&frames)
        return frames.count - before
    }

    /// `count` bytes of frames, lengths not included, went to the client without standing here; nothing does now.
    public func skip(_ count: Int) {
        precondition(frames.count == 0)
        position &+= UInt64(count)
    }

    /// A socket took `count` bytes of `next`.
    public func took(_ count: Int) {
        sent += count
        reach = max(reach, sent)
        while boundary < sent { boundary += frame(at: boundary) }
    }

    /// The client has all frames before `position`. What it cannot have is not believed.
    public func acknowledge(_ position: UInt64) {
        drop { self.position &+ UInt64($1 - Wire.lengthSize) > position || $0 + $1 > self.sent }
    }

    /// Gives up the oldest frames that were sent, until at most `limit` bytes are left: whoever lacks them cannot
    /// resume any more.
    public func shorten(to limit: Int) {
        let excess = count - limit
        drop { offset, size in offset >= excess || offset + size > self.sent }
    }

    /// What was not sent is not to be; but for the frame that was begun.
    public func dropUnsent() {
        frames.truncate(by: frames.count - boundary)
        reach = min(reach, boundary)
    }

    /// Begins anew at `position`, as far as which the client has everything. False, and nothing is changed, if what
    /// follows there is not all here, if so much was never sent, or if no frame begins there.
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
        /// What followed there is acknowledged, or was given up.
        case gone
        /// So much was never sent: `upTo` is how much was, in whole frames.
        case ahead(upTo: UInt64)
        /// It is within a frame.
        case within
    }

    /// What is wrong with a position that `rewind` has refused.
    public func fault(of position: UInt64) -> Fault {
        if position < self.position { return .gone }
        var (offset, reached) = (0, self.position)
        while offset < reach, offset + frame(at: offset) <= reach {
            reached &+= UInt64(frame(at: offset) - Wire.lengthSize)
            offset += frame(at: offset)
        }
        return position > reached ? .ahead(upTo: reached) : .within
    }

    /// Drops the frames at the front until `isEnd` (a frame's offset and its size) says so.
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

    /// Bytes of the frame that begins at `offset`, its length included.
    private func frame(at offset: Int) -> Int { Wire.lengthSize + frames.readable.u24(at: offset) }
}

// Output: what a connection has been handed and its socket has not taken yet.
//
// Messages go out from the log's own memory where they can: a segment then names a range of a chunk. Where they need
// another stream id than the log's, the segment names that too, and its frames are copied and patched when they are
// gathered, in the scratch that the shard's connections share. What must be made for this connection alone (metadata)
// is written into blocks. When the socket blocks, what is left of chunks is copied into blocks too, so that a
// connection that reads nothing keeps no chunk of any topic alive.
//
// Control frames (KEEPALIVE, REQUEST_N, acknowledgements, an ERROR of a stream that is sent no messages) go ahead of
// messages, at the next frame boundary:
//
//     [rest of the frame in flight] [control] [segments …]
//
// What a peer may ask for again, as one that can resume does, is kept beyond its sending: Output+Resuming.swift.

import Bytes

struct Output: ~Copyable {
    private enum Owner {
        case shared(AnyObject)
        case block(Block)
        case none
    }

    private struct Segment {
        var owner: Owner
        var start: UnsafeRawPointer
        var count: Int
        /// The stream id that the frames of a chunk still need; 0: they go as they lie. Where it is not 0, `start` is
        /// a frame's.
        var stream: UInt32 = 0
    }

    private var segments: [Segment] = []
    private var first = 0
    /// Bytes at the front that belong to a frame whose beginning is already on its way.
    private var inFlight = 0
    var control = ByteBuffer()
    var keepalive = ByteBuffer()
    let pool: BlockPool
    /// The block with room left, where the next bytes made for this connection go.
    private var current: Block?
    /// Bytes of messages handed over and not yet taken by the socket.
    var count = 0
    /// Bytes of messages copied for this connection, beside those sent from the log: each copy counts.
    var copied: UInt64 = 0
    /// Bytes of messages that the socket has taken.
    var sent: UInt64 = 0
    /// Bytes of errors and completions among the messages, and where the last of them ends, in terms of `sent`.
    var answers = 0
    var answersEnd: UInt64 = 0
    /// The socket takes nothing until it is writable again.
    var blocked = false { didSet { copies = blocked || kept != nil } }
    /// What is handed over is copied at once.
    private var copies = false
    /// What stands in for the segments where the peer can resume.
    var kept: KeptOutput? { didSet { copies = blocked || kept != nil } }

    /// Its bytes are RSocket's frames; else nothing is known of where they begin and end, and nothing goes ahead.
    private let isRSocket: Bool

    init(pool: BlockPool, isRSocket: Bool = true) {
        self.pool = pool
        self.isRSocket = isRSocket
    }

    /// Where all stands in one row these are all its answers.
    var controlCount: Int { control.count + keepalive.count + (kept == nil ? 0 : answers) }
    /// Bytes that answer what the peer did, wherever they stand: control frames, and the ends of streams.
    var unreadAnswers: Int { control.count + keepalive.count + answers }
    var isEmpty: Bool { count == 0 && control.isEmpty && keepalive.isEmpty }

    /// How much more may be handed over where `limit` bytes may wait; 0 or less is nothing.
    @inline(__always)
    func room(_ limit: Int) -> Int {
        guard let kept else { return limit - count }
        return roomToKeep(kept, limit)
    }

    /// Calls `body` with all that keeps memory for what waits here, some of it more than once.
    func forEachOwner(_ body: (AnyObject) -> Void) {
        for segment in segments[first...] {
            switch segment.owner {
            case .shared(let owner): body(owner)
            case .block(let block): body(block)
            case .none: break
            }
        }
        if let current { body(current) }
    }

    // Handing over

    /// Whole frames that lie in `chunk`, to be sent from there, on `stream`.
    mutating func append(_ bytes: UnsafeRawBufferPointer, of chunk: Chunk, stream: UInt32) {
        guard let start = bytes.baseAddress, bytes.count > 0 else { return }
        if copies {
            // A socket that takes nothing is to keep no chunk alive, whenever its messages came.
            copy(bytes, stream: stream)
            return
        }
        count += bytes.count
        let needed = stream == PayloadFraming.commonStream ? 0 : stream
        let last = segments.count - 1
        if last >= first, case .shared(let owner) = segments[last].owner, owner === chunk,
            segments[last].start + segments[last].count == start, segments[last].stream == needed
        {
            segments[last].count += bytes.count
            return
        }
        segments.append(Segment(owner: .shared(chunk), start: start, count: bytes.count, stream: needed))
    }

    /// Bytes that stay where they are as long as `owner` does.
    mutating func append(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject) {
        guard let start = bytes.baseAddress, bytes.count > 0 else { return }
        if copies {
            reserve(bytes.count).copyMemory(from: bytes)
            return
        }
        count += bytes.count
        segments.append(Segment(owner: .shared(owner), start: start, count: bytes.count))
    }

    /// Whole frames of a chunk, for `stream`, of which a copy is made.
    mutating func copy(_ bytes: UnsafeRawBufferPointer, stream: UInt32) {
        let target = reserve(bytes.count)
        target.copyMemory(from: bytes)
        if stream != PayloadFraming.commonStream { PayloadFraming.patch(target, stream: stream) }
    }

    /// Room for `count` bytes of whole frames, to be written at once by the caller.
    mutating func reserve(_ count: Int) -> UnsafeMutableRawBufferPointer {
        self.count += count
        copied &+= UInt64(count)
        if let kept { return reserve(count, in: kept) }
        let last = segments.count - 1
        if last >= first, case .block(let block) = segments[last].owner, block.capacity - block.used >= count,
            segments[last].start + segments[last].count == UnsafeRawPointer(block.base + block.used)
        {
            let target = block.base + block.used
            block.used += count
            segments[last].count += count
            return UnsafeMutableRawBufferPointer(start: target, count: count)
        }
        let (block, target) = space(count)
        segments.append(Segment(owner: .block(block), start: UnsafeRawPointer(target), count: count))
        return UnsafeMutableRawBufferPointer(start: target, count: count)
    }

    /// The end of a stream, behind its messages. Written whole.
    mutating func answer(_ frames: UnsafeRawBufferPointer) {
        reserve(frames.count).copyMemory(from: frames)
        answers += frames.count
        answersEnd = sent &+ UInt64(count)
        if let kept { shorten(kept) }
    }

    /// A place for a new segment, in the block in use if it has room.
    private mutating func space(_ count: Int) -> (Block, UnsafeMutableRawPointer) {
        if let block = current, block.capacity - block.used >= count, block.segments > 0 {
            let target = block.base + block.used
            block.used += count
            block.segments += 1
            return (block, target)
        }
        let block = pool.take(count)
        block.used = count
        block.segments = 1
        current = block
        return (block, block.base)
    }

    /// A control frame of a stream, written whole by `write`.
    mutating func control(_ write: (inout ByteBuffer) -> Void) {
        if let kept { return answer(in: kept, write) }
        write(&control)
    }

    /// A frame of the connection itself, written whole by `write`.
    mutating func connectionControl(_ write: (inout ByteBuffer) -> Void) { write(&control) }

    /// The answer to a KEEPALIVE; it takes the place of one that has not been sent yet.
    mutating func keepalive(_ write: (inout ByteBuffer) -> Void) {
        keepalive.removeAll()
        write(&keepalive)
    }

    /// It is too late for that answer to be replaced by a later one.
    private mutating func settleKeepalive() {
        guard !keepalive.isEmpty else { return }
        control.append(keepalive.readable)
        keepalive.removeAll()
    }

    // Sending

    /// The next bytes to write, in order; not always all there are. Returns how many of `pieces` were set. They are
    /// valid until the next input or `gather` of any connection of the shard; `wrote` comes next.
    mutating func gather(into pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>) -> Int {
        var set = 0
        func add(_ bytes: UnsafeRawBufferPointer) {
            guard let start = bytes.baseAddress, bytes.count > 0 else { return }
            if set > 0, let before = pieces[set - 1].baseAddress, before + pieces[set - 1].count == start {
                pieces[set - 1] = UnsafeRawBufferPointer(start: before, count: pieces[set - 1].count + bytes.count)
            } else if set < pieces.count {
                pieces[set] = bytes
                set += 1
            }
        }
        settleKeepalive()
        if let kept { return gather(kept, into: pieces) }
        pool.scratch.clear()
        var index = first
        var skip = 0
        if inFlight > 0 {
            add(UnsafeRawBufferPointer(start: segments[first].start, count: inFlight))
            skip = inFlight
        }
        add(control.readable)
        while index < segments.count, set < pieces.count {
            let segment = segments[index]
            if segment.stream != 0 {
                let bytes = pool.scratch.add(segment.start, segment.count, stream: segment.stream)
                copied &+= UInt64(bytes.count)
                if bytes.isEmpty, set == 0 {
                    // A frame that the scratch never has room for.
                    own(index)
                    continue
                }
                add(bytes)
                // The rest has its turn when the scratch is free again.
                if bytes.count < segment.count { break }
            } else {
                add(UnsafeRawBufferPointer(start: segment.start + skip, count: segment.count - skip))
            }
            skip = 0
            index += 1
        }
        return set
    }

    /// The socket took the first `written` of the gathered bytes.
    mutating func wrote(_ written: Int, blocked: Bool) {
        if let kept { return wrote(written, blocked: blocked, of: kept) }
        var rest = written
        if inFlight > 0 {
            let part = Swift.min(rest, inFlight)
            takeFront(part)
            inFlight -= part
            rest -= part
        }
        if inFlight == 0 {
            let part = Swift.min(rest, control.count)
            control.consume(part)
            rest -= part
        }
        while rest > 0, first < segments.count {
            let segment = segments[first]
            if rest < segment.count, !isRSocket {
                takeFront(rest)
                break
            }
            if rest < segment.count {
                let whole = Output.wholeFrames(segment.start, within: rest)
                takeFront(whole)
                if whole < rest {
                    let frame = UnsafeRawBufferPointer(start: segments[first].start, count: PayloadFraming.header)
                    inFlight = PayloadFraming.length(of: frame) - (rest - whole)
                    // Another time nobody could tell where in the rest its frames begin.
                    if segment.stream != 0 { own(first) }
                    takeFront(rest - whole)
                }
                break
            }
            rest -= segment.count
            takeFront(segment.count)
        }
        if sent >= answersEnd { answers = 0 }
        self.blocked = blocked
        if blocked { releaseChunks() }
        if first == segments.count {
            segments.removeAll(keepingCapacity: segments.capacity <= 64)
            first = 0
        } else if first > 32, first * 2 > segments.count {
            segments.removeFirst(first)
            first = 0
        }
        if control.isEmpty { control.shrink(above: 256) }
        if keepalive.isEmpty { keepalive.shrink(above: 64) }
    }

    /// Gives up all messages that wait here: the connection is closing and only its last error counts.
    mutating func dropMessages() {
        guard isRSocket else { return }
        settleKeepalive()
        answers = 0
        if let kept { return dropUnsent(kept) }
        // A frame in flight must be ended, or the error behind it could not be read.
        let keep = inFlight
        while first < segments.count, count > keep {
            let last = segments.count - 1
            let excess = Swift.min(segments[last].count, count - keep)
            segments[last].count -= excess
            count -= excess
            if segments[last].count == 0 { recycle(segments.removeLast()) }
        }
    }

    /// Gives back what is held.
    mutating func removeAll() {
        forgetKept()
        while segments.count > first { recycle(segments.removeLast()) }
        segments.removeAll()
        first = 0
        count = 0
        inFlight = 0
        control.removeAll()
        keepalive.removeAll()
    }

    private mutating func takeFront(_ bytes: Int) {
        count -= bytes
        sent &+= UInt64(bytes)
        segments[first].start += bytes
        segments[first].count -= bytes
        if segments[first].count == 0 {
            recycle(segments[first])
            // Drops the reference to the chunk now, not when the array is compacted.
            segments[first].owner = .none
            first += 1
        }
    }

    private mutating func recycle(_ segment: Segment) {
        guard case .block(let block) = segment.owner else { return }
        pool.release(block)
        if block.segments == 0, current === block { current = nil }
    }

    /// Copies what is left of chunks, so that the chunks can go. What lies in a block stays where it is.
    private mutating func releaseChunks() {
        for index in first..<segments.count {
            if case .shared = segments[index].owner { own(index) }
        }
    }

    /// Copies what a segment names of a chunk into a block, with the stream id that it needs.
    private mutating func own(_ index: Int) {
        let segment = segments[index]
        let (block, target) = space(segment.count)
        target.copyMemory(from: segment.start, byteCount: segment.count)
        if segment.stream != 0 {
            PayloadFraming.patch(
                UnsafeMutableRawBufferPointer(start: target, count: segment.count), stream: segment.stream)
        }
        copied &+= UInt64(segment.count)
        segments[index] = Segment(owner: .block(block), start: UnsafeRawPointer(target), count: segment.count)
    }

    /// Bytes of the frames that lie whole in the first `count` bytes at `start`, where one begins.
    private static func wholeFrames(_ start: UnsafeRawPointer, within count: Int) -> Int {
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

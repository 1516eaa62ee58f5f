// Output: what a connection has been handed and its socket has not taken yet.
//
// Messages go out from the log's own memory where they can: a segment then names a range of a chunk. Where they need
// another stream id than the log's, the segment names that too, and its frames are copied and patched when they are
// gathered, in the scratch that the shard's connections share. What must be made for this connection alone (metadata)
// is written into blocks. When the socket blocks, small remainders are copied into memory of their size as long as
// the shard's connections have room for that together; the rest goes on naming the chunk, which all who are stuck in
// it share.
//
// A frame may stand in two segments, as one that has its header made for this connection and its payload in a chunk:
//
//     [… whole frames, header] [rest of that frame: a tail] [whole frames …]
//
// Control frames (KEEPALIVE, REQUEST_N, acknowledgements, an ERROR of a stream that is sent no messages) go ahead of
// messages, at the next frame boundary:
//
//     [rest of the frame in flight] [control] [segments …]
//
// What a peer may ask for again, as one that can resume does, is kept beyond its sending: Output+Resuming.swift.

import Bytes

struct Output: ~Copyable {
    enum Owner {
        case shared(Region)
        case block(Block)
        case none
    }

    struct Segment {
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
    }

    var segments: [Segment] = []
    /// Bytes that they take, as they are counted.
    private(set) var segmentMemory = 0
    var first = 0
    /// Bytes at the front that belong to a frame whose beginning is already on its way.
    var inFlight = 0
    var control = ByteBuffer()
    var keepalive = ByteBuffer()
    let pool: BlockPool
    /// The block with room left, where the next bytes made for this connection go.
    var current: Block?
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
    var blocked = false
    /// The connection's last frame is written: what its streams still have to say is not sent.
    var isSealed = false
    /// What stands in for the segments where the peer can resume.
    var kept: KeptOutput?
    /// What goes to such a peer now is not kept.
    var isPassing = false
    /// What stands in for the segments now.
    @inline(__always)
    var keeping: KeptOutput? { kept == nil || isPassing ? nil : kept }

    /// Its bytes are RSocket's frames; else nothing is known of where they begin and end, and nothing goes ahead.
    let isRSocket: Bool

    init(pool: BlockPool, isRSocket: Bool = true) {
        self.pool = pool
        self.isRSocket = isRSocket
    }

    /// Where all stands in one row these are all its answers.
    var controlCount: Int { control.count + keepalive.count + (kept == nil ? 0 : answers) }
    /// Bytes that answer what the peer did, wherever they stand: control frames, and the ends of streams.
    var unreadAnswers: Int { control.count + keepalive.count + answers }
    var isEmpty: Bool { count == 0 && control.isEmpty && keepalive.isEmpty }

    /// Bytes that a connection may have waiting while memory is short.
    static let sip = 4 << 10

    /// How much more may be handed over where `limit` bytes may wait; 0 or less is nothing.
    @inline(__always)
    func room(_ limit: Int) -> Int {
        guard let kept else { return (pool.isShort ? Swift.min(limit, Output.sip) : limit) - count }
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

    /// Calls `body` with what is named of others' memory, some of it more than once, and how many bytes of it.
    func forEachShared(_ body: (Region, Int) -> Void) {
        for segment in segments[first...] {
            if case .shared(let region) = segment.owner { body(region, segment.count) }
        }
    }

    // Handing over

    /// Whole frames that lie in `chunk`, to be sent from there, on `stream`.
    mutating func append(_ bytes: UnsafeRawBufferPointer, of chunk: consuming Chunk, stream: UInt32) {
        guard let start = bytes.baseAddress, bytes.count > 0 else { return }
        if keeping != nil { return copy(bytes, stream: stream) }
        let needed = stream == PayloadFraming.commonStream ? 0 : stream
        let last = segments.count - 1
        if last >= first, case .shared(let owner) = segments[last].owner, owner === chunk,
            segments[last].start + segments[last].count == start, segments[last].stream == needed
        {
            count += bytes.count
            segments[last].count += bytes.count
            return
        }
        if isTooShort(bytes.count) { return copy(bytes, stream: stream) }
        count += bytes.count
        add(Segment(owner: .shared(chunk), start: start, count: bytes.count, stream: needed))
    }

    /// Bytes below which a message that stands apart from the next one is copied: to send it from where it lies costs
    /// more, and so does the memory that remembers where that is.
    static let worthASegment = 512
    /// Segments that a connection may have, however few bytes they name.
    private static let fewSegments = 32

    @inline(__always)
    private func isTooShort(_ count: Int) -> Bool {
        count < Output.worthASegment && segments.count - first >= Output.fewSegments
    }

    @inline(__always)
    private mutating func add(_ segment: Segment) {
        segments.append(segment)
        if segments.capacity > Output.fewSegments { chargeSegments() }
    }

    /// What many segments take is the connection's own memory, as copies are.
    mutating func chargeSegments() {
        let memory = segments.capacity > 2 * Output.fewSegments ? segments.capacity * MemoryLayout<Segment>.stride : 0
        guard memory != segmentMemory else { return }
        pool.count(memory - segmentMemory)
        pool.budget.add(memory - segmentMemory)
        segmentMemory = memory
    }

    /// Bytes that stay where they are as long as `owner` does. Of RSocket, what `isTail` says.
    /// - Parameter isTail: they are the rest of the frame that was begun right before.
    mutating func append(_ bytes: UnsafeRawBufferPointer, of owner: Region, isTail: Bool = false) {
        guard let start = bytes.baseAddress, bytes.count > 0 else { return }
        if keeping != nil || !isTail && isTooShort(bytes.count) { return reserve(bytes.count).copyMemory(from: bytes) }
        count += bytes.count
        let stream = isTail ? Segment.tail : 0
        add(Segment(owner: .shared(owner), start: start, count: bytes.count, stream: stream))
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
        if let keeping { return reserve(count, in: keeping) }
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
        add(Segment(owner: .block(block), start: UnsafeRawPointer(target), count: count))
        return UnsafeMutableRawBufferPointer(start: target, count: count)
    }

    /// The end of a stream, behind its messages. Written whole.
    mutating func answer(_ frames: UnsafeRawBufferPointer) {
        guard !isSealed else { return }
        reserve(frames.count).copyMemory(from: frames)
        answers += frames.count
        answersEnd = sent &+ UInt64(count)
        if let keeping { shorten(keeping) }
    }

    /// A place for a new segment, in the block in use if it has room.
    mutating func space(_ count: Int) -> (Block, UnsafeMutableRawPointer) {
        if let block = current, block.capacity - block.used >= count, block.segments > 0 {
            let target = block.base + block.used
            block.used += count
            block.segments += 1
            return (block, target)
        }
        let block = pool.take(current == nil ? count : Swift.max(count, Block.shortSize))
        block.used = count
        block.segments = 1
        current = block
        return (block, block.base)
    }

    /// A control frame of a stream, written whole by `write`.
    mutating func control(_ write: (inout ByteBuffer) -> Void) {
        guard !isSealed else { return }
        if let keeping { return answer(in: keeping, write) }
        let before = control.count
        write(&control)
        kept?.pass(control.readable.slice(before..<control.count))
    }

    /// A frame of the connection itself, written whole by `write`.
    mutating func connectionControl(_ write: (inout ByteBuffer) -> Void) { write(&control) }

    /// The answer to a KEEPALIVE; it takes the place of one that has not been sent yet.
    mutating func keepalive(_ write: (inout ByteBuffer) -> Void) {
        keepalive.removeAll()
        write(&keepalive)
    }
}

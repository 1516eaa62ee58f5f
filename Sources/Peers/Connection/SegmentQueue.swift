// SegmentQueue: references to messages that a connection has been handed and its socket has not taken yet.
//
// Messages are sent from the log's own memory if possible: a segment then refers to a range of a chunk. If frames need
// a stream id other than the log's, the segment holds that id too, and its frames are copied and patched when they are
// gathered, in a scratch buffer that the shard's connections share. Bytes made only for this connection (metadata) are
// written into blocks. When the socket blocks, small remainders are copied into memory of exactly their size, as long
// as the shard's connections have room for copies; the rest keeps referring to the chunk, which all connections blocked
// in it share.
//
// A frame may span several segments, for example a header made for this connection and a payload in a chunk:
//
//     [… whole frames, header] [rest of that frame: a tail] [whole frames …]

import Bytes

struct SegmentQueue: ~Copyable {
    private(set) var segments: [Segment] = []
    /// Bytes of the segment array that are charged to memory.
    private(set) var memory = 0
    private var first = 0
    /// Bytes at the front that belong to a partly sent frame.
    private(set) var inFlight = 0
    /// Memory for bytes made for this connection.
    private var blocks: OwnBlocks
    /// Bytes of messages handed over and not yet taken by the socket, including those in `KeptOutput`.
    var count = 0
    /// Bytes of messages copied for this connection instead of being sent from the log; each copy counts.
    private(set) var copied: UInt64 = 0
    /// Bytes of messages that the socket has taken.
    private(set) var sent: UInt64 = 0

    init(pool: BlockPool) { blocks = OwnBlocks(pool: pool) }

    var pool: BlockPool { blocks.pool }

    /// How many more bytes may be handed over if `limit` bytes may wait; none if 0 or less.
    @inline(__always)
    func room(_ limit: Int) -> Int { (pool.isShort ? Swift.min(limit, Output.sip) : limit) - count }

    /// Calls `body` with each object whose memory is kept by what waits here; some more than once.
    func forEachOwner(_ body: (AnyObject) -> Void) {
        for segment in segments[first...] {
            switch segment.owner {
            case .shared(let owner): body(owner)
            case .block(let block): body(block)
            case .none: break
            }
        }
        if let current = blocks.current { body(current) }
    }

    /// Calls `body` with each shared region referenced here and its bytes in use, possibly several times.
    func forEachShared(_ body: (Region, Int) -> Void) {
        for segment in segments[first...] {
            if case .shared(let region) = segment.owner { body(region, segment.count) }
        }
    }

    // Handing over

    /// Appends whole frames in `chunk`, to be sent from there on `stream`.
    mutating func append(_ bytes: UnsafeRawBufferPointer, of chunk: consuming Chunk, stream: UInt32) {
        guard let start = bytes.baseAddress, bytes.count > 0 else { return }
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

    @inline(__always)
    private func isTooShort(_ count: Int) -> Bool {
        count < Output.worthASegment && segments.count - first >= Output.fewSegments
    }

    @inline(__always)
    private mutating func add(_ segment: Segment) {
        segments.append(segment)
        if segments.capacity > Output.fewSegments { charge() }
    }

    /// Counts a large segment array as the connection's own memory, like copies.
    private mutating func charge() {
        let memory = segments.capacity > 2 * Output.fewSegments ? segments.capacity * MemoryLayout<Segment>.stride : 0
        guard memory != self.memory else { return }
        pool.count(memory - self.memory)
        pool.budget.add(memory - self.memory)
        self.memory = memory
    }

    /// Appends bytes that stay in place as long as `owner` exists; over RSocket these are whole frames or a tail.
    /// - Parameter isTail: the bytes are the rest of the frame begun by the previous segment.
    mutating func append(_ bytes: UnsafeRawBufferPointer, of owner: Region, isTail: Bool = false) {
        guard let start = bytes.baseAddress, bytes.count > 0 else { return }
        if !isTail, isTooShort(bytes.count) { return reserve(bytes.count).copyMemory(from: bytes) }
        count += bytes.count
        let stream = isTail ? Segment.tail : 0
        add(Segment(owner: .shared(owner), start: start, count: bytes.count, stream: stream))
    }

    /// Appends a copy of whole frames of a chunk, for `stream`.
    private mutating func copy(_ bytes: UnsafeRawBufferPointer, stream: UInt32) {
        Segment.write(bytes, stream: stream, to: reserve(bytes.count))
    }

    /// Counts `count` more bytes, which wait in `KeptOutput` as copies.
    mutating func noteCopy(_ count: Int) {
        self.count += count
        copied &+= UInt64(count)
    }

    /// Counts `count` bytes that the socket took from `KeptOutput`.
    mutating func noteTaken(_ count: Int) {
        assert(count <= self.count)
        self.count -= count
        sent &+= UInt64(count)
    }

    /// Reserves space for `count` bytes of whole frames, which the caller must write at once.
    mutating func reserve(_ count: Int) -> UnsafeMutableRawBufferPointer {
        self.count += count
        copied &+= UInt64(count)
        let last = segments.count - 1
        if last >= first, case .block(let block) = segments[last].owner, block.capacity - block.used >= count,
            segments[last].start + segments[last].count == UnsafeRawPointer(block.base + block.used)
        {
            let target = block.base + block.used
            block.used += count
            segments[last].count += count
            return UnsafeMutableRawBufferPointer(start: target, count: count)
        }
        let (block, target) = blocks.space(count)
        add(Segment(owner: .block(block), start: UnsafeRawPointer(target), count: count))
        return UnsafeMutableRawBufferPointer(start: target, count: count)
    }

    // Sending

    /// Whether everything to be written is one segment that needs no patching.
    @inline(__always)
    var isSimple: Bool { segments.count == 1 && first == 0 && inFlight == 0 && !segments[0].isPatched }

    /// The bytes of the only segment.
    @inline(__always)
    var only: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: segments[0].start, count: segments[0].count)
    }

    /// Removes the only segment, which the socket took completely.
    @inline(__always)
    mutating func tookOnly() {
        assert(isSimple && segments[0].count == count)
        sent &+= UInt64(count)
        count = 0
        removeLast()
        if memory > 0 { charge() }
    }

    /// The next bytes to write, in order, with `control` ahead of the next whole frame; not necessarily all. Returns
    /// how many of `pieces` were set.
    mutating func gather(
        ahead control: UnsafeRawBufferPointer, into pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>
    ) -> Int {
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
        pool.scratch.clear()
        var index = first
        var skip = 0
        var ahead = inFlight
        while ahead > 0, set < pieces.count {
            skip = Swift.min(ahead, segments[index].count)
            add(UnsafeRawBufferPointer(start: segments[index].start, count: skip))
            ahead -= skip
            guard skip == segments[index].count else { break }
            index += 1
            skip = 0
        }
        guard ahead == 0 else { return set }
        add(control)
        while index < segments.count, set < pieces.count {
            let segment = segments[index]
            if segment.isPatched {
                let bytes = pool.scratch.add(segment.start, segment.count, stream: segment.stream)
                copied &+= UInt64(bytes.count)
                if bytes.isEmpty, set == 0 {
                    // A frame that never fits into the scratch buffer.
                    own(index)
                    continue
                }
                add(bytes)
                // The rest is gathered when the scratch buffer is free again.
                if bytes.count < segment.count { break }
            } else {
                add(UnsafeRawBufferPointer(start: segment.start + skip, count: segment.count - skip))
            }
            skip = 0
            index += 1
        }
        return set
    }

    /// Removes `bytes` bytes of messages that the socket took, after those of the frame in flight.
    /// - Parameter isFramed: see `Output.isRSocket`.
    mutating func take(_ bytes: Int, isFramed: Bool) {
        assert(bytes == 0 || inFlight == 0)
        var rest = bytes
        while rest > 0, first < segments.count {
            let length = segments[first].count
            if rest < length {
                if isFramed { begin(rest) } else { takeFront(rest) }
                break
            }
            rest -= length
            takeFront(length)
            // The frame at the end of this segment continues in the next ones.
            var next = first
            while next < segments.count, segments[next].isTail {
                inFlight += segments[next].count
                next += 1
            }
            if inFlight > 0 { rest = takeInFlight(rest) }
        }
    }

    /// Cleans up after a write. `blocked`: the socket takes no more for now.
    @inline(__always)
    mutating func finishWrite(blocked: Bool) {
        if blocked { finishStalled() }
        if first == segments.count {
            // Popping the few elements one by one is cheaper than `removeAll`.
            if !blocked, segments.capacity <= 64 { while segments.popLast() != nil {} } else { segments = [] }
            first = 0
        } else if first > 32, first * 2 > segments.count {
            segments.removeFirst(first)
            first = 0
        }
        if memory > 0 { charge() }
    }

    /// Takes up to the rest of the frame in flight from `bytes`. Returns what remains of `bytes`.
    mutating func takeInFlight(_ bytes: Int) -> Int {
        var rest = bytes
        while inFlight > 0, rest > 0 {
            let part = Swift.min(rest, inFlight, segments[first].count)
            takeFront(part)
            inFlight -= part
            rest -= part
        }
        return rest
    }

    /// Removes the only bytes taken, the first `taken` of the first segment, which begins with a frame.
    private mutating func begin(_ taken: Int) {
        let whole = segments[first].wholeFrames(within: taken)
        takeFront(whole)
        let part = taken - whole
        guard part > 0 else { return }
        let frame = UnsafeRawBufferPointer(start: segments[first].start, count: PayloadFraming.header)
        let length = PayloadFraming.length(of: frame)
        inFlight = length - part
        // Later it would be impossible to find where frames begin in the rest.
        if segments[first].isPatched { isolate(length, taken: part) }
        takeFront(part)
    }

    /// Splits off the frame of `length` bytes at the front, of which `taken` bytes are about to be taken, so that its
    /// rest is sent without patching.
    private mutating func isolate(_ length: Int, taken: Int) {
        let segment = segments[first]
        let header = PayloadFraming.header
        segments[first].stream = Segment.tail
        segments[first].count = length
        if segment.count > length {
            var behind = segment
            behind.start += length
            behind.count -= length
            segments.insert(behind, at: first + 1)
        }
        guard taken < header else { return }
        // The remaining part of the header still needs the stream id.
        let (block, target) = blocks.exactly(header)
        target.copyMemory(from: segment.start, byteCount: header)
        (target + 3).storeBytes(of: segment.stream.bigEndian, as: UInt32.self)
        copied &+= UInt64(header)
        let begun = Segment(owner: .block(block), start: UnsafeRawPointer(target), count: header)
        segments[first].start += header
        segments[first].count -= header
        if segments[first].count == 0 { segments[first] = begun } else { segments.insert(begun, at: first) }
    }

    /// Calls `body` for each segment with some of the next `count` bytes: their number, and the segment's bytes.
    func forEachNext(_ count: Int, _ body: (Int, UnsafeRawBufferPointer) -> Void) {
        var left = count
        for segment in segments[first...] where left > 0 {
            let part = Swift.min(left, segment.count)
            body(part, UnsafeRawBufferPointer(start: segment.start, count: segment.count))
            left -= part
        }
        assert(left == 0)
    }

    /// Drops everything except the rest of the frame in flight, without which the peer could not parse what follows.
    mutating func truncate() {
        let keep = inFlight
        while first < segments.count, count > keep {
            let last = segments.count - 1
            let excess = Swift.min(segments[last].count, count - keep)
            segments[last].count -= excess
            count -= excess
            if segments[last].count == 0 { removeLast() }
        }
    }

    mutating func removeAll() {
        while segments.count > first { removeLast() }
        segments.removeAll()
        charge()
        first = 0
        count = 0
        inFlight = 0
    }

    @inline(__always)
    private mutating func takeFront(_ bytes: Int) {
        count -= bytes
        sent &+= UInt64(bytes)
        segments[first].start += bytes
        segments[first].count -= bytes
        if segments[first].count == 0 {
            if case .block(let block) = segments[first].owner { blocks.release(block) }
            // Drops the reference to the chunk now, not when the array is compacted.
            segments[first].owner = .none
            first += 1
        }
    }

    private mutating func removeLast() {
        if case .block(let block) = segments.removeLast().owner { blocks.release(block) }
    }

    // A blocked socket

    /// Copies small remainders of shared memory as long as there is room for copies, so that a connection blocked for
    /// long does not keep a chunk for a few bytes. Other segments keep referring to their chunk.
    private mutating func finishStalled() {
        var index = first
        while index < segments.count {
            if case .shared = segments[index].owner, segments[index].count < BodyQueue.worthSharing,
                pool.mayOwn(segments[index].count)
            {
                own(index, exactly: true)
            }
            index += 1
        }
    }

    /// Copies bytes in released memory into one block, except for regions that another thread releases in the meantime.
    mutating func copyUnread() {
        var total = 0
        forEachShared { region, count in if region.isUnread { total += count } }
        guard total > 0 else { return }
        let block = pool.make(total)
        for index in first..<segments.count {
            let count = segments[index].count
            guard case .shared(let region) = segments[index].owner, region.isUnread, count <= total - block.used else {
                continue
            }
            own(index, in: block, at: block.base + block.used)
            block.used += count
            block.segments += 1
        }
    }

    /// Copies a segment's bytes into a block, with the stream id that they need.
    private mutating func own(_ index: Int, exactly: Bool = false) {
        let count = segments[index].count
        let (block, target) = exactly ? blocks.exactly(count) : blocks.space(count)
        own(index, in: block, at: target)
    }

    private mutating func own(_ index: Int, in block: Block, at target: UnsafeMutableRawPointer) {
        copied &+= UInt64(segments[index].count)
        segments[index] = segments[index].copied(into: block, at: target)
    }
}

// Output+Sending: what is written next, and what becomes of the rest. Control frames go between two frames of messages,
// so it is known at each moment how much of the frame in flight is left.

import Bytes

extension Output {
    /// The next bytes to write, in order; not always all there are. Returns how many of `pieces` were set. They are
    /// valid until the next input or `gather` of any connection of the shard; `wrote` comes next.
    @inline(__always)
    mutating func gather(into pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>) -> Int {
        guard isSimple else { return gatherAll(into: pieces) }
        pieces[0] = UnsafeRawBufferPointer(start: segments[0].start, count: segments[0].count)
        return 1
    }

    private mutating func gatherAll(into pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>) -> Int {
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
        if let keeping { return gather(keeping, into: pieces) }
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
        add(control.readable)
        while index < segments.count, set < pieces.count {
            let segment = segments[index]
            if segment.isPatched {
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

    /// All that is to be written is one segment, which goes as it lies: the common case at low rates.
    @inline(__always)
    private var isSimple: Bool {
        segments.count == 1 && first == 0 && inFlight == 0 && control.isEmpty && keepalive.isEmpty && kept == nil
            && !segments[0].isPatched
    }

    /// The socket took the first `written` of the gathered bytes.
    mutating func wrote(_ written: Int, blocked: Bool) {
        if !blocked, isSimple, written == count {
            count = 0
            sent &+= UInt64(written)
            removeLast()
            if sent >= answersEnd { answers = 0 }
            self.blocked = false
            if segmentMemory > 0 { chargeSegments() }
            return
        }
        if let keeping { return wrote(written, blocked: blocked, of: keeping) }
        var rest = inFlight > 0 ? takeInFlight(written) : written
        if inFlight == 0 {
            let part = Swift.min(rest, control.count)
            control.consume(part)
            rest -= part
        }
        while rest > 0, first < segments.count {
            let length = segments[first].count
            if rest < length {
                if isRSocket { begin(rest) } else { takeFront(rest) }
                break
            }
            rest -= length
            takeFront(length)
            // The frame at its end goes on in the next ones.
            var next = first
            while next < segments.count, segments[next].isTail {
                inFlight += segments[next].count
                next += 1
            }
            if inFlight > 0 { rest = takeInFlight(rest) }
        }
        if sent >= answersEnd { answers = 0 }
        self.blocked = blocked
        if isPassing { endPassIfWritten() }
        if blocked { settleStalled() }
        if first == segments.count {
            // One by one, as they are few, which takes less than `removeAll`.
            if !blocked, segments.capacity <= 64 { while segments.popLast() != nil {} } else { segments = [] }
            first = 0
        } else if first > 32, first * 2 > segments.count {
            segments.removeFirst(first)
            first = 0
        }
        if segmentMemory > 0 { chargeSegments() }
        if control.isEmpty { control.shrink(above: 256) }
        if keepalive.isEmpty { keepalive.shrink(above: 64) }
    }

    /// Takes as much of `bytes` as is left of the frame in flight; returns the others.
    private mutating func takeInFlight(_ bytes: Int) -> Int {
        var rest = bytes
        while inFlight > 0, rest > 0 {
            let part = Swift.min(rest, inFlight, segments[first].count)
            takeFront(part)
            inFlight -= part
            rest -= part
        }
        return rest
    }

    /// The socket took the first `taken` bytes of the first segment, where a frame begins, and not all of it.
    private mutating func begin(_ taken: Int) {
        let whole = Output.wholeFrames(segments[first].start, within: taken)
        takeFront(whole)
        let part = taken - whole
        guard part > 0 else { return }
        let frame = UnsafeRawBufferPointer(start: segments[first].start, count: PayloadFraming.header)
        let length = PayloadFraming.length(of: frame)
        inFlight = length - part
        // Another time nobody could tell where in the rest its frames begin.
        if segments[first].isPatched { isolate(length, taken: part) }
        takeFront(part)
    }

    /// Has the frame of `length` bytes at the front, of which `taken` are about to be taken, stand for itself, so that
    /// the rest of it goes as it lies.
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
        // What is left of the header still needs the stream id.
        let (block, target) = exactly(header)
        target.copyMemory(from: segment.start, byteCount: header)
        (target + 3).storeBytes(of: segment.stream.bigEndian, as: UInt32.self)
        copied &+= UInt64(header)
        let begun = Segment(owner: .block(block), start: UnsafeRawPointer(target), count: header)
        segments[first].start += header
        segments[first].count -= header
        if segments[first].count == 0 { segments[first] = begun } else { segments.insert(begun, at: first) }
    }

    /// Gives up all messages that wait here: the connection is closing and only its last error counts.
    mutating func dropMessages() {
        guard isRSocket else { return }
        settleKeepalive()
        answers = 0
        if let keeping { return dropUnsent(keeping) }
        // A frame in flight must be ended, or the error behind it could not be read.
        let keep = inFlight
        while first < segments.count, count > keep {
            let last = segments.count - 1
            let excess = Swift.min(segments[last].count, count - keep)
            segments[last].count -= excess
            count -= excess
            if segments[last].count == 0 { removeLast() }
        }
    }

    /// Gives back what is held.
    mutating func removeAll() {
        forgetKept()
        removeSegments()
        control.removeAll()
        keepalive.removeAll()
    }

    mutating func removeSegments() {
        while segments.count > first { removeLast() }
        segments.removeAll()
        chargeSegments()
        first = 0
        count = 0
        inFlight = 0
    }

    /// It is too late for that answer to be replaced by a later one.
    private mutating func settleKeepalive() {
        guard !keepalive.isEmpty else { return }
        control.append(keepalive.readable)
        keepalive.removeAll()
    }

    @inline(__always)
    private mutating func takeFront(_ bytes: Int) {
        count -= bytes
        sent &+= UInt64(bytes)
        if isPassing {
            kept?.pass(bytes, of: UnsafeRawBufferPointer(start: segments[first].start, count: segments[first].count))
        }
        segments[first].start += bytes
        segments[first].count -= bytes
        if segments[first].count == 0 {
            if case .block(let block) = segments[first].owner { recycle(block) }
            // Drops the reference to the chunk now, not when the array is compacted.
            segments[first].owner = .none
            first += 1
        }
    }

    private mutating func removeLast() {
        if case .block(let block) = segments.removeLast().owner { recycle(block) }
    }

    private mutating func recycle(_ block: Block) {
        pool.release(block)
        if block.segments == 0, current === block { current = nil }
    }

    // A socket that takes nothing

    /// Copies the small remainders of shared memory, as long as there is room for them: who is stuck for long is to
    /// keep no chunk for a few bytes. Beyond that they go on naming it.
    private mutating func settleStalled() {
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

    /// Copies what lies in memory that was let go of, into one block; not what another thread lets go of meanwhile.
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

    /// Copies what a segment names of a chunk into a block, with the stream id that it needs.
    mutating func own(_ index: Int, exactly: Bool = false) {
        let segment = segments[index]
        let (block, target) = exactly ? self.exactly(segment.count) : space(segment.count)
        own(index, in: block, at: target)
    }

    private mutating func own(_ index: Int, in block: Block, at target: UnsafeMutableRawPointer) {
        let segment = segments[index]
        target.copyMemory(from: segment.start, byteCount: segment.count)
        if segment.isPatched {
            PayloadFraming.patch(
                UnsafeMutableRawBufferPointer(start: target, count: segment.count), stream: segment.stream)
        }
        copied &+= UInt64(segment.count)
        segments[index] = Segment(
            owner: .block(block), start: UnsafeRawPointer(target), count: segment.count,
            stream: segment.isTail ? Segment.tail : 0)
    }

    /// A block with one segment, which fills it.
    private func exactly(_ count: Int) -> (Block, UnsafeMutableRawPointer) {
        let block = pool.make(count)
        block.used = count
        block.segments = 1
        return (block, block.base)
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

// Output: what a connection has been handed and its socket has not taken yet.
//
// Control frames (KEEPALIVE, REQUEST_N, acknowledgements, an ERROR for a stream without messages) go ahead of messages,
// at the next frame boundary. So the number of bytes left in the frame in flight is always known:
//
//     [rest of the frame in flight] [control] [segments …]
//
// SegmentQueue.swift describes how messages are referenced, KeptOutput.swift what is kept for a peer that can resume.

import Bytes
import RSocket

struct Output: ~Copyable {
    /// Messages, and their counters.
    private var queue: SegmentQueue
    private(set) var control = ByteBuffer()
    private(set) var keepalive = ByteBuffer()
    /// Bytes of openings, errors and completions among the messages, and where the last of these ends, in terms of
    /// `sent`.
    private var answers = 0
    private var answersEnd: UInt64 = 0
    /// Whether the socket takes nothing until it is writable again.
    var blocked = false
    /// Whether the connection's last frame is written. Nothing more is then sent on its streams.
    var isSealed = false
    /// Replaces the segments if the peer can resume.
    private(set) var kept: KeptOutput?
    /// Whether output to a peer that can resume is not kept at present, but goes into segments, as for other peers.
    private(set) var isPassing = false
    /// Whether the output's bytes are RSocket frames. Otherwise frame boundaries are unknown, and nothing goes ahead.
    let isRSocket: Bool

    init(pool: BlockPool, isRSocket: Bool = true) {
        queue = SegmentQueue(pool: pool)
        self.isRSocket = isRSocket
    }

    /// Where frames go instead of the queue; nil if none are kept, or not at present.
    @inline(__always)
    var keeping: KeptOutput? { kept == nil || isPassing ? nil : kept }
    /// Bytes of messages handed over and not yet taken by the socket.
    var count: Int { queue.count }
    /// Bytes of messages copied for this connection instead of being sent from the log; each copy counts.
    var copied: UInt64 { queue.copied }
    var segments: [Segment] { queue.segments }
    /// Bytes of the segment array that are charged to memory.
    var segmentMemory: Int { queue.memory }
    private var pool: BlockPool { queue.pool }
    /// Bytes of responses queued as control output; if output is kept, all responses.
    var controlCount: Int { control.count + keepalive.count + (kept == nil ? 0 : answers) }
    /// Bytes of responses to the peer's requests, wherever they are: control frames, and openings and ends of streams.
    var unreadAnswers: Int { control.count + keepalive.count + answers }
    var isEmpty: Bool { count == 0 && control.isEmpty && keepalive.isEmpty }

    /// Bytes that may wait on a connection while memory is short.
    static let sip = 4 << 10
    /// Bytes below which a message that is not contiguous with the next one is copied. Sending it from the log would
    /// cost more, and so would the memory for its segment.
    static let worthASegment = 512
    /// The number of segments that a connection may have however few bytes they refer to.
    static let fewSegments = 32

    /// How many more bytes may be handed over if `limit` bytes may wait; none if 0 or less.
    @inline(__always)
    func room(_ limit: Int) -> Int {
        guard let kept else { return queue.room(limit) }
        return roomToKeep(kept, limit)
    }

    func forEachOwner(_ body: (AnyObject) -> Void) { queue.forEachOwner(body) }

    func forEachShared(_ body: (Region, Int) -> Void) { queue.forEachShared(body) }

    mutating func copyUnread() { queue.copyUnread() }

    // Handing over

    /// Appends whole frames in `chunk`, to be sent from there on `stream`.
    @inline(__always)
    mutating func append(_ bytes: UnsafeRawBufferPointer, of chunk: consuming Chunk, stream: UInt32) {
        if keeping != nil { return copy(bytes, stream: stream) }
        queue.append(bytes, of: chunk, stream: stream)
    }

    /// Appends bytes that stay in place as long as `owner` exists; over RSocket these are whole frames or a tail.
    /// - Parameter isTail: the bytes are the rest of the frame begun by the previous ones.
    mutating func append(_ bytes: UnsafeRawBufferPointer, of owner: Region, isTail: Bool = false) {
        if keeping != nil { return copy(bytes, stream: PayloadFraming.commonStream) }
        queue.append(bytes, of: owner, isTail: isTail)
    }

    /// Appends a copy of whole frames of a chunk, for `stream`.
    mutating func copy(_ bytes: UnsafeRawBufferPointer, stream: UInt32) {
        guard bytes.count > 0 else { return }
        Segment.write(bytes, stream: stream, to: reserve(bytes.count))
    }

    /// Reserves space for `count` bytes of whole frames, which the caller must write at once.
    @inline(__always)
    mutating func reserve(_ count: Int) -> UnsafeMutableRawBufferPointer {
        guard let keeping else { return queue.reserve(count) }
        queue.noteCopy(count)
        return keeping.reserve(count, charging: pool.budget)
    }

    /// Appends the opening or the end of a stream, after what is queued. `frames` must be complete.
    mutating func answer(_ frames: UnsafeRawBufferPointer) {
        guard !isSealed else { return }
        reserve(frames.count).copyMemory(from: frames)
        noteAnswer(frames.count)
    }

    private mutating func noteAnswer(_ bytes: Int) {
        answers += bytes
        answersEnd = queue.sent &+ UInt64(count)
        if let keeping { shorten(keeping) }
    }

    /// Appends a control frame of a stream, which `write` must write completely.
    mutating func control(_ write: (inout ByteBuffer) -> Void) {
        guard !isSealed else { return }
        if let keeping {
            let bytes = keeping.store.append(write)
            queue.noteCopy(bytes)
            return noteAnswer(bytes)
        }
        let before = control.count
        write(&control)
        kept?.pass(control.readable.slice(before..<control.count))
    }

    /// Appends a frame of the connection itself, which `write` must write completely.
    mutating func connectionControl(_ write: (inout ByteBuffer) -> Void) { write(&control) }

    /// Sets the response to a KEEPALIVE. It replaces a response that has not been sent yet.
    mutating func keepalive(_ write: (inout ByteBuffer) -> Void) {
        keepalive.removeAll()
        write(&keepalive)
    }

    // Sending

    /// Whether everything to be written is one segment that needs no patching, which is the common case at low rates.
    @inline(__always)
    private var isSimple: Bool { queue.isSimple && control.isEmpty && keepalive.isEmpty && kept == nil }

    /// The next bytes to write, in order; not necessarily all. Returns how many of `pieces` were set. They are valid
    /// until the next input or `gather` of any connection of the shard; the caller must call `wrote` before that.
    @inline(__always)
    mutating func gather(into pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>) -> Int {
        guard isSimple else { return gatherAll(into: pieces) }
        pieces[0] = queue.only
        return 1
    }

    private mutating func gatherAll(into pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>) -> Int {
        finishKeepalive()
        if let keeping { return keeping.gather(ahead: control.readable, into: pieces) }
        return queue.gather(ahead: control.readable, into: pieces)
    }

    /// Removes the first `written` of the gathered bytes, which the socket took.
    mutating func wrote(_ written: Int, blocked: Bool) {
        if !blocked, isSimple, written == count {
            queue.tookOnly()
            if queue.sent >= answersEnd { answers = 0 }
            self.blocked = false
            return
        }
        if let keeping {
            let first = control.isEmpty ? written : Swift.min(written, keeping.store.inFlight)
            let rest = written - first - takeControl(written - first)
            keeping.store.took(first + rest)
            queue.noteTaken(first + rest)
        } else {
            if isPassing { pass(written) }
            var rest = queue.inFlight > 0 ? queue.takeInFlight(written) : written
            if queue.inFlight == 0 { rest -= takeControl(rest) }
            if rest > 0 { queue.take(rest, isFramed: isRSocket) }
            queue.finishWrite(blocked: blocked)
        }
        if queue.sent >= answersEnd { answers = 0 }
        self.blocked = blocked
        if isPassing { endPassIfWritten() }
        if control.isEmpty { control.shrink(above: 256) }
        if keepalive.isEmpty { keepalive.shrink(above: 64) }
    }

    /// Removes control frames from `written` bytes that the socket took. Returns how many bytes those were.
    @inline(__always)
    private mutating func takeControl(_ written: Int) -> Int {
        let part = Swift.min(written, control.count)
        control.consume(part)
        return part
    }

    /// Moves the KEEPALIVE response into the control frames; a later one can no longer replace it.
    private mutating func finishKeepalive() {
        guard !keepalive.isEmpty else { return }
        control.append(keepalive.readable)
        keepalive.removeAll()
    }

    // Ending

    /// Drops all waiting messages: the connection is closing, and only its last error matters.
    mutating func dropMessages() {
        guard isRSocket else { return }
        finishKeepalive()
        answers = 0
        if let keeping {
            keeping.store.dropUnsent()
            queue.count = keeping.store.unsent
        } else {
            queue.truncate()
        }
    }

    /// Frees everything.
    mutating func removeAll() {
        if let kept { pool.budget.add(-kept.charged) }
        kept = nil
        queue.removeAll()
        control.removeAll()
        keepalive.removeAll()
    }

    // A peer that can resume: sent output is kept, see KeptOutput.swift

    /// Keeps frames from now on; no frame of a stream has been handed over yet.
    mutating func keep(window: Int, answers: Int) {
        assert(kept == nil && count == 0)
        kept = KeptOutput(window: window, answers: answers)
    }

    /// Bytes that were sent and are not acknowledged.
    var unacknowledged: Int { kept?.store.sent ?? 0 }

    /// Whether no more messages are handed over until the peer acknowledges some.
    var isFull: Bool { kept.map { $0.store.sent >= $0.window } ?? false }

    /// Whether to ask the peer for its position, because half of what may be unacknowledged is, or because memory is
    /// short.
    var wantsAcknowledgement: Bool {
        guard let kept else { return false }
        return kept.store.sent > kept.window / 2 || (kept.store.sent > 0 && isMemoryShort)
    }

    private var isMemoryShort: Bool { pool.budget.used >= pool.budget.limit }

    /// When memory is short, no connection may keep more than a little.
    @inline(__always)
    private func roomToKeep(_ kept: KeptOutput, _ limit: Int) -> Int {
        if isMemoryShort {
            return kept.store.count > 0 ? 0 : Swift.min(limit, Output.sip) - count
        }
        // Everything must be sent before anything is kept again.
        if isPassing { return 0 }
        // The store may double when it grows.
        let free = Swift.max(Output.sip, (pool.budget.limit - pool.budget.used) / 2)
        return Swift.min(limit, kept.window - kept.store.sent, free) - count
    }

    /// Lets what is handed over next bypass the store if there is no memory for a copy of `size` bytes.
    mutating func passIfShort(_ size: Int) {
        guard let kept, !isPassing, kept.store.count == 0, size > Output.sip else { return }
        // The store grows by powers of two.
        isPassing = pool.budget.used + 2 * size > pool.budget.limit
    }

    /// Counts the next `written` bytes as bypassing the store.
    private func pass(_ written: Int) {
        guard let kept else { return assertionFailure("frames bypass the store of a connection without one") }
        let beforeControl = Swift.min(written, queue.inFlight)
        let messages = written - Swift.min(written - beforeControl, control.count)
        queue.forEachNext(messages) { kept.pass($0, of: $1) }
    }

    /// Ends the bypass if everything is written.
    private mutating func endPassIfWritten() {
        guard count == 0, control.isEmpty else { return }
        isPassing = false
        kept?.endPass(lost: 0)
    }

    private func shorten(_ kept: KeptOutput) {
        if kept.store.count > kept.most { kept.store.shorten(to: kept.most) }
        kept.charge(to: pool.budget)
    }

    /// Removes what precedes `position`, all of which the peer has. Returns whether that was new.
    mutating func acknowledge(_ position: UInt64) -> Bool {
        guard let kept else { return false }
        let before = kept.store.position
        kept.store.acknowledge(position)
        kept.charge(to: pool.budget)
        return kept.store.position != before
    }

    /// Discards all sent output. Only a peer that has received all of it can still resume.
    mutating func giveUpSent() {
        guard let kept else { return }
        kept.store.shorten(to: 0)
        kept.charge(to: pool.budget)
    }

    /// Discards the output that is not resumable, because the socket is gone. Until `rewind`, the output acts as if
    /// blocked.
    mutating func detach() {
        if isPassing {
            // A peer that resumes lacks this output, whatever its position.
            kept?.endPass(lost: count)
            isPassing = false
            answers = 0
            queue.removeAll()
        }
        control.removeAll()
        keepalive.removeAll()
        blocked = true
    }

    /// Continues on another socket, whose peer has everything before `position`; call `detach` no later than this.
    /// Returns false if the output cannot continue from there.
    mutating func rewind(to position: UInt64) -> Bool {
        guard let kept, !isPassing, kept.store.rewind(to: position) else { return false }
        queue.count = kept.store.unsent
        // The output may include responses that were already sent.
        answersEnd = queue.sent &+ UInt64(count)
        blocked = false
        kept.charge(to: pool.budget)
        return true
    }

    /// Why the peer cannot continue from `position`.
    func fault(of position: UInt64) -> ResumeStore.Fault {
        // What bypassed the store is not kept.
        guard let kept, !isPassing else { return .gone }
        return kept.store.fault(of: position)
    }
}

// Output: what a connection has been handed and its socket has not taken yet.
//
// Control frames (KEEPALIVE, REQUEST_N, acknowledgements, an ERROR of a stream that is sent no messages) go ahead of
// messages, at the next frame boundary, so it is known at each moment how much of the frame in flight is left:
//
//     [rest of the frame in flight] [control] [segments …]
//
// Where messages lie: SegmentQueue.swift. What a peer that can resume may ask for again is kept: KeptOutput.swift.

import Bytes
import RSocket

struct Output: ~Copyable {
    /// Messages, and counts of them.
    private var queue: SegmentQueue
    private(set) var control = ByteBuffer()
    private(set) var keepalive = ByteBuffer()
    /// Bytes of errors and completions among the messages, and where the last of them ends, in terms of `sent`.
    private var answers = 0
    private var answersEnd: UInt64 = 0
    /// The socket takes nothing until it is writable again.
    var blocked = false
    /// The connection's last frame is written: what its streams still have to say is not sent.
    var isSealed = false
    /// What stands in for the segments where the peer can resume.
    private(set) var kept: KeptOutput?
    /// What goes to such a peer now is not kept: it is in segments, as that of others.
    private(set) var isPassing = false
    /// Its bytes are RSocket's frames; else nothing is known of where they begin and end, and nothing goes ahead.
    let isRSocket: Bool

    init(pool: BlockPool, isRSocket: Bool = true) {
        queue = SegmentQueue(pool: pool)
        self.isRSocket = isRSocket
    }

    /// What frames go into instead of the queue; nil where none are kept, or what goes now is not.
    @inline(__always)
    var keeping: KeptOutput? { kept == nil || isPassing ? nil : kept }
    /// Bytes of messages handed over and not yet taken by the socket.
    var count: Int { queue.count }
    /// Bytes of messages copied for this connection, beside those sent from the log: each copy counts.
    var copied: UInt64 { queue.copied }
    var segments: [Segment] { queue.segments }
    /// Bytes that the segments take, as they are counted.
    var segmentMemory: Int { queue.memory }
    private var pool: BlockPool { queue.pool }
    /// Where all stands in one row these are all its answers.
    var controlCount: Int { control.count + keepalive.count + (kept == nil ? 0 : answers) }
    /// Bytes that answer what the peer did, wherever they stand: control frames, and the ends of streams.
    var unreadAnswers: Int { control.count + keepalive.count + answers }
    var isEmpty: Bool { count == 0 && control.isEmpty && keepalive.isEmpty }

    /// Bytes that a connection may have waiting while memory is short.
    static let sip = 4 << 10
    /// Bytes below which a message that stands apart from the next one is copied: to send it from where it lies costs
    /// more, and so does the memory that remembers where that is.
    static let worthASegment = 512
    /// Segments that a connection may have, however few bytes they name.
    static let fewSegments = 32

    /// How much more may be handed over where `limit` bytes may wait; 0 or less is nothing.
    @inline(__always)
    func room(_ limit: Int) -> Int {
        guard let kept else { return queue.room(limit) }
        return roomToKeep(kept, limit)
    }

    func forEachOwner(_ body: (AnyObject) -> Void) { queue.forEachOwner(body) }

    func forEachShared(_ body: (Region, Int) -> Void) { queue.forEachShared(body) }

    mutating func copyUnread() { queue.copyUnread() }

    // Handing over

    /// Whole frames that lie in `chunk`, to be sent from there, on `stream`.
    @inline(__always)
    mutating func append(_ bytes: UnsafeRawBufferPointer, of chunk: consuming Chunk, stream: UInt32) {
        if keeping != nil { return copy(bytes, stream: stream) }
        queue.append(bytes, of: chunk, stream: stream)
    }

    /// Bytes that stay where they are as long as `owner` does. Of RSocket, what `isTail` says.
    /// - Parameter isTail: they are the rest of the frame that was begun right before.
    mutating func append(_ bytes: UnsafeRawBufferPointer, of owner: Region, isTail: Bool = false) {
        if keeping != nil { return copy(bytes, stream: PayloadFraming.commonStream) }
        queue.append(bytes, of: owner, isTail: isTail)
    }

    /// Whole frames of a chunk, for `stream`, of which a copy is made.
    mutating func copy(_ bytes: UnsafeRawBufferPointer, stream: UInt32) {
        guard bytes.count > 0 else { return }
        Segment.write(bytes, stream: stream, to: reserve(bytes.count))
    }

    /// Room for `count` bytes of whole frames, to be written at once by the caller.
    @inline(__always)
    mutating func reserve(_ count: Int) -> UnsafeMutableRawBufferPointer {
        guard let keeping else { return queue.reserve(count) }
        queue.noteCopy(count)
        return keeping.reserve(count, charging: pool.budget)
    }

    /// The end of a stream, behind its messages. Written whole.
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

    /// A control frame of a stream, written whole by `write`.
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

    /// A frame of the connection itself, written whole by `write`.
    mutating func connectionControl(_ write: (inout ByteBuffer) -> Void) { write(&control) }

    /// The answer to a KEEPALIVE; it takes the place of one that has not been sent yet.
    mutating func keepalive(_ write: (inout ByteBuffer) -> Void) {
        keepalive.removeAll()
        write(&keepalive)
    }

    // Sending

    /// All that is to be written is one segment, which goes as it lies: the common case at low rates.
    @inline(__always)
    private var isSimple: Bool { queue.isSimple && control.isEmpty && keepalive.isEmpty && kept == nil }

    /// The next bytes to write, in order; not always all there are. Returns how many of `pieces` were set. They are
    /// valid until the next input or `gather` of any connection of the shard; `wrote` comes next.
    @inline(__always)
    mutating func gather(into pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>) -> Int {
        guard isSimple else { return gatherAll(into: pieces) }
        pieces[0] = queue.only
        return 1
    }

    private mutating func gatherAll(into pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>) -> Int {
        settleKeepalive()
        if let keeping { return keeping.gather(ahead: control.readable, into: pieces) }
        return queue.gather(ahead: control.readable, into: pieces)
    }

    /// The socket took the first `written` of the gathered bytes.
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
            queue.settle(blocked: blocked)
        }
        if queue.sent >= answersEnd { answers = 0 }
        self.blocked = blocked
        if isPassing { endPassIfWritten() }
        if control.isEmpty { control.shrink(above: 256) }
        if keepalive.isEmpty { keepalive.shrink(above: 64) }
    }

    /// Control frames have their turn in `written` bytes that the socket took. Returns how many of those they are.
    @inline(__always)
    private mutating func takeControl(_ written: Int) -> Int {
        let part = Swift.min(written, control.count)
        control.consume(part)
        return part
    }

    /// It is too late for that answer to be replaced by a later one.
    private mutating func settleKeepalive() {
        guard !keepalive.isEmpty else { return }
        control.append(keepalive.readable)
        keepalive.removeAll()
    }

    // Ending

    /// Gives up all messages that wait here: the connection is closing and only its last error counts.
    mutating func dropMessages() {
        guard isRSocket else { return }
        settleKeepalive()
        answers = 0
        if let keeping {
            keeping.store.dropUnsent()
            queue.count = keeping.store.unsent
        } else {
            queue.truncate()
        }
    }

    /// Gives back what is held.
    mutating func removeAll() {
        if let kept { pool.budget.add(-kept.charged) }
        kept = nil
        queue.removeAll()
        control.removeAll()
        keepalive.removeAll()
    }

    // A peer that can resume: what is sent is kept, see KeptOutput.swift

    /// From here on frames are kept; none of a stream has been handed over yet.
    mutating func keep(window: Int, answers: Int) {
        assert(kept == nil && count == 0)
        kept = KeptOutput(window: window, answers: answers)
    }

    /// Bytes that were sent and are not acknowledged.
    var unacknowledged: Int { kept?.store.sent ?? 0 }

    /// The peer is handed no more messages before it acknowledges some.
    var isFull: Bool { kept.map { $0.store.sent >= $0.window } ?? false }

    /// The peer should say what it has: it has half of what it may be sent without that, or memory is short.
    var wantsAcknowledgement: Bool {
        guard let kept else { return false }
        return kept.store.sent > kept.window / 2 || (kept.store.sent > 0 && isMemoryShort)
    }

    private var isMemoryShort: Bool { pool.budget.used >= pool.budget.limit }

    /// Memory that is short goes to nobody for keeping more than a little.
    @inline(__always)
    private func roomToKeep(_ kept: KeptOutput, _ limit: Int) -> Int {
        if isMemoryShort {
            return kept.store.count > 0 ? 0 : Swift.min(limit, Output.sip) - count
        }
        // All is to have gone before anything is kept again.
        if isPassing { return 0 }
        // What is kept grows by as much again.
        let free = Swift.max(Output.sip, (pool.budget.limit - pool.budget.used) / 2)
        return Swift.min(limit, kept.window - kept.store.sent, free) - count
    }

    /// What is handed over next passes, if there is no memory for a copy of its `size` bytes.
    mutating func passIfShort(_ size: Int) {
        guard let kept, !isPassing, kept.store.count == 0, size > Output.sip else { return }
        // What is kept grows by powers of two.
        isPassing = pool.budget.used + 2 * size > pool.budget.limit
    }

    /// The next `written` bytes pass.
    private func pass(_ written: Int) {
        guard let kept else { return assertionFailure("only a peer that can resume has frames pass") }
        let beforeControl = Swift.min(written, queue.inFlight)
        let messages = written - Swift.min(written - beforeControl, control.count)
        queue.forEachNext(messages) { kept.pass($0, of: $1) }
    }

    /// All that was to pass has.
    private mutating func endPassIfWritten() {
        guard count == 0, control.isEmpty else { return }
        isPassing = false
        kept?.endPass(lost: 0)
    }

    private func shorten(_ kept: KeptOutput) {
        if kept.store.count > kept.most { kept.store.shorten(to: kept.most) }
        kept.charge(to: pool.budget)
    }

    /// The peer has everything before `position`. Returns whether that was news.
    mutating func acknowledge(_ position: UInt64) -> Bool {
        guard let kept else { return false }
        let before = kept.store.position
        kept.store.acknowledge(position)
        kept.charge(to: pool.budget)
        return kept.store.position != before
    }

    /// Keeps nothing that was sent. Only who has all of it can still resume.
    mutating func giveUpSent() {
        guard let kept else { return }
        kept.store.shorten(to: 0)
        kept.charge(to: pool.budget)
    }

    /// The socket is gone, and what was meant for it alone with it. Until `rewind` it is as if one were full.
    mutating func detach() {
        if isPassing {
            // Whoever comes back lacks it, whatever it has.
            kept?.endPass(lost: count)
            isPassing = false
            answers = 0
            queue.removeAll()
        }
        control.removeAll()
        keepalive.removeAll()
        blocked = true
    }

    /// There is another socket, whose peer has everything before `position`; `detach` comes before or with it. False if
    /// it cannot go on from there.
    mutating func rewind(to position: UInt64) -> Bool {
        guard let kept, !isPassing, kept.store.rewind(to: position) else { return false }
        queue.count = kept.store.unsent
        // Answers that were sent before may be among it.
        answersEnd = queue.sent &+ UInt64(count)
        blocked = false
        kept.charge(to: pool.budget)
        return true
    }

    /// Why the peer cannot go on from there.
    func fault(of position: UInt64) -> ResumeStore.Fault {
        // What passes is kept nowhere.
        guard let kept, !isPassing else { return .gone }
        return kept.store.fault(of: position)
    }
}

// Output+Resuming: the output of a connection that its peer may resume. All frames of streams, answers among them,
// stand in one row, and stay there after they were sent, until the peer has acknowledged them:
//
//     sent, not acknowledged: may be sent again | [rest of the frame in flight] [frames of stream 0] | to be sent
//
// A peer is handed no more messages while it has not acknowledged `resume-buffer` bytes, as if its socket were full.
// Answers are never held back by that, or a peer that is read no more could not acknowledge any: where they take more
// than there is room for, the oldest frames go that were sent, and only who has those can still resume.
//
// A message that memory has no room for a copy of passes: it is sent from the log, as to those who cannot resume, and
// so is all that follows until nothing is left to be sent. What has passed cannot be sent again.

import Bytes
import RSocket

/// What is kept for a peer, and how much of it there may be.
final class KeptOutput {
    let store = ResumeStore()
    /// Bytes above which no messages are handed over, and above which answers push out what was sent.
    let window: Int
    let most: Int
    /// What the broker's memory was charged.
    fileprivate var charged = 0
    /// Bytes of frames that have passed, without the lengths, in all and since nothing was left last; and what is left
    /// of the one that is being taken.
    private(set) var passed: UInt64 = 0
    private var passing = 0
    private var frameLeft = 0

    init(window: Int, answers: Int) {
        self.window = window
        most = window + answers
    }

    /// Whole frames are about to pass, between two others.
    func pass(_ frames: UnsafeRawBufferPointer) {
        var offset = 0
        while offset < frames.count {
            let size = PayloadFraming.length(of: frames, at: offset)
            passing += size - Wire.lengthSize
            offset += size
        }
    }

    /// The next `count` bytes of `frames` have passed, each of which lies with its whole header there.
    func pass(_ count: Int, of frames: UnsafeRawBufferPointer) {
        var offset = 0
        while offset < count {
            if frameLeft == 0 {
                frameLeft = PayloadFraming.length(of: frames, at: offset)
                passing -= Wire.lengthSize
            }
            let part = Swift.min(frameLeft, count - offset)
            frameLeft -= part
            offset += part
        }
        passing += count
    }

    /// All that was to pass has, or `lost` bytes of it never will.
    fileprivate func endPass(lost: Int) {
        store.skip(passing + lost)
        passed &+= UInt64(passing + lost)
        passing = 0
        frameLeft = 0
    }

    fileprivate func charge(to budget: MemoryBudget) {
        guard store.capacity != charged else { return }
        budget.add(store.capacity - charged)
        charged = store.capacity
    }
}

extension Output {
    /// From here on frames are kept; none of a stream has been handed over yet.
    mutating func keep(window: Int, answers: Int) { kept = KeptOutput(window: window, answers: answers) }

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
    func roomToKeep(_ kept: KeptOutput, _ limit: Int) -> Int {
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

    /// All that was to pass has.
    mutating func endPassIfWritten() {
        guard count == 0, control.isEmpty else { return }
        isPassing = false
        kept?.endPass(lost: 0)
    }

    mutating func reserve(_ count: Int, in kept: KeptOutput) -> UnsafeMutableRawBufferPointer {
        defer { kept.charge(to: pool.budget) }
        return kept.store.reserve(count)
    }

    mutating func answer(in kept: KeptOutput, _ write: (inout ByteBuffer) -> Void) {
        let bytes = kept.store.append(write)
        count += bytes
        copied &+= UInt64(bytes)
        answers += bytes
        answersEnd = sent &+ UInt64(count)
        shorten(kept)
    }

    func shorten(_ kept: KeptOutput) {
        if kept.store.count > kept.most { kept.store.shorten(to: kept.most) }
        kept.charge(to: pool.budget)
    }

    mutating func gather(
        _ kept: KeptOutput, into pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>
    ) -> Int {
        let next = kept.store.next
        let inFlight = kept.store.inFlight
        var set = 0
        func add(_ bytes: UnsafeRawBufferPointer) {
            guard bytes.count > 0, set < pieces.count else { return }
            pieces[set] = bytes
            set += 1
        }
        guard !control.isEmpty else {
            add(next)
            return set
        }
        add(next.slice(0..<inFlight))
        add(control.readable)
        add(next.slice(inFlight..<next.count))
        return set
    }

    mutating func wrote(_ written: Int, blocked: Bool, of kept: KeptOutput) {
        let first = control.isEmpty ? written : Swift.min(written, kept.store.inFlight)
        let between = Swift.min(written - first, control.count)
        control.consume(between)
        let taken = written - between
        kept.store.took(taken)
        count -= taken
        sent &+= UInt64(taken)
        if sent >= answersEnd { answers = 0 }
        self.blocked = blocked
        if control.isEmpty { control.shrink(above: 256) }
        if keepalive.isEmpty { keepalive.shrink(above: 64) }
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
            removeSegments()
        }
        control.removeAll()
        keepalive.removeAll()
        blocked = true
    }

    /// There is another socket, whose peer has everything before `position`; `detach` comes before or with it. False if
    /// it cannot go on from there.
    mutating func rewind(to position: UInt64) -> Bool {
        guard let kept, !isPassing, kept.store.rewind(to: position) else { return false }
        count = kept.store.unsent
        // Answers that were sent before may be among it.
        answersEnd = sent &+ UInt64(count)
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

    mutating func dropUnsent(_ kept: KeptOutput) {
        kept.store.dropUnsent()
        count = kept.store.unsent
    }

    mutating func forgetKept() {
        if let kept { pool.budget.add(-kept.charged) }
        kept = nil
    }
}

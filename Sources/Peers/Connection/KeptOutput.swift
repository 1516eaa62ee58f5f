// KeptOutput: the output of a connection that its peer may resume. All frames of streams, answers among them,
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
    private(set) var charged = 0
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
    func endPass(lost: Int) {
        store.skip(passing + lost)
        passed &+= UInt64(passing + lost)
        passing = 0
        frameLeft = 0
    }

    /// Room for `count` bytes of whole frames, to be written at once by the caller.
    func reserve(_ count: Int, charging budget: MemoryBudget) -> UnsafeMutableRawBufferPointer {
        defer { charge(to: budget) }
        return store.reserve(count)
    }

    func charge(to budget: MemoryBudget) {
        guard store.capacity != charged else { return }
        budget.add(store.capacity - charged)
        charged = store.capacity
    }

    /// The next bytes to write, in order, with `control` ahead of the next whole frame. Returns how many of `pieces`
    /// were set.
    func gather(
        ahead control: UnsafeRawBufferPointer, into pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>
    ) -> Int {
        let next = store.next
        let inFlight = store.inFlight
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
        add(control)
        add(next.slice(inFlight..<next.count))
        return set
    }
}

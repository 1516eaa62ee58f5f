// KeptOutput: the output of a connection that its peer may resume. All frames of streams, including responses, are in
// one sequence, and stay in it after they have been sent, until the peer acknowledges them:
//
//     sent, not acknowledged: may be sent again | [rest of the frame in flight] [frames of stream 0] | to be sent
//
// While `resume-buffer` bytes are unacknowledged, the peer is handed no more messages, as if its socket were full.
// Responses are never held back; otherwise the broker would stop reading from the peer, which could then not
// acknowledge anything. If responses exceed the space, the oldest sent frames are discarded, and only a peer that has
// received those frames can still resume.
//
// A message that cannot be copied for lack of memory bypasses the sequence: it is sent from the log, as on connections
// that cannot be resumed, and so is everything after it until nothing is left to send. Frames that bypassed it cannot
// be sent again.

import Bytes
import RSocket

/// What is kept for a peer, and its limits.
final class KeptOutput {
    let store = ResumeStore()
    /// The unacknowledged bytes at which messages are no longer handed over, and the bytes above which responses push
    /// out sent frames.
    let window: Int
    let most: Int
    /// Bytes charged to the broker's memory.
    private(set) var charged = 0
    /// Bytes of frames that bypassed the store, without their length fields: in all, and in the current bypass; and the
    /// rest of the frame that is being taken.
    private(set) var passed: UInt64 = 0
    private var passing = 0
    private var frameLeft = 0

    init(window: Int, answers: Int) {
        self.window = window
        most = window + answers
    }

    /// Counts whole frames that are about to bypass the store, between two others.
    func pass(_ frames: UnsafeRawBufferPointer) {
        var offset = 0
        while offset < frames.count {
            let size = PayloadFraming.length(of: frames, at: offset)
            passing += size - Wire.lengthSize
            offset += size
        }
    }

    /// Counts the next `count` bytes of `frames` as sent; the header of each frame that begins there is complete.
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

    /// Ends the bypass, of which `lost` bytes will never be sent.
    func endPass(lost: Int) {
        store.skip(passing + lost)
        passed &+= UInt64(passing + lost)
        passing = 0
        frameLeft = 0
    }

    /// Reserves space for `count` bytes of whole frames, which the caller must write at once.
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

// SessionLedger: a session that can be resumed (RSocket's RESUME), from both sides. The client's side: what it keeps
// for sending again, and what it has received. The engine's side, after each input: how far it has processed what was
// sent, what it keeps, and whether the session is live, according to the rules of Protocol/rsocket.md, the broker's
// reads and the client's acknowledgements.

import Bytes
import Core

/// What a client claims when it resumes.
struct ResumeClaim {
    let session: SessionLedger
    /// Whether the claim has the session's correct token.
    let isNamed: Bool
    /// The position up to which the client has received everything, and the first position that it can still send.
    let last: UInt64
    let first: UInt64
    /// Whether the claim is correct; and whether the broker had the session when the claim was made.
    let isRight: Bool
    let wasLive: Bool
}

/// What a client has sent on one wire of its session, by the offset at which the broker has read it.
struct SentMarks {
    private var frames: [(offset: Int, position: UInt64)] = []
    private var acknowledgements: [(offset: Int, position: UInt64)] = []
    /// The end of the last frame read, and the position that the client last acknowledged; nil if there was none.
    private(set) var read: UInt64?
    private(set) var acknowledged: UInt64?

    mutating func add(frameTo position: UInt64, at offset: Int) { frames.append((offset, position)) }
    mutating func add(acknowledgement position: UInt64, at offset: Int) {
        acknowledgements.append((offset, position))
    }

    /// Notes that the broker has read this many bytes.
    mutating func advance(to offset: Int) {
        let whole = frames.prefix { $0.offset <= offset }
        read = whole.last?.position ?? read
        frames.removeFirst(whole.count)
        let reported = acknowledgements.prefix { $0.offset <= offset }
        acknowledged = reported.last?.position ?? acknowledged
        acknowledgements.removeFirst(reported.count)
    }
}

final class SessionLedger {
    enum State {
        /// SETUP has not been read.
        case beginning
        case live
        /// The session can never, or no longer, be resumed.
        case ended
    }

    let token: [UInt8]
    private let plan: Plan
    private let referee: Referee
    private(set) var state = State.beginning
    /// The connection, which stays the same when its socket changes.
    let home: (shard: Int, id: ConnectionID)
    /// The socket that the broker currently uses for the session, and the position when that socket was attached.
    private var socket: Wire
    private var base: UInt64 = 0
    /// Bytes of SETUP, and the earliest time at which it could have been sent.
    private var setup = 0
    private var begun: UInt64?
    private var detachedAt: UInt64?
    /// The time since which the client has not acknowledged anything that was sent.
    private var quietSince: UInt64?
    private var seen: Inspection.Connection?

    // What the client sent: frames that it keeps, starting at `first`, the ends of unprocessed frames, and whom to
    // notify when they are processed.
    private var frames = ByteBuffer()
    private(set) var first: UInt64 = 0
    private var end: UInt64 = 0
    private var ends: [UInt64] = []
    private var unfed: [(position: UInt64, deliver: () -> Void)] = []
    /// The position up to which the broker has processed what the client sent.
    private(set) var dealt: UInt64 = 0

    // What the client received: each frame once, and the position of the next one, which may be a repetition.
    private var history: [(start: UInt64, size: Int, digest: UInt64)] = []
    private(set) var received: UInt64 = 0
    private(set) var next: UInt64 = 0
    private var again = 0
    /// The positions that the client has acknowledged; and the position from which the broker keeps what it sent.
    private var reported: Set<UInt64> = [0]
    /// Bytes sent without being kept.
    private var passed: UInt64 = 0
    private var position: UInt64 = 0
    /// How often the session was resumed.
    private(set) var resumptions = 0

    init(_ token: [UInt8], _ wire: Wire, _ plan: Plan, _ referee: Referee) {
        self.token = token
        self.plan = plan
        self.referee = referee
        socket = wire
        home = (wire.shard, wire.id)
    }

    private var name: String { "session \(home.shard)-\(home.id.index)" }

    /// The session's state, as text.
    var standing: String {
        "\(name) is \(state): kept \(seen?.kept.map { "\($0)" } ?? "nothing"), received \(received), "
            + "next \(next), sent \(first)...\(end), processed \(dealt)"
    }

    // The client sends

    /// Notes that SETUP was sent, with this many bytes.
    func begin(_ setup: Int) { self.setup = setup }

    /// Adds frames of streams, which are sent at once if there is a wire.
    func send(by wire: Wire?, _ write: (inout ByteBuffer) -> Void) {
        let before = frames.count
        write(&frames)
        let position = end
        forEachFrame(from: before, at: position) { reached, _ in
            ends.append(reached)
            end = reached
        }
        if let wire { send(from: before, at: position, by: wire) }
    }

    private func send(from offset: Int, at position: UInt64, by wire: Wire) {
        let start = wire.sent
        wire.send { $0.append(frames.readable.slice(offset..<frames.count)) }
        forEachFrame(from: offset, at: position) { wire.marks.add(frameTo: $0, at: start + $1 - offset) }
    }

    /// Calls `body` with the end of each frame: its position, and its offset among the kept frames.
    private func forEachFrame(from offset: Int, at position: UInt64, _ body: (UInt64, Int) -> Void) {
        var (offset, position) = (offset, position)
        while offset < frames.count {
            let size = frames.readable.u24(at: offset)
            offset += 3 + size
            position += UInt64(size)
            body(position, offset)
        }
    }

    /// Notifies the caller when the broker has processed everything sent so far.
    func whenDealt(_ deliver: @escaping () -> Void) { unfed.append((end, deliver)) }

    /// The position up to which the client has received everything, which it acknowledges now.
    func acknowledge() -> UInt64 {
        reported.insert(next)
        return next
    }

    /// Handles the broker's acknowledgement of everything before `position`. Acknowledgements may arrive out of order.
    func heard(_ position: UInt64) {
        referee.expect(
            position <= dealt, "\(name) was acknowledged up to \(position), but only \(dealt) was processed")
        guard position > first else { return }
        while first < position, frames.count > 0 {
            let size = frames.readable.u24(at: 0)
            first += UInt64(size)
            frames.consume(3 + size)
        }
        referee.expect(first == position, "\(name) was acknowledged up to \(position), where none of its frames begins")
    }

    // The client receives

    /// Called when a frame of a stream has arrived. Returns false if it is a repetition, which must be identical.
    func accepts(_ frame: UnsafeRawBufferPointer) -> Bool {
        var digest: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in frame { digest = (digest ^ UInt64(byte)) &* 0x100_0000_01B3 }
        defer { next += UInt64(frame.count) }
        guard next < received else {
            history.append((next, frame.count, digest))
            received += UInt64(frame.count)
            return true
        }
        let before = history[again]
        again += 1
        referee.expect(
            before.start == next && before.size == frame.count && before.digest == digest,
            "\(name) was sent different frames from \(next) on than the first time")
        return false
    }

    private func index(of position: UInt64) -> Int? {
        if position == received { return history.count }
        var (low, high) = (0, history.count)
        while low < high {
            let middle = (low + high) / 2
            if history[middle].start < position { low = middle + 1 } else { high = middle }
        }
        return low < history.count && history[low].start == position ? low : nil
    }

    // Resuming

    /// What to claim: mostly the truth.
    func claim(_ chance: Chance, isRight: Bool) -> ResumeClaim {
        let kind = isRight ? 9 : chance.below(10)
        let older = history.isEmpty ? received : history[chance.below(history.count)].start
        switch kind {
        case 0: return claim(isNamed: false)
        case 1: return claim(first: end + 1 + UInt64(chance.below(100)))
        case 2: return claim(last: received + (chance.isOne(in: 2) ? 1 : 1 << 40))
        case 3: return claim(last: received > 6 ? received - 1 : 1)
        case 4...6: return claim(last: older)
        default: return claim()
        }
    }

    private func claim(isNamed: Bool = true, last: UInt64? = nil, first: UInt64? = nil) -> ResumeClaim {
        let isRight = isNamed && last ?? received == received && first == nil
        return ResumeClaim(
            session: self, isNamed: isNamed, last: last ?? received, first: first ?? self.first, isRight: isRight,
            wasLive: state == .live)
    }

    /// Notes that RESUME was sent.
    func comesBack(_ claim: ResumeClaim) {
        guard claim.isNamed, let index = index(of: claim.last) else { return }
        next = claim.last
        again = index
        reported.insert(claim.last)
    }

    /// Handles RESUME_OK.
    func resumed(at position: UInt64, by wire: Wire) {
        referee.expect(
            position == dealt, "\(name) was resumed at \(position), but its frames were processed up to \(dealt)")
        heard(position)
        send(from: 0, at: first, by: wire)
    }

    /// Handles an ERROR that arrived instead of RESUME_OK.
    func refused(_ code: UInt32, _ text: String, _ wire: Wire, _ claim: ResumeClaim) {
        referee.expect(code == 4, "\(name) was refused with code \(code): \(text)")
        referee.expect(
            wire.refusal != nil || !claim.isNamed || !claim.wasLive || state == .ended,
            "\(name) was refused as unknown, but is alive")
        // After the position, the text continues with the reason.
        referee.expect(
            text.hasPrefix(wire.refusal ?? "not-found: ") && text.hasSuffix("; reconnect with SETUP."),
            "\(name) was refused with '\(text)'")
    }

    /// Checks the assignment of a wire that began with RESUME: to this connection, or to one that will be refused.
    func arrived(_ wire: Wire, _ claim: ResumeClaim) {
        let isTaken = wire.shard == home.shard && wire.id == home.id
        let mayBe = state == .live && mayGoOn(claim)
        referee.expect(
            isTaken == mayBe,
            "\(name) was \(isTaken ? "resumed" : "refused") although the client has frames from \(claim.first) on and "
                + "up to \(claim.last) of \(received), and it is \(state): processed \(dealt), kept from \(position)")
        guard isTaken else {
            guard state == .live else { return }
            wire.refusal =
                claim.first > dealt
                ? "gap: The client no longer has the data from position \(dealt) on"
                : "gap: The session cannot continue from position \(claim.last)"
            return
        }
        resumptions += 1
        socket = wire
        base = dealt
        detachedAt = nil
    }

    private func mayGoOn(_ claim: ResumeClaim) -> Bool {
        guard let kept = seen?.kept, !kept.isPassing else { return false }
        // What the client claims to have was accepted by some socket, even if an older claim arrived later.
        return claim.first <= dealt && claim.last >= kept.position && index(of: claim.last) != nil
    }

    /// How many bytes may be sent before some are acknowledged. If memory is short, this may be 0 while much is kept
    /// for other connections.
    func window(_ connection: Inspection.Connection) -> Int {
        guard let kept = connection.kept else { return .max }
        if plan.isMemoryShort { return 0 }
        return plan.limits.resumeBuffer - kept.sent
    }

    /// Bytes that have arrived and that the client has not acknowledged, including frame lengths.
    var unacknowledged: Int {
        let last = socket.marks.acknowledged ?? 0
        return history.reduce(0) { $0 + ($1.start >= Swift.max(last, position) ? 3 + $1.size : 0) }
    }

    // The engine's side

    /// - Parameters:
    ///   - now: the monotonic clock.
    ///   - isFull: whether the maximum number of sessions exists.
    func examine(_ seen: Inspection.Connection?, now: UInt64, isFull: Bool) {
        begun = begun ?? now
        guard let seen, seen.isOpen, let kept = seen.kept else { return isGone(seen, now, isFull: isFull) }
        referee.expect(state != .ended, "\(name) exists again")
        state = .live
        self.seen = seen
        detachedAt = seen.isDetached ? detachedAt ?? now : nil
        checkReceived(seen)
        checkKept(kept, seen, now)
    }

    private func isGone(_ seen: Inspection.Connection?, _ now: UInt64, isFull: Bool) {
        switch state {
        case .beginning where socket.read < setup:
            if seen == nil { state = .ended }
        case .beginning:
            referee.expect(
                isFull || now - (begun ?? now) >= plan.limits.setupTime,
                "\(name) was refused although there is room for it"
            )
            state = .ended
        case .live:
            let time = detachedAt.map { now - $0 }
            // A session whose kept output uses memory that others need is ended earlier.
            referee.expect(
                time ?? 0 >= plan.limits.resumeTime || plan.isMemoryShort && time != nil,
                "\(name) was ended \(time.map { "after \($0) ns without a socket" } ?? "with a socket")")
            state = .ended
        case .ended: break
        }
    }

    private func checkReceived(_ seen: Inspection.Connection) {
        socket.marks.advance(to: socket.read)
        let read = seen.isDetached ? dealt : socket.marks.read ?? base
        let least = seen.isHeld ? dealt : read
        referee.expect(
            least <= seen.received && seen.received <= read,
            "\(name) has processed input up to \(seen.received); \(read) was read, and \(dealt) had been processed "
                + "before")
        let count = ends.prefix { $0 <= seen.received }.count
        referee.expect(
            count == 0 && seen.received == dealt || count > 0 && ends[count - 1] == seen.received,
            "\(name) has received up to \(seen.received), where no frame ends")
        ends.removeFirst(count)
        dealt = seen.received
        let reported = unfed.prefix { $0.position <= dealt }
        unfed.removeFirst(reported.count)
        for feed in reported { feed.deliver() }
    }

    /// Checks that everything the client may lack is kept, and no more than is allowed.
    private func checkKept(_ kept: Inspection.Kept, _ seen: Inspection.Connection, _ now: UInt64) {
        let most = plan.limits.resumeBuffer + plan.limits.controlOutput
        referee.expect(
            kept.position >= position, "\(name) keeps output from \(kept.position) on, which is before \(position)")
        // Excludes output that there was no memory to keep.
        let before = kept.position - (kept.passed - passed)
        referee.expect(
            plan.isMemoryShort || kept.passed == 0, "\(name) was sent output that is not kept although there is memory")
        let isQuiet = now - (quietSince ?? now) >= Limits.acknowledgementTime
        if before > position, !reported.contains(before), !(plan.isMemoryShort && isQuiet) {
            let dropped = Int(before - position)
            referee.expect(
                kept.count + dropped + dropped / 2 > most,
                "\(name) keeps output only from \(kept.position) on, but the client has acknowledged less: "
                    + "\(kept.count) bytes of \(most)")
        }
        if !seen.isDetached, !seen.isHeld, !kept.isPassing, let acknowledged = socket.marks.acknowledged {
            referee.expect(
                kept.position >= acknowledged,
                "\(name) keeps output from \(kept.position) on, although it is acknowledged up to \(acknowledged)")
        }
        referee.expect(
            kept.count <= most + plan.longest,
            "\(name) keeps \(kept.count) bytes; the limit is \(most) and one message")
        if kept.sent == 0 || kept.position > position && reported.contains(kept.position) { quietSince = nil }
        if kept.sent > 0 { quietSince = quietSince ?? now }
        position = kept.position
        passed = kept.passed
    }
}

// SessionLedger: a session of RSocket's RESUME, from both sides. The client's: what it keeps to send again, and what it
// has received. The engine's, after each input: how far it has dealt with what was sent, what it keeps, and whether it
// lives – by the rules of Protocol/rsocket.md, and by where the broker has read and the client has acknowledged.

import Bytes
import Core

/// What a client says when it comes back.
struct ResumeClaim {
    let session: SessionLedger
    /// It names the session by its token.
    let isNamed: Bool
    /// As far as which it has what was sent to it, and from where on it has what it sent.
    let last: UInt64
    let first: UInt64
    /// It is as it should be; and the broker had the session then.
    let isRight: Bool
    let wasLive: Bool
}

/// What a client has sent by one wire of its session, by how many bytes have to be read to know of it.
struct SentMarks {
    private var frames: [(offset: Int, position: UInt64)] = []
    private var acknowledgements: [(offset: Int, position: UInt64)] = []
    /// Where the last frame ends that was read, and as far as where the broker was told that the client has all; nil
    /// before there was any.
    private(set) var read: UInt64?
    private(set) var acknowledged: UInt64?

    mutating func add(frameTo position: UInt64, at offset: Int) { frames.append((offset, position)) }
    mutating func add(acknowledgement position: UInt64, at offset: Int) {
        acknowledgements.append((offset, position))
    }

    /// The broker has read so many bytes.
    mutating func advance(to offset: Int) {
        let whole = frames.prefix { $0.offset <= offset }
        read = whole.last?.position ?? read
        frames.removeFirst(whole.count)
        let told = acknowledgements.prefix { $0.offset <= offset }
        acknowledged = told.last?.position ?? acknowledged
        acknowledgements.removeFirst(told.count)
    }
}

final class SessionLedger {
    enum State {
        /// SETUP has not been read.
        case beginning
        case live
        /// It may not be resumed, or not any more.
        case ended
    }

    let token: [UInt8]
    private let plan: Plan
    private let referee: Referee
    private(set) var state = State.beginning
    /// The connection, which stays the same whatever its socket is.
    let home: (shard: Int, id: ConnectionID)
    /// What the broker takes for its socket, and where it stood when that came.
    private var socket: Wire
    private var base: UInt64 = 0
    /// Bytes of SETUP, and when it could have been sent.
    private var setup = 0
    private var begun: UInt64?
    private var detachedAt: UInt64?
    /// Since when it has acknowledged nothing of what was sent.
    private var quietSince: UInt64?
    private var seen: Inspection.Connection?

    // What the client sent: what it keeps, from `first` on, the ends of frames that are not dealt with, and who is to
    // hear when they are.
    private var frames = ByteBuffer()
    private(set) var first: UInt64 = 0
    private var end: UInt64 = 0
    private var ends: [UInt64] = []
    private var unfed: [(position: UInt64, tell: () -> Void)] = []
    /// As far as the broker has dealt with it.
    private(set) var dealt: UInt64 = 0

    // What came to it: each frame once, and where the next one stands, which may be one that comes again.
    private var history: [(start: UInt64, size: Int, digest: UInt64)] = []
    private(set) var received: UInt64 = 0
    private(set) var next: UInt64 = 0
    private var again = 0
    /// What it has said that it has; and from where on the broker keeps what it sent.
    private var told: Set<UInt64> = [0]
    /// Bytes that went without being kept.
    private var passed: UInt64 = 0
    private var position: UInt64 = 0
    /// How often it was resumed.
    private(set) var resumptions = 0

    init(_ token: [UInt8], _ wire: Wire, _ plan: Plan, _ referee: Referee) {
        self.token = token
        self.plan = plan
        self.referee = referee
        socket = wire
        home = (wire.shard, wire.id)
    }

    private var name: String { "session \(home.shard)-\(home.id.index)" }

    /// Where it stands, for people.
    var standing: String {
        "\(name) is \(state): kept \(seen?.kept.map { "\($0)" } ?? "nothing"), received \(received), "
            + "next \(next), sent \(first)...\(end), dealt with \(dealt)"
    }

    // The client sends

    /// SETUP was sent, and takes so many bytes.
    func begin(_ setup: Int) { self.setup = setup }

    /// Frames of streams, which go out at once if there is a wire.
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

    /// Calls `body` with where each frame ends: its position, and its offset among those that are kept.
    private func forEachFrame(from offset: Int, at position: UInt64, _ body: (UInt64, Int) -> Void) {
        var (offset, position) = (offset, position)
        while offset < frames.count {
            let size = frames.readable.u24(at: offset)
            offset += 3 + size
            position += UInt64(size)
            body(position, offset)
        }
    }

    /// When the broker has dealt with all that was sent so far.
    func whenDealt(_ tell: @escaping () -> Void) { unfed.append((end, tell)) }

    /// As far as the client has it all, which it says now.
    func acknowledge() -> UInt64 {
        told.insert(next)
        return next
    }

    /// The broker says that it has all before `position`. One of its answers may overtake another.
    func heard(_ position: UInt64) {
        referee.expect(
            position <= dealt, "\(name) was told that it has sent up to \(position), and \(dealt) was dealt with")
        guard position > first else { return }
        while first < position, frames.count > 0 {
            let size = frames.readable.u24(at: 0)
            first += UInt64(size)
            frames.consume(3 + size)
        }
        referee.expect(first == position, "\(name) was told of \(position), where no frame of its own begins")
    }

    // The client receives

    /// A frame of a stream came. False: it came before, and is now the same.
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
            "\(name) was sent other frames from \(next) on than the first time")
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

    // Coming back

    /// What to say: mostly what is so.
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

    /// RESUME was sent.
    func comesBack(_ claim: ResumeClaim) {
        guard claim.isNamed, let index = index(of: claim.last) else { return }
        next = claim.last
        again = index
        told.insert(claim.last)
    }

    /// RESUME_OK came.
    func resumed(at position: UInt64, by wire: Wire) {
        referee.expect(
            position == dealt, "\(name) was resumed at \(position), and what it sent was dealt with up to \(dealt)")
        heard(position)
        send(from: 0, at: first, by: wire)
    }

    /// ERROR came instead.
    func refused(_ code: UInt32, _ text: String, _ wire: Wire, _ claim: ResumeClaim) {
        referee.expect(code == 4, "\(name) was refused with the code \(code): \(text)")
        let unknown = "There is no such session, or not any more"
        referee.expect(
            wire.refusal != nil || !claim.isNamed || !claim.wasLive || state == .ended,
            "\(name) was refused as unknown, and lives")
        // Behind the position is what is wrong with it.
        referee.expect(
            text.hasPrefix(wire.refusal ?? unknown) && text.hasSuffix(": connect again with SETUP."),
            "\(name) was refused with '\(text)'")
    }

    /// A wire that came with RESUME has become that of a connection: of this one, or of one to be refused.
    func arrived(_ wire: Wire, _ claim: ResumeClaim) {
        let isTaken = wire.shard == home.shard && wire.id == home.id
        let mayBe = state == .live && mayGoOn(claim)
        referee.expect(
            isTaken == mayBe,
            "\(name) was \(isTaken ? "resumed" : "refused") with what the client has from \(claim.first) on and up to "
                + "\(claim.last) of \(received), and is \(state): dealt with \(dealt), kept from \(position)")
        guard isTaken else {
            guard state == .live else { return }
            wire.refusal =
                claim.first > dealt
                ? "The client gave up what it sent from position \(dealt) on"
                : "The session cannot go on from position \(claim.last)"
            return
        }
        resumptions += 1
        socket = wire
        base = dealt
        detachedAt = nil
    }

    private func mayGoOn(_ claim: ResumeClaim) -> Bool {
        guard let kept = seen?.kept, !kept.isPassing else { return false }
        // What it has some socket has taken, even if an older claim came behind that.
        return claim.first <= dealt && claim.last >= kept.position && index(of: claim.last) != nil
    }

    /// Bytes that may be sent before some are acknowledged. Where memory may be short it may be none, for as long as
    /// others have much kept for them.
    func window(_ connection: Inspection.Connection) -> Int {
        guard let kept = connection.kept else { return .max }
        if plan.isMemoryShort { return 0 }
        return plan.limits.resumeBuffer - kept.sent
    }

    /// Bytes that came to the client and that it has not acknowledged, lengths included.
    var unacknowledged: Int {
        let last = socket.marks.acknowledged ?? 0
        return history.reduce(0) { $0 + ($1.start >= Swift.max(last, position) ? 3 + $1.size : 0) }
    }

    // The engine's side

    /// - Parameters:
    ///   - now: the monotonic clock.
    ///   - isFull: there are as many sessions as there may be.
    func examine(_ seen: Inspection.Connection?, now: UInt64, isFull: Bool) {
        begun = begun ?? now
        guard let seen, seen.isOpen, let kept = seen.kept else { return isGone(seen, now, isFull: isFull) }
        referee.expect(state != .ended, "\(name) is there again")
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
                isFull || now - (begun ?? now) >= plan.limits.setupTime, "\(name) was refused, and there is room for it"
            )
            state = .ended
        case .live:
            let time = detachedAt.map { now - $0 }
            // One that kept memory which others needed is cut off before.
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
            "\(name) has dealt with what was sent to it up to \(seen.received); \(read) was read, and \(dealt) dealt "
                + "with before")
        let count = ends.prefix { $0 <= seen.received }.count
        referee.expect(
            count == 0 && seen.received == dealt || count > 0 && ends[count - 1] == seen.received,
            "\(name) has received up to \(seen.received), where no frame ends")
        ends.removeFirst(count)
        dealt = seen.received
        let told = unfed.prefix { $0.position <= dealt }
        unfed.removeFirst(told.count)
        for feed in told { feed.tell() }
    }

    /// What the client may lack is kept, and no more than may be.
    private func checkKept(_ kept: Inspection.Kept, _ seen: Inspection.Connection, _ now: UInt64) {
        let most = plan.limits.resumeBuffer + plan.limits.controlOutput
        referee.expect(
            kept.position >= position, "\(name) keeps what was sent from \(kept.position), before \(position)")
        // What there was no memory for is not among it.
        let before = kept.position - (kept.passed - passed)
        referee.expect(plan.isMemoryShort || kept.passed == 0, "\(name) was sent what is not kept, and there is memory")
        let isQuiet = now - (quietSince ?? now) >= Limits.acknowledgementTime
        if before > position, !told.contains(before), !(plan.isMemoryShort && isQuiet) {
            let dropped = Int(before - position)
            referee.expect(
                kept.count + dropped + dropped / 2 > most,
                "\(name) keeps what was sent from \(kept.position) on, which the client has not acknowledged: "
                    + "\(kept.count) bytes of \(most)")
        }
        if !seen.isDetached, !seen.isHeld, !kept.isPassing, let acknowledged = socket.marks.acknowledged {
            referee.expect(
                kept.position >= acknowledged,
                "\(name) keeps what was sent from \(kept.position) on, and up to \(acknowledged) it is acknowledged")
        }
        referee.expect(
            kept.count <= most + plan.longest,
            "\(name) keeps \(kept.count) bytes, and \(most) and a message are allowed")
        if kept.sent == 0 || kept.position > position && told.contains(kept.position) { quietSince = nil }
        if kept.sent > 0 { quietSince = quietSince ?? now }
        position = kept.position
        passed = kept.passed
    }
}

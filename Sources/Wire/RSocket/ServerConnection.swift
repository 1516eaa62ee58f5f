// ServerConnection: the server's side of one RSocket 1.0 connection, without I/O. Bytes are fed in; events are pulled.
//
//     opening --SETUP--> deciding --acceptSetup--> open --error, or the peer's ERROR--> closed
//        \__ any other frame, or an unacceptable SETUP or RESUME ______________________/
//         \__RESUME--> leaving --takeRest, as what comes next is another connection's--> closed
//
// This file takes frames out of the byte stream; ServerConnection+Frames.swift says what each of them means.
//
// A frame that arrived whole is read where it lies in the caller's bytes. One that did not is put together in `aside`,
// which is freed when it is empty. A frame longer than its type may be is never put together: its header decides, and
// the rest is discarded as it comes.

import Bytes

/// The server's side of one connection. A peer can cause no trap in it, and no memory beyond its limits.
///
/// Call `feed`, then `next` until nil; also call `next` until nil after `acceptSetup` and `expireReassembly`.
public struct ServerConnection: ~Copyable {
    enum Phase {
        case opening, deciding, leaving, open, closed
    }

    let limits: ConnectionLimits
    var phase = Phase.opening
    var streams = StreamTable()
    var reassembly = Reassembly()
    /// Bytes of unfinished messages that are kept where memory is short; nil where it is not.
    public var shortReassembly: Int?
    /// How the metadata of requests is to be read, once SETUP has come.
    public internal(set) var metadataForm = MetadataForm.plain
    /// The time of the newest `feed`.
    private(set) var now: UInt64 = 0

    /// The part of the caller's bytes that is not read yet.
    private var input = UnsafeRawBufferPointer(start: nil, count: 0)
    /// Bytes that came earlier than `input`: of an unfinished frame, or held until SETUP is accepted.
    private var aside = ByteBuffer()
    /// Bytes at the front of `aside` that the newest event may point to.
    private var pointedAt = 0
    /// Bytes to come that belong to a frame that was decided by its header.
    private var discarding = 0
    /// Of a stream's frame: its length, which counts as received with the last of those bytes.
    private var discarded = 0
    /// The next frame of a stream is one that was decided already, when a socket broke within it.
    private var repeats = false
    /// Bytes of the frames of streams that were dealt with, without the lengths before them: the position from which
    /// on a client that resumes sends again.
    public private(set) var received: UInt64 = 0
    /// Keeps the reassembled message that the newest event points to.
    var delivered: Partial?
    private var expiry: UInt64 = 0

    public init(limits: ConnectionLimits) {
        self.limits = limits
    }

    // MARK: In

    /// Hands in one read. The bytes are touched until `next` has returned nil, or until `hold`.
    ///
    /// - Parameter now: the time, of a clock that never steps back; only compared with that of `expireReassembly`.
    public mutating func feed(_ bytes: UnsafeRawBufferPointer, now: UInt64 = 0) {
        release()
        self.now = now
        guard phase != .closed else { return }
        putAside()
        input = bytes
    }

    /// Stops for now: what has not been dealt with is kept, and comes out of `next` later. The caller's bytes are not
    /// touched any more. Feed nothing until `next` has returned nil again, or what is kept has no bound.
    public mutating func hold() {
        release()
        putAside()
    }

    /// Takes SETUP for good. Requests that the client sent right behind it come out of `next` from now on.
    public mutating func acceptSetup() {
        release()
        if phase == .deciding { phase = .open }
    }

    /// Gives up fragmented messages whose first fragment came earlier than `time`: `next` tells each as refused or
    /// dropped.
    public mutating func expireReassembly(startedBefore time: UInt64) {
        release()
        expiry = max(expiry, time)
    }

    /// The socket is gone. A client that comes back by another one sends again from `received` on, so that whatever was
    /// not dealt with is forgotten; streams and unfinished messages stay as they are.
    public mutating func detach() {
        release()
        input = UnsafeRawBufferPointer(start: nil, count: 0)
        aside.removeAll()
        aside.shrink()
        if discarded > 0 { repeats = true }
        discarding = 0
        discarded = 0
    }

    /// Time that unfinished messages are not to be blamed for.
    public mutating func extendReassembly(by time: UInt64) { reassembly.delay(by: time) }

    /// What came behind RESUME. Nothing more comes out of this one.
    public mutating func takeRest() -> [UInt8] {
        hold()
        let rest = Array(aside.readable)
        phase = .closed
        forgetAll()
        return rest
    }

    // MARK: Out

    /// The next event, nil when all that was fed has been dealt with.
    public mutating func next() -> Event? {
        release()
        if expiry > 0, let event = nextExpired() { return event }
        while phase == .opening || phase == .open {
            guard skip() else { break }
            if let run = nextRun() { return run }
            guard let frame = nextFrame() else { break }
            if let event = frame { return event }
        }
        guard phase != .closed else {
            forgetAll()
            return nil
        }
        putAside()
        if phase == .deciding && aside.count > limits.maxHeld {
            return fatal(
                .rejectedSetup,
                "More than \(limits.maxHeld) bytes came before SETUP was accepted: wait with further requests.")
        }
        return nil
    }

    /// A frame has begun whose end has not come, or frames wait for `acceptSetup` or were put aside by `hold`.
    public var hasPartialFrame: Bool { !aside.isEmpty || discarding > 0 }

    /// The time at which the oldest unfinished fragmented message began, nil when there is none.
    public var oldestReassembly: UInt64? { reassembly.oldest?.since }

    /// Bytes of memory held for what has not been dealt with: unfinished frames and fragmented messages.
    public var bufferedBytes: Int { aside.capacity + reassembly.memory }

    /// SETUP has come and waits for `acceptSetup`.
    public var isAwaitingAcceptance: Bool { phase == .deciding }

    /// Nothing more will come out of this connection.
    public var isClosed: Bool { phase == .closed }

    // MARK: Taking frames

    /// Lets go of what the newest event pointed to.
    private mutating func release() {
        if pointedAt > 0 {
            aside.consume(pointedAt)
            pointedAt = 0
        }
        delivered = nil
    }

    /// Copies aside what is left of the caller's bytes.
    private mutating func putAside() {
        if !input.isEmpty { aside.append(input) }
        input = UnsafeRawBufferPointer(start: nil, count: 0)
        aside.shrink()
    }

    private mutating func forgetAll() {
        input = UnsafeRawBufferPointer(start: nil, count: 0)
        aside.removeAll()
        aside.shrink()
        discarding = 0
        streams.removeAll()
        reassembly.removeAll()
    }

    /// Discards what is to be discarded; true when none of it is left to come.
    private mutating func skip() -> Bool {
        guard discarding > 0 else { return true }
        let old = min(discarding, aside.count)
        aside.consume(old)
        let new = min(discarding - old, input.count)
        input = input.slice(new..<input.count)
        discarding -= old + new
        guard discarding == 0 else { return false }
        received &+= UInt64(discarded)
        discarded = 0
        return true
    }

    /// Makes the next `count` bytes lie together at the front; false when they have not come yet.
    private mutating func gather(_ count: Int) -> Bool {
        if aside.isEmpty { return input.count >= count }
        let missing = count - aside.count
        guard missing > 0 else { return true }
        let taken = min(missing, input.count)
        aside.append(input.slice(0..<taken))
        input = input.slice(taken..<input.count)
        return taken == missing
    }

    /// Bytes that came and are not dealt with.
    var unread: Int { aside.count + input.count }

    /// Where the bytes that `gather` put together lie.
    private var front: UnsafeRawBufferPointer { aside.isEmpty ? input : aside.readable }

    /// Takes one frame and says what it means: an event or nothing. Nil outside: it has not come whole.
    private mutating func nextFrame() -> Event?? {
        guard gather(Wire.lengthSize) else { return nil }
        let length = front.u24(at: 0)
        guard length >= Wire.headerSize else {
            return .some(
                fatal(
                    .connectionError,
                    "A frame of \(length) bytes is shorter than the 6 bytes of a frame header."))
        }
        guard gather(Wire.lengthSize + Wire.headerSize) else { return nil }
        let header = FrameHeader(unchecked: front.slice(Wire.lengthSize..<front.count).bytes)
        let isRepeated = repeats && header.stream != 0
        let kept = isRepeated ? Wire.headerSize : bytesToKeep(of: header, length: length)
        guard gather(Wire.lengthSize + kept) else { return nil }
        let frame = front.slice(Wire.lengthSize..<Wire.lengthSize + kept)
        if aside.isEmpty {
            input = input.slice(Wire.lengthSize + kept..<input.count)
        } else {
            pointedAt = Wire.lengthSize + kept
        }
        discarding = length - kept
        if header.stream != 0 {
            if discarding > 0 { discarded = length } else { received &+= UInt64(length) }
        }
        if isRepeated {
            repeats = false
            release()
            return .some(nil)
        }
        let event = receive(header, frame, length: length)
        // Whatever the frame did, its bytes are done with unless an event points to them.
        if event == nil { release() }
        return .some(event)
    }

    /// Takes the items of a channel that lie at the front, if any do and nothing of them is out of the ordinary. What
    /// they would mean one by one is the same.
    private mutating func nextRun() -> Event? {
        guard phase == .open, aside.isEmpty, let stream = PayloadRun.stream(at: input),
            let index = streams.find(stream)
        else { return nil }
        let entry = streams[index]
        guard entry.kind == .channel, entry.announced, !entry.assembling, !entry.requesterDone,
            let run = PayloadRun(input, stream: stream, maxData: min(limits.maxRunData, limits.maxPayload))
        else { return nil }
        input = input.slice(run.bytes.count..<input.count)
        received &+= UInt64(run.bytes.count - run.count * Wire.lengthSize)
        return .payloads(run, handle: entry.handle)
    }

    private mutating func nextExpired() -> Event? {
        while phase == .open, let partial = reassembly.oldest, partial.since < expiry {
            let error = RSocketError.stream(
                partial.stream, .rejected, "The fragments of a message took too long to come: send them together.",
                bound: .reassemblyTime)
            if let index = streams.find(partial.stream) { return refuse(at: index, error) }
            reassembly.remove(partial.stream)
        }
        expiry = 0
        return nil
    }

    /// Ends the connection from our side.
    mutating func fatal(_ code: ErrorCode, _ message: String) -> Event {
        fatal(.connection(code, message))
    }

    mutating func fatal(_ error: RSocketError) -> Event {
        phase = .closed
        return .fatal(error)
    }
}

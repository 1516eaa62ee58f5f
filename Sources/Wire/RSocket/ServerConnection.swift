// ServerConnection: the server side of one RSocket 1.0 connection, without I/O. Bytes go in, events come out.
//
//     opening --SETUP--> deciding --acceptSetup--> open --error, or the peer's ERROR--> closed
//        \__ any other frame, or an unacceptable SETUP or RESUME ______________________/
//         \__RESUME--> leaving --takeRest: another connection continues--> closed
//
// This file splits the byte stream into frames; ServerConnection+Frames.swift interprets them.
//
// A frame that arrives whole is read in place in the caller's bytes. Others are collected in `aside`, which is freed
// when it is empty. A frame longer than its type allows is never collected: its header decides what happens, and the
// rest is discarded as it arrives.

import Bytes
import ForebayWire

/// The server side of one connection. No input can make it trap or exceed its memory limits.
///
/// Call `feed`, then `next` until it returns nil; do the same after `acceptSetup` and `expireReassembly`.
public struct ServerConnection: ~Copyable {
    enum Phase {
        case opening, deciding, leaving, open, closed
    }

    let limits: ConnectionLimits
    var phase = Phase.opening
    var streams = StreamTable()
    var reassembly = Reassembly()
    /// The most bytes of unfinished messages to keep while memory is short; nil while it is not.
    public var shortReassembly: Int?
    /// How to read the metadata of requests; known once SETUP has arrived.
    public internal(set) var metadataForm = MetadataForm.plain
    /// The time of the latest `feed`.
    private(set) var now: UInt64 = 0

    /// The part of the caller's bytes that has not been read yet.
    private var input = UnsafeRawBufferPointer(start: nil, count: 0)
    /// Bytes that arrived before `input`: part of an unfinished frame, or held until SETUP is accepted.
    private var aside = ByteBuffer()
    /// Bytes at the front of `aside` that the latest event may point to.
    private var pointedAt = 0
    /// Remaining bytes of a frame whose header decided how to handle it; they are discarded as they arrive.
    private var discarding = 0
    /// The length of that frame if it belongs to a stream; it counts as received when its last byte arrives.
    private var discarded = 0
    /// Whether the next frame of a stream repeats one that was already handled when a socket broke within it.
    private var repeats = false
    /// Bytes of the handled frames of streams, without lengths: the position from which a resuming client sends again.
    public private(set) var received: UInt64 = 0
    /// Keeps alive the reassembled message that the latest event points to.
    var delivered: Partial?
    private var expiry: UInt64 = 0

    public init(limits: ConnectionLimits) {
        self.limits = limits
    }

    // MARK: Input

    /// Takes the bytes of one read. They are accessed until `next` has returned nil or `hold` is called.
    ///
    /// - Parameter now: monotonic time, in the same unit as for `expireReassembly`.
    public mutating func feed(_ bytes: UnsafeRawBufferPointer, now: UInt64 = 0) {
        release()
        self.now = now
        guard phase != .closed else { return }
        putAside()
        input = bytes
    }

    /// Pauses. Unhandled bytes are copied, and `next` returns their events later; the caller's bytes are no longer
    /// accessed. Do not call `feed` until `next` has returned nil again, or the copy grows without bound.
    public mutating func hold() {
        release()
        putAside()
    }

    /// Accepts SETUP. `next` then returns the requests that the client sent after it.
    public mutating func acceptSetup() {
        release()
        if phase == .deciding { phase = .open }
    }

    /// Gives up fragmented messages whose first fragment arrived before `time`. `next` returns a `refuse` or `drop`
    /// event for each.
    public mutating func expireReassembly(startedBefore time: UInt64) {
        release()
        expiry = max(expiry, time)
    }

    /// Prepares for a resumption after the socket was lost. A resuming client sends again from `received` on, so
    /// unhandled bytes are discarded. Streams and unfinished messages are kept.
    public mutating func detach() {
        release()
        input = UnsafeRawBufferPointer(start: nil, count: 0)
        aside.removeAll()
        aside.shrink()
        if discarded > 0 { repeats = true }
        discarding = 0
        discarded = 0
    }

    /// Excludes `time` from the age of unfinished messages.
    public mutating func extendReassembly(by time: UInt64) { reassembly.delay(by: time) }

    /// Returns what arrived after RESUME. No further event comes from this connection.
    public mutating func takeRest() -> [UInt8] {
        hold()
        let rest = Array(aside.readable)
        phase = .closed
        discardAll()
        return rest
    }

    // MARK: Output

    /// The next event; nil once all input has been handled.
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
            discardAll()
            return nil
        }
        putAside()
        if phase == .deciding && aside.count > limits.maxHeld {
            return fatal(
                .rejectedSetup,
                "More than \(limits.maxHeld) bytes were sent before SETUP was accepted; wait before sending more.")
        }
        return nil
    }

    /// Whether part of a frame has arrived, or frames wait for `acceptSetup` or after `hold`.
    public var hasPartialFrame: Bool { !aside.isEmpty || discarding > 0 }

    /// When the oldest unfinished fragmented message began; nil if there is none.
    public var oldestReassembly: UInt64? { reassembly.oldest?.since }

    /// Bytes of memory held for unhandled input: unfinished frames and fragmented messages.
    public var bufferedBytes: Int { aside.capacity + reassembly.memory }

    /// Whether SETUP has arrived and waits for `acceptSetup`.
    public var isAwaitingAcceptance: Bool { phase == .deciding }

    /// Whether no further event will come from this connection.
    public var isClosed: Bool { phase == .closed }

    // MARK: Taking frames

    /// Releases what the latest event pointed to.
    private mutating func release() {
        if pointedAt > 0 {
            aside.consume(pointedAt)
            pointedAt = 0
        }
        delivered = nil
    }

    /// Copies the rest of the caller's bytes to `aside`.
    private mutating func putAside() {
        if !input.isEmpty { aside.append(input) }
        input = UnsafeRawBufferPointer(start: nil, count: 0)
        aside.shrink()
    }

    private mutating func discardAll() {
        input = UnsafeRawBufferPointer(start: nil, count: 0)
        aside.removeAll()
        aside.shrink()
        discarding = 0
        streams.removeAll()
        reassembly.removeAll()
    }

    /// Discards the rest of a frame. Returns true once all of it has been discarded.
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

    /// Makes the next `count` bytes contiguous at the front. Returns false if they have not all arrived.
    private mutating func gather(_ count: Int) -> Bool {
        if aside.isEmpty { return input.count >= count }
        let missing = count - aside.count
        guard missing > 0 else { return true }
        let taken = min(missing, input.count)
        aside.append(input.slice(0..<taken))
        input = input.slice(taken..<input.count)
        return taken == missing
    }

    /// Bytes that have arrived but have not been handled.
    var unread: Int { aside.count + input.count }

    /// The bytes that `gather` has made contiguous.
    private var front: UnsafeRawBufferPointer { aside.isEmpty ? input : aside.readable }

    /// Takes one frame. The inner optional is its event, if any; the outer is nil if the frame has not fully arrived.
    private mutating func nextFrame() -> Event?? {
        guard gather(Wire.lengthSize) else { return nil }
        let length = front.u24(at: 0)
        guard length >= Wire.headerSize else {
            return .some(
                fatal(
                    .connectionError,
                    "A frame has \(length) bytes, less than the 6 bytes of a frame header."))
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
        // The frame's bytes are no longer needed unless an event points to them.
        if event == nil { release() }
        return .some(event)
    }

    /// Takes a run of a channel's items at the front of the input, if it contains nothing but ordinary items. The
    /// result equals handling them one by one.
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
                partial.stream, .rejected, "The fragments of a message did not arrive in time; send them together.",
                bound: .reassemblyTime)
            if let index = streams.find(partial.stream) { return refuse(at: index, error) }
            reassembly.remove(partial.stream)
        }
        expiry = 0
        return nil
    }

    /// Ends the connection from our side.
    mutating func fatal(_ code: ErrorCode, word: ErrorWord? = nil, _ sentence: String) -> Event {
        fatal(.connection(code, word: word, sentence))
    }

    mutating func fatal(_ error: RSocketError) -> Event {
        phase = .closed
        return .fatal(error)
    }
}

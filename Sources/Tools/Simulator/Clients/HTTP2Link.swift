// HTTP2Link: a client's HTTP/2 frames and windows (RFC 9113), over a wire. A link shares no code with the broker's end,
// because an error common to both would go unnoticed. It sends nothing that the broker's windows do not allow, and
// opens its own windows early or late, by large or tiny amounts; a broker that sends more than these allow violates a
// rule.

import Bytes
import HTTP2Frames

final class HTTP2Link {
    /// A stream at the level of bytes.
    final class Stream {
        let id: UInt32
        /// Bytes to send, and how many of them have been sent.
        fileprivate var queue: [UInt8] = []
        fileprivate var gone = 0
        /// Whether nothing follows and this has been sent to the broker.
        fileprivate var isEnding = false
        fileprivate var isEnded = false
        /// Notifications for when the broker has read up to an offset of the stream.
        fileprivate var feeds: [(offset: Int, announce: () -> Void)] = []
        /// Changes to the windows, relative to what each stream has from its beginning.
        fileprivate var mayTake = 0
        fileprivate var mayGive = 0
        /// Bytes received for which the window has not been reopened.
        fileprivate var owed = 0
        /// Whether the broker sends no more, or nothing more is wanted.
        fileprivate var isClosed = false
        fileprivate var isReset = false

        init(_ id: UInt32) { self.id = id }
        fileprivate var waiting: Int { queue.count - gone }
    }

    let wire: Wire
    private let chance: Chance
    private let referee: Referee
    /// Handles what arrives on streams: HEADERS, DATA and RST_STREAM.
    var take: (Received) -> Void = { _ in }
    private let reader = FrameReader()
    private var streams: [UInt32: Stream] = [:]
    /// Streams that are open in at least one direction, in the order in which they were opened.
    private var open: [Stream] = []
    private var lastOpened: UInt32 = 0
    /// The code and text of a received GOAWAY.
    private(set) var receivedGoAway: (code: UInt32, text: String)?

    // To the broker: its windows for the connection, and for a stream from its beginning
    private var room = 65_535
    private var initialRoom = 65_535
    /// The longest DATA frame, and whether frames are sometimes padded.
    private let frameSize: Int
    private let isPadding: Bool

    // From the broker
    private var window = 65_535
    private var owed = 0
    /// The initial stream window that the broker has acknowledged, and the sizes sent since then.
    private var initialWindow = 65_535
    private var reported: [Int]
    private var isLazy: Bool
    /// The window size that the client uses once it no longer delays.
    private let calmWindow: Int
    /// Whether the client's windows are always large enough for a few small messages.
    let isWide: Bool

    init(_ wire: Wire, _ plan: Plan, _ chance: Chance, _ referee: Referee) {
        self.wire = wire
        self.chance = chance
        self.referee = referee
        frameSize = plan.has(.splits) ? chance.pick([40, 300, 16_384]) : 16_384
        isPadding = chance.isOne(in: 4)
        isWide = chance.isOne(in: 2)
        // With smaller windows, long messages would take forever, and less than 512 bytes are held back for a while.
        calmWindow = isWide ? 1 << 20 : chance.pick(plan.has(.fragments) ? [20_000, 1 << 20] : [600, 5_000, 1 << 20])
        isLazy = !isWide && chance.isOne(in: 2)
        let first = isWide ? 1 << 20 : chance.pick([0, 10, 600, 5_000, 65_535])
        reported = [first]
        write(preface + settings((4, UInt32(first))))
        if isWide { widen(1 << 20) }
    }

    // Sending

    private func write(_ bytes: [UInt8]) {
        // Nothing is sent after a FIN.
        if !wire.isHalfClosed { wire.send { $0.append(bytes) } }
    }

    func request(_ id: UInt32, _ fields: [(String, String)], end: Bool = false) {
        referee.expect(id > lastOpened, "stream \(id) was opened after \(lastOpened)")
        lastOpened = id
        let stream = Stream(id)
        streams[id] = stream
        open.append(stream)
        stream.isEnded = end
        write(headers(id, fields, end: end))
    }

    /// Sends a part of a request's body as soon as the windows allow. Notifies the caller when the broker has read it.
    func send(_ id: UInt32, _ bytes: [UInt8], _ announce: (() -> Void)? = nil) {
        guard let stream = streams[id], !stream.isEnding, !stream.isEnded else { return }
        stream.queue += bytes
        if let announce { stream.feeds.append((stream.queue.count, announce)) }
        pump()
    }

    /// Ends a request after what was sent.
    func end(_ id: UInt32) {
        guard let stream = streams[id], !stream.isEnded else { return }
        stream.isEnding = true
        pump()
    }

    /// Whether the whole request has been sent to the broker.
    func hasEnded(_ id: UInt32) -> Bool { streams[id]?.isEnded ?? true }

    func reset(_ id: UInt32) {
        guard let stream = streams[id], !stream.isReset, !stream.isClosed || !stream.isEnded else { return }
        write(HTTP2Frames.reset(id))
        stream.isEnded = true
        stream.isReset = true
        drop(stream)
        wire.whenRead { stream.isClosed = true }
    }

    func sendGoAway(_ code: UInt32) { write(frame(Type.goAway, 0, u32(0) + u32(code))) }

    /// Bytes that wait for the broker's windows.
    var unsent: Int { open.reduce(0) { $0 + $1.waiting } }

    private func pump() {
        var isMoving = true
        while isMoving {
            isMoving = false
            for stream in open where sendPiece(of: stream) { isMoving = true }
        }
        open.removeAll { $0.isEnded && $0.isClosed }
    }

    /// Sends a DATA frame of a stream, if anything may be sent.
    private func sendPiece(of stream: Stream) -> Bool {
        guard !stream.isEnded else { return false }
        let allowed = Swift.min(room, initialRoom + stream.mayGive, frameSize)
        if stream.waiting == 0 {
            guard stream.isEnding else { return false }
            stream.isEnded = true
            write(data(stream.id, [UInt8](), end: true))
            return false
        }
        guard allowed > 0 else { return false }
        let padding = isPadding && allowed > 30 && chance.isOne(in: 3) ? chance.below(20) : nil
        let count = Swift.min(stream.waiting, allowed - (padding.map { $0 + 1 } ?? 0))
        // The broker processes a frame's bytes before the end of the frame has arrived.
        let start = wire.sent + 9 + (padding == nil ? 0 : 1)
        for feed in stream.feeds.prefix(while: { $0.offset <= stream.gone + count }) {
            wire.whenRead(start + feed.offset - stream.gone, feed.announce)
        }
        stream.feeds.removeAll { $0.offset <= stream.gone + count }
        var payload = Array(stream.queue[stream.gone..<stream.gone + count])
        if let padding { payload = [UInt8(padding)] + payload + [UInt8](repeating: 0, count: padding) }
        stream.gone += count
        stream.mayGive -= payload.count
        room -= payload.count
        stream.isEnded = stream.isEnding && stream.waiting == 0 && chance.isOne(in: 2)
        write(
            frame(
                Type.data, (stream.isEnded ? Flag.end : 0) | (padding == nil ? 0 : Flag.padded), stream: stream.id,
                payload))
        if stream.waiting == 0 {
            stream.queue = []
            stream.gone = 0
            precondition(stream.feeds.isEmpty)
        }
        return true
    }

    /// Discards unsent bytes.
    private func drop(_ stream: Stream) {
        stream.queue = []
        stream.gone = 0
        stream.feeds = []
    }

    // Receiving

    var hasPart: Bool { reader.hasPart }

    func read(_ bytes: [UInt8]) {
        for frame in reader.read(bytes) {
            referee.expect(
                receivedGoAway == nil || receivedGoAway?.code == 0, "\(name) was sent \(frame) after its end")
            receive(frame)
        }
        pump()
    }

    private var name: String { "connection \(wire.name)" }

    private func receive(_ frame: Received) {
        referee.expect(frame.payload.count <= 16_384, "\(name) was sent a frame of \(frame.payload.count) bytes")
        switch frame.type {
        case Type.settings: receiveSettings(frame)
        case Type.windowUpdate: receiveRoom(frame)
        case Type.ping:
            if frame.flags & Flag.ack == 0 { write(HTTP2Frames.frame(Type.ping, Flag.ack, frame.payload)) }
        case Type.goAway: receivedGoAway = (frame.code, frame.text)
        case Type.data, Type.headers, Type.reset: receiveOnStream(frame)
        default: referee.fail("\(name) was sent \(frame)")
        }
    }

    private func receiveSettings(_ frame: Received) {
        if frame.flags & Flag.ack != 0 {
            guard !reported.isEmpty else {
                return referee.fail("\(name) received more SETTINGS acknowledgements than it sent SETTINGS")
            }
            initialWindow = reported.removeFirst()
            return
        }
        for start in stride(from: 0, to: frame.payload.count, by: 6) where frame.payload[start + 1] == 4 {
            initialRoom = Int(bigEndian(frame.payload[(start + 2)...].prefix(4)))
        }
        write(HTTP2Frames.frame(Type.settings, Flag.ack))
    }

    private func receiveRoom(_ frame: Received) {
        referee.expect(frame.increment > 0, "\(name) received a window update of 0")
        if frame.stream == 0 {
            room += frame.increment
        } else {
            streams[frame.stream]?.mayGive += frame.increment
        }
    }

    private func receiveOnStream(_ frame: Received) {
        guard let stream = streams[frame.stream] else {
            return referee.fail("\(name) was sent \(frame) on a stream that it has not opened")
        }
        if frame.type == Type.data, !frame.payload.isEmpty { receiveBody(frame.payload.count, stream) }
        if frame.isEnd || frame.type == Type.reset {
            stream.isClosed = true
            drop(stream)
            if frame.type == Type.reset { stream.isEnded = true }
        }
        take(frame)
    }

    private func receiveBody(_ count: Int, _ stream: Stream) {
        window -= count
        stream.mayTake -= count
        referee.expect(
            window >= 0 && initialWindow + stream.mayTake >= 0,
            "\(name) was sent \(count) bytes on stream \(stream.id), and its windows had "
                + "\(window + count) and \(initialWindow + stream.mayTake + count)")
        owed += count
        stream.owed += count
        if !isLazy { giveBack(stream) }
    }

    /// Opens the windows by the number of bytes that have arrived.
    private func giveBack(_ stream: Stream) {
        widen(owed)
        owed = 0
        widen(stream, stream.owed)
    }

    private func widen(_ count: Int) {
        guard count > 0 else { return }
        window += count
        write(windowUpdate(0, UInt32(count)))
    }

    private func widen(_ stream: Stream, _ count: Int) {
        guard count > 0, !stream.isClosed, !stream.isReset else { return }
        stream.owed = Swift.max(0, stream.owed - count)
        stream.mayTake += count
        write(windowUpdate(stream.id, UInt32(count)))
    }

    private func announce(_ window: Int) {
        reported.append(window)
        write(settings((4, UInt32(window))))
    }

    // Spontaneous actions

    /// Opens a window, changes the initial window of all streams, or sends a PING.
    func stir() {
        switch chance.below(8) {
        case 0...1:
            let count = chance.size(upTo: Swift.max(1, owed))
            owed -= Swift.min(owed, count)
            widen(count)
        case 2...5:
            let streams = open.filter { !$0.isClosed && !$0.isReset }
            guard !streams.isEmpty else { return }
            let stream = chance.pick(streams)
            // Tiny amounts too; a broker may wait for them to add up.
            widen(stream, chance.isOne(in: 2) ? Swift.max(1, stream.owed) : chance.size(upTo: 2000))
        case 6 where !isWide: announce(chance.pick([0, 10, 600, 5_000, 65_535]))
        default: write(ping(UInt8(chance.below(256))))
        }
    }

    /// Makes the client open its windows as soon as something has arrived, from now on.
    func calm() {
        isLazy = false
        announce(calmWindow)
        widen(owed)
        owed = 0
        for stream in open { widen(stream, stream.owed) }
    }
}

// Connection: the implementation of ServerSession and ClientSession. It is a class because it owns nghttp2's session,
// whose callbacks hold its address. This file contains the reading part: frames are passed to nghttp2 one at a time, so
// that the events of one frame are delivered before the next is read, and unhandled input remains as bytes.

import Bytes
import CNGHTTP2
import ForebayWire

@usableFromInline
final class Connection {
    enum Role {
        case server, client
    }

    enum Phase {
        /// Frames are read and written.
        case open
        /// GOAWAY with an error is waiting to be written; nothing is read.
        case dying
        /// Nothing is read or written.
        case finished
    }

    let role: Role
    let limits: HTTP2Limits
    var phase = Phase.open
    /// The latest time passed in.
    var now: UInt64 = 0
    var streams = HTTPStreamTable()
    /// The highest stream that the client has opened.
    var lastStream: UInt32 = 0
    var flood: FloodGuard
    var section = HeaderSection()
    var events = EventQueue()
    /// An error that ends the connection, found by a callback and handled when nghttp2 has returned.
    var trip: HTTP2Error?
    /// Whether the peer's first SETTINGS have arrived.
    var isOpened = false
    /// Whether the peer has acknowledged our SETTINGS and uses our window sizes.
    var isAcknowledged = false
    /// Whether GOAWAY without an error was sent. New streams are then ignored.
    private(set) var isDraining = false
    /// Whether the server has said that it accepts no more requests.
    var isClosing = false
    /// Streams whose `blocked` is true.
    var blocked = 0
    /// Streams whose body is `held`.
    var held = 0
    /// Reading work not yet reported to the owner.
    var work = ReadingWork()
    /// Whether the connection's window has grown and the streams waiting for that have not been notified yet.
    var hasRoomToTell = false

    // Output state; see Connection+Output.swift.
    var port: UnsafePointer<SinkPort>?
    var produced = 0
    var budget = 0
    var isPaused = false
    var settingsWritten = false

    /// Nghttp2's session, for calls that may leave it something to write.
    var session: OpaquePointer {
        isWritten = false
        return shown
    }
    /// The same session, for calls that only inspect it. Nil only during `init`.
    private(set) var shown: OpaquePointer!
    /// Whether the session had nothing more to write and has not been used since.
    var isWritten = false

    /// The part of the caller's bytes that has not been read yet.
    private var input = UnsafeRawBufferPointer(start: nil, count: 0)
    /// Bytes that arrived before `input`, put aside by `hold`.
    private var aside = ByteBuffer()
    private var walker: FrameWalker

    init(_ role: Role, limits: HTTP2Limits) {
        self.role = role
        self.limits = limits
        walker = FrameWalker(role)
        // Only a server has a setting to add.
        settingsWritten = role == .client
        flood = FloodGuard(limits)
        shown = makeSession()
    }

    deinit { nghttp2_session_del(shown) }

    var bufferedBytes: Int { aside.capacity + section.capacity + streams.capacity + events.capacity }

    /// Whether a frame or a header section has begun but not ended, or bytes were put aside.
    var hasPartialFrame: Bool { walker.isInside || !aside.isEmpty }

    // MARK: Input

    func feed(_ bytes: UnsafeRawBufferPointer, now: UInt64) {
        advance(to: now)
        guard phase == .open else { return }
        putAside()
        input = bytes
    }

    func hold() { putAside() }

    func advance(to time: UInt64) { now = max(now, time) }

    /// The next event; nil once all input has been handled.
    func next() -> HTTPEvent? {
        while true {
            if let event = events.take() { return event }
            guard phase == .open else { break }
            if hasRoomToTell && (work.isDue || !isWindowUpdateNext) {
                reportRoom()
            } else if work.isDue {
                return .worked(units: work.take())
            } else {
                guard readFrame() else { break }
                if events.isEmpty { work.add(ReadingWork.frame) }
            }
        }
        if phase != .open { discardInput() }
        putAside()
        return events.take()
    }

    /// Copies the rest of the caller's bytes to `aside`.
    private func putAside() {
        if !input.isEmpty { aside.append(input) }
        input = UnsafeRawBufferPointer(start: nil, count: 0)
        aside.shrink()
    }

    private func discardInput() {
        input = UnsafeRawBufferPointer(start: nil, count: 0)
        aside.removeAll()
    }

    /// The bytes to read next.
    private var front: UnsafeRawBufferPointer { aside.isEmpty ? input : aside.readable }

    /// Whether the next frame is another WINDOW_UPDATE. Notifying streams about room can then wait until after it.
    private var isWindowUpdateNext: Bool { walker.isNext(FrameHead.Kind.windowUpdate, front) }

    /// Passes bytes up to the end of a frame to nghttp2. Returns false if there are none.
    private func readFrame() -> Bool {
        let front = front
        guard !front.isEmpty else { return false }
        let (count, head) = walker.take(front)
        // The bytes stay in memory until more are put aside, so an event may point to them.
        if aside.isEmpty {
            input = input.slice(count..<input.count)
        } else {
            aside.consume(count)
        }
        if let head {
            let index = streams.find(head.stream)
            let isLate = index == nil && head.stream % 2 == 1 && head.stream <= lastStream
            let isAnswered = index.map { streams[$0].headSent } ?? false
            if let index, head.endsStream { streams[index].remoteEnding = true }
            if let error = flood.received(head, late: isLate, answered: isAnswered, now: now) ?? misplaced(head) {
                die(error)
                return true
            }
            if head.type == FrameHead.Kind.headers || head.type == FrameHead.Kind.continuation {
                work.add(head.length * ReadingWork.compressed)
            }
            if role == .server && head.type == FrameHead.Kind.headers && head.stream % 2 == 1
                && head.stream > lastStream
            {
                lastStream = head.stream
                if isDraining { flood.streamEnded(window: freshWindow) }
            }
        }
        let read = nghttp2_session_mem_recv(session, front.baseAddress!.assumingMemoryBound(to: UInt8.self), count)
        if read < 0 {
            die(Connection.error(reading: read))
        } else if let trip {
            die(trip)
        }
        return true
    }

    /// Errors that nghttp2 does not catch: PRIORITY on stream 0, because we disable priorities (RFC 9113, 6.3), and
    /// pushes before the server knows that we accept none (8.4).
    private func misplaced(_ head: FrameHead) -> HTTP2Error? {
        if head.type == FrameHead.Kind.pushPromise && role == .client {
            return .violation("A PUSH_PROMISE was received; pushes are not accepted.")
        }
        guard head.type == FrameHead.Kind.priority && head.stream == 0 else { return nil }
        return .violation("A PRIORITY frame was sent on stream 0; send it on the stream that it is for.")
    }

    private static func error(reading result: Int) -> HTTP2Error {
        switch Int32(truncatingIfNeeded: result) {
        case NGHTTP2_ERR_BAD_CLIENT_MAGIC.rawValue:
            return .violation("The connection does not begin with the HTTP/2 preface; use HTTP/2.")
        case NGHTTP2_ERR_FLOODED.rawValue:
            return .limit(.waitingAnswers, "Too many acknowledgements of PING and SETTINGS are unread; read them.")
        case NGHTTP2_ERR_TOO_MANY_CONTINUATIONS.rawValue:
            return .limit(.continuations, "A header section has too many CONTINUATION frames; send fewer.")
        default:
            let cause = String(cString: nghttp2_strerror(Int32(truncatingIfNeeded: result)))
            return HTTP2Error(.internalError, ErrorWord.unavailable.text("HTTP/2 failed in the broker: \(cause)."))
        }
    }

    // MARK: Ends

    /// Ends the connection from our side; GOAWAY is the last thing written.
    func die(_ error: HTTP2Error) {
        guard phase == .open else { return }
        trip = nil
        flood.counters.broken = error.limit
        submitGoAway(error.code, error.message)
        phase = .dying
        discardAll()
        events.append(.fatal(error))
    }

    /// Ends the connection without a GOAWAY: for HTTP/2 it has already ended.
    func finish(_ event: HTTPEvent) {
        guard phase == .open else { return }
        phase = .finished
        discardAll()
        events.append(event)
    }

    private func discardAll() {
        discardInput()
        streams.removeAll()
        blocked = 0
        held = 0
        // Undelivered events belong to streams that have been removed.
        events.removeAll()
    }

    func submitGoAway(_ code: HTTP2Code, _ message: String) {
        let last = nghttp2_session_get_last_proc_stream_id(session)
        var message = message
        message.withUTF8 { text in
            _ = nghttp2_submit_goaway(session, 0, last, code.rawValue, text.baseAddress, min(text.count, 1 << 10))
        }
    }

    func goAway(_ code: HTTP2Code, _ message: String) {
        guard phase == .open else { return }
        if code == .noError {
            isDraining = true
            submitGoAway(code, message)
        } else {
            die(HTTP2Error(code, message))
        }
    }

    func shutdownNotice() {
        if phase == .open { _ = nghttp2_submit_shutdown_notice(session) }
    }

    func ping(_ number: UInt64) {
        guard phase == .open else { return }
        withUnsafeBytes(of: number.bigEndian) {
            _ = nghttp2_submit_ping(session, 0, $0.baseAddress!.assumingMemoryBound(to: UInt8.self))
        }
    }

    var queuedFrames: Int { nghttp2_session_get_outbound_queue_size(shown) }

    // MARK: Streams

    /// Removes a stream from the table and returns its unconsumed bytes to the connection's window.
    @discardableResult
    func discard(at index: Int) -> HTTPStream {
        let entry = streams.remove(at: index)
        if entry.blocked { blocked -= 1 }
        if entry.body == .held { held -= 1 }
        if entry.unconsumed > 0 { _ = nghttp2_session_consume_connection(session, entry.unconsumed) }
        if !entry.remoteDone && !entry.remoteEnding {
            let window = nghttp2_session_get_stream_local_window_size(session, Int32(bitPattern: entry.id))
            // Until the peer acknowledges our SETTINGS, it may have used the larger window without our knowing.
            flood.streamEnded(window: isAcknowledged ? Int(window) : max(Int(window), freshWindow))
        }
        return entry
    }

    /// What a peer may send on a stream before it has heard anything about it.
    var freshWindow: Int { max(limits.streamWindow, 65_535) }

    func consume(_ stream: UInt32, _ count: Int) {
        guard let index = streams.find(stream) else { return }
        let taken = max(0, min(count, streams[index].unconsumed))
        guard taken > 0 else { return }
        streams[index].unconsumed -= taken
        _ = nghttp2_session_consume(session, Int32(bitPattern: stream), taken)
    }
}

/// Events not yet delivered: at most two for each open stream, and a few of the connection.
struct EventQueue {
    private var events: [HTTPEvent] = []
    private var delivered = 0

    var isEmpty: Bool { delivered == events.count }
    var capacity: Int { events.capacity * MemoryLayout<HTTPEvent>.stride }

    mutating func append(_ event: HTTPEvent) { events.append(event) }

    mutating func take() -> HTTPEvent? {
        guard delivered < events.count else { return nil }
        let event = events[delivered]
        delivered += 1
        if delivered == events.count { removeAll() }
        return event
    }

    mutating func removeAll() {
        events.removeAll(keepingCapacity: events.capacity <= 64)
        delivered = 0
    }
}

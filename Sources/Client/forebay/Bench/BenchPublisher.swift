// BenchPublisher: one publisher of `bench`, on its own connection: a channel under the broker's credit, or acknowledged
// publishes, several of them in flight.
//
//     open ──item 0 taken──► publishing ──quota sent──► ending ──all acknowledged──► ended

import Bytes
import Client
import EventLoop
import Measure

/// The totals of all publishers.
struct BenchPublications {
    var acknowledged: UInt64 = 0
    /// How often a publisher had a message to send but no credit for it.
    var stalls: UInt64 = 0
    /// Total nanoseconds that publishers waited for credit.
    var stalled: UInt64 = 0
    /// How late messages were sent for reasons other than the broker, in nanoseconds.
    var late = Histogram()
}

final class BenchPublisher {
    /// What the publisher waits for.
    enum Wait {
        /// Nothing: there is more to send now.
        case nothing
        /// The broker: credit, acknowledgements, or room in the socket.
        case broker
        /// A time, in nanoseconds of the monotonic clock.
        case due(UInt64)
        /// There is nothing left to send.
        case end
    }

    private enum Phase {
        case opening, publishing, ending, ended
    }

    private(set) var sent: UInt64 = 0
    private let settings: BenchSettings
    private let index: Int
    private var connection: BenchLink
    private var phase = Phase.opening
    private var stream: StreamID?
    private var payload: ByteBuffer
    /// Total number of messages to send.
    private var quota: UInt64
    private var inFlight = 0
    /// When credit ran out; nil while there is some.
    private var stalledSince: UInt64?
    /// Whether the next message is late because of the broker, not because of this side.
    private var isHeld = false

    /// No more messages are made while more bytes than this wait in the socket's queue.
    private static let outputLimit = 256 << 10
    /// The most unanswered publishes of one publisher.
    static let inFlightLimit = 64

    init(_ settings: BenchSettings, index: Int, _ connection: consuming BenchLink) {
        self.settings = settings
        self.index = index
        self.connection = connection
        quota = settings.quota(of: index)
        payload = BenchMessage.blank(size: settings.size)
    }

    /// Whether the channel is open.
    var isReady: Bool { phase != .opening }
    var isEnded: Bool { phase == .ended }

    /// Opens the channel. Its first message, which needs no credit, is the mark of round 0, which nobody waits for.
    func open(_ poller: inout Poller) throws {
        guard !settings.ack else {
            phase = .publishing
            return
        }
        let mark = BenchMessage.mark(0, settings)
        stream = try connection.link.connection.openChannel(
            settings.topic, completesTopic: false, first: mark.readable, isOnly: false, acknowledged: false)
        try connection.flush(&poller)
    }

    /// Sends what may be sent now, and returns what the rest waits for.
    func publish(
        _ schedule: BenchSchedule?, _ publications: inout BenchPublications, _ poller: inout Poller
    ) throws -> Wait {
        guard phase == .publishing else { return phase == .ended ? .end : .broker }
        let now = Clock.monotonic()
        if let since = stalledSince, credit > 0 || sent >= quota {
            publications.stalled += now - since
            stalledSince = nil
        }
        var wait = try send(now, schedule, &publications)
        if case .end = wait { end() }
        try connection.flush(&poller)
        if case .nothing = wait, connection.link.wantsToWrite { wait = .broker }
        isHeld = if case .broker = wait { true } else { false }
        return wait
    }

    private func send(
        _ now: UInt64, _ schedule: BenchSchedule?, _ publications: inout BenchPublications
    ) throws(ClientError) -> Wait {
        while sent < quota {
            let due = schedule?.due(index, sent) ?? now
            guard due <= now else { return .due(due) }
            guard connection.link.connection.queued < Self.outputLimit else { return .nothing }
            guard credit > 0 else {
                if stalledSince == nil, !settings.ack {
                    stalledSince = now
                    publications.stalls += 1
                }
                return .broker
            }
            try sendOne()
            if schedule != nil, !isHeld { publications.late.record(now - due) }
        }
        return .end
    }

    /// How many messages may be sent now.
    private var credit: Int {
        if settings.ack { return Self.inFlightLimit - inFlight }
        return stream.map { Int(connection.link.connection.credit(of: $0)) } ?? 0
    }

    private func sendOne() throws(ClientError) {
        if settings.isNumbered {
            let header = BenchMessage.Header(publisher: UInt32(index), number: sent)
            let tag = settings.tag
            payload.withMutableReadable { BenchMessage.write(header, tag: tag, to: $0) }
        }
        if let stream {
            guard connection.link.connection.send(stream, payload.readable) else { return }
        } else {
            _ = try connection.link.connection.publish(settings.topic, payload.readable)
            inFlight += 1
        }
        sent += 1
    }

    /// Sends no further messages.
    func stop() { quota = sent }

    private func end() {
        phase = .ending
        if let stream {
            connection.link.connection.complete(stream)
        } else if inFlight == 0 {
            phase = .ended
        }
    }

    /// Reads once and handles credit and acknowledgements; called when the socket is ready.
    func serve(_ publications: inout BenchPublications, _ poller: inout Poller) throws {
        _ = try connection.link.read(atMost: 16 << 10, now: Clock.monotonic())
        while let event = try connection.link.next() {
            switch event {
            case .granted, .acknowledged:
                if phase == .opening { phase = .publishing }
            case .completed:
                if settings.ack {
                    inFlight -= 1
                    publications.acknowledged += 1
                    if phase == .ending, inFlight == 0 { phase = .ended }
                } else if phase == .ending {
                    phase = .ended
                } else {
                    throw ClientError(.rejected, "The broker ended a channel before its last message.")
                }
            case .failed(_, let error): throw error
            case .declined:
                guard phase == .ending || phase == .ended else {
                    throw ClientError(.rejected, "The broker accepts no more messages on a channel.")
                }
            case .closing(let why): throw ClientError(.connectionError, why)
            case .opened, .pong, .message, .topicEnded: break
            }
        }
        try connection.flush(&poller)
    }

    /// Sends a KEEPALIVE if one is due, and gives up if the broker is silent.
    func keepAlive(_ now: UInt64, _ poller: inout Poller) throws {
        try connection.link.connection.fire(now: now)
        try connection.flush(&poller)
    }
}

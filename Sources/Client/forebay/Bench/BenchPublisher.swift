// BenchPublisher: one publisher of `bench`, on a connection of its own: a channel under the broker's credits, or
// acknowledged publishes of which some are in flight.
//
//     open ──item 0 taken──► publishing ──quota sent──► ending ──all acknowledged──► ended

import Bytes
import Client
import EventLoop
import Measure

/// What all publishers together did.
struct BenchPublications {
    var acknowledged: UInt64 = 0
    /// How often a publisher had a message to send and no credit for it.
    var stalls: UInt64 = 0
    /// Nanoseconds that publishers waited for credit, added up.
    var stalled: UInt64 = 0
    /// How late messages were sent through no fault of the broker's, in nanoseconds.
    var late = Histogram()
}

final class BenchPublisher {
    /// What it waits for.
    enum Wait {
        /// Nothing: there is more to send at once.
        case nothing
        /// The broker: credit, acknowledgements, room in the socket.
        case broker
        /// A time, in nanoseconds of the monotonic clock.
        case due(UInt64)
        /// Nothing is left to be sent.
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
    /// Messages to be sent in all.
    private var quota: UInt64
    private var inFlight = 0
    /// Since when there is no credit for what is to be sent.
    private var stalledSince: UInt64?
    /// The broker, not this side, is why the next message is late.
    private var isHeld = false

    /// Bytes handed to the socket's queue above which no more are made.
    private static let outputLimit = 256 << 10
    /// Acknowledged publishes of one publisher that wait for their answer.
    static let inFlightLimit = 64

    init(_ settings: BenchSettings, index: Int, _ connection: consuming BenchLink) {
        self.settings = settings
        self.index = index
        self.connection = connection
        quota = settings.quota(of: index)
        payload = BenchMessage.blank(size: settings.size)
    }

    /// The channel is open.
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

    /// Sends what may be sent now, and tells what the rest waits for.
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

    /// Messages that may be sent now.
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

    /// No more than what was sent is going to be.
    func stop() { quota = sent }

    private func end() {
        phase = .ending
        if let stream {
            connection.link.connection.complete(stream)
        } else if inFlight == 0 {
            phase = .ended
        }
    }

    /// Its socket is ready: reads once, and takes credits and acknowledgements.
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
                    throw ClientError(.rejected, "The broker takes no more messages on a channel.")
                }
            case .closing(let why): throw ClientError(.connectionError, why)
            case .pong, .message: break
            }
        }
        try connection.flush(&poller)
    }

    /// Sends a KEEPALIVE that is due, and gives up on a broker that is silent.
    func keepAlive(_ now: UInt64, _ poller: inout Poller) throws {
        try connection.link.connection.fire(now: now)
        try connection.flush(&poller)
    }
}

// ChannelPublisher: `forebay pub` through one channel under the broker's credits.
//
// The first message opens the channel; every other one needs credit of the broker's. Input is read only while there is
// credit and room, so memory stays what one line and one socket buffer need.

import Bytes
import Client
import EventLoop
import Glibc

struct ChannelPublisher: ~Copyable {
    private enum Phase {
        case sending
        /// Our half is complete; the broker's completion acknowledges everything.
        case ending
        case ended
    }

    private let settings: PublishSettings
    private var session: Session
    private var lines = LineReader(limit: PublishSettings.lineLimit)
    private var payload = ByteBuffer()
    private var pacer: Pacer?
    private var progress: Progress
    private var phase = Phase.sending
    private var stream: StreamID?
    private var sent: UInt64 = 0
    private var lastSequence: UInt64?
    private var interruptions = 0
    /// When an interrupted run gives up waiting for the acknowledgement.
    private var patienceEnds: UInt64?
    private var mistake: UsageError?

    /// Bytes handed to the socket's queue above which no more are made.
    private static let outputLimit = 256 << 10
    private static let readQuantum = 64 << 10
    private static let patience: UInt64 = 2_000_000_000

    init(_ settings: PublishSettings, _ address: BrokerAddress) throws(ClientError) {
        self.settings = settings
        session = try Session(to: address, signals: [SIGINT, SIGTERM, SIGHUP])
        let now = Clock.monotonic()
        pacer = settings.rate.map { Pacer(rate: $0, now: now) }
        progress = Progress(now: now)
        switch settings.source {
        case .message(let text): payload.append(text)
        case .size(let size):
            let pattern = Array("abcdefghijklmnopqrstuvwxyz0123456789".utf8)
            payload.append((0..<size).map { pattern[$0 % pattern.count] })
        case .lines: break
        }
    }

    mutating func run() throws -> Int32 {
        do {
            return try publish()
        } catch let error as ClientError {
            progress.clear()
            throw ClientError(error.code, error.message + account)
        }
    }

    /// How far it came, for whoever has to go on from there.
    private var account: String {
        guard sent > 0 else { return "" }
        let messages = counted(sent, "message was", "messages were")
        let told = lastSequence.map { "acknowledged up to sequence \($0)" } ?? "none of them acknowledged"
        return " (\(messages) sent, \(told).)"
    }

    private mutating func publish() throws -> Int32 {
        while true {
            while let event = try session.next() {
                progress.clearForMessage(event)
                try handle(event)
            }
            if phase == .ended { return try finish() }
            let blocked = try produce()
            if phase == .ended { return try finish() }
            let woken = try session.wait(wants(blocked))
            if woken.input { readInput() }
            if woken.signal != nil, let code = interrupt(woken.now) { return code }
            if let end = patienceEnds, woken.now >= end { return giveUp() }
            progress.show(sent: sent, credit: credit, ending: phase == .ending, now: woken.now)
        }
    }

    private var credit: UInt32 { stream.map { session.connection.credit(of: $0) } ?? 1 }

    // MARK: Sending

    /// Why no more is made just now.
    private enum Blocked {
        case output, credit, time, input, nothing
    }

    private mutating func produce() throws(ClientError) -> Blocked {
        var now = Clock.monotonic()
        while phase == .sending {
            if sent == settings.count {
                endSending()
                break
            }
            guard session.connection.queued < Self.outputLimit else { return .output }
            guard credit > 0 else { return .credit }
            if let pacer, !pacer.isDue(now) {
                now = Clock.monotonic()
                if !pacer.isDue(now) { return .time }
            }
            switch settings.source {
            case .message: try send(payload.readable)
            case .size:
                number()
                try send(payload.readable)
            case .lines:
                switch lines.next() {
                case .line(let line): try send(line)
                case .none: return .input
                case .end: endSending()
                case .tooLong:
                    let limit = Units.bytes(UInt64(PublishSettings.lineLimit))
                    mistake = UsageError(
                        "Line \(sent + 1) is longer than \(limit): it and what follows was not published.")
                    stop()
                }
            }
            pacer?.sent(now: now)
        }
        return .nothing
    }

    /// Generated payloads begin with their number where it fits, so that a gap shows.
    private mutating func number() {
        guard payload.count >= 20 else { return }
        var rest = sent + 1
        payload.withMutableReadable { bytes in
            for place in stride(from: 19, through: 0, by: -1) {
                bytes[place] = UInt8(ascii: "0") + UInt8(rest % 10)
                rest /= 10
            }
        }
    }

    private mutating func send(_ data: UnsafeRawBufferPointer) throws(ClientError) {
        if let stream {
            guard session.connection.send(stream, data) else { return }
        } else {
            let isOnly = settings.count == 1
            stream = try session.connection.openChannel(
                settings.topic, completesTopic: settings.complete, first: data, isOnly: isOnly, acknowledged: true)
            if isOnly { phase = .ending }
        }
        sent += 1
    }

    private mutating func endSending() {
        guard phase == .sending else { return }
        phase = .ending
        guard let stream else {
            phase = .ended
            return
        }
        session.connection.complete(stream)
    }

    /// Ends before the input does: the channel, not the topic.
    private mutating func stop() {
        if settings.complete, let stream {
            session.connection.cancel(stream)
            self.stream = nil
            phase = .ended
        } else {
            endSending()
        }
    }

    // MARK: Waiting

    private func wants(_ blocked: Blocked) -> Session.Wants {
        var wants = Session.Wants()
        if case .lines = settings.source, phase == .sending, blocked == .input { wants.input = true }
        if blocked == .time { wants.until = pacer?.next }
        let other = [patienceEnds, progress.nextUpdate].compactMap { $0 }.min()
        if let other { wants.until = min(wants.until ?? UInt64.max, other) }
        return wants
    }

    private mutating func readInput() {
        let space = lines.reserve(Self.readQuantum)
        let count = read(0, space, Self.readQuantum)
        if count > 0 {
            lines.commit(count)
        } else if count == 0 || errno != EAGAIN && errno != EINTR {
            lines.end()
        }
    }

    // MARK: Events

    private mutating func handle(_ event: ClientEvent) throws(ClientError) {
        switch event {
        case .acknowledged(_, let told): lastSequence = told.sequence
        case .completed:
            if phase == .sending {
                throw ClientError(.rejected, "The broker ended the channel before the last message.")
            }
            phase = .ended
        case .failed(_, let error): throw error
        case .declined:
            guard phase == .sending else { break }
            throw ClientError(.rejected, "The broker takes no more messages on this channel.")
        // Should the connection end of it, that is told then.
        case .closing, .granted, .pong, .message: break
        }
    }

    /// A signal came. The first ends the channel in good order, the second ends the process.
    private mutating func interrupt(_ now: UInt64) -> Int32? {
        interruptions += 1
        if interruptions > 1 || phase != .sending { return giveUp() }
        patienceEnds = now + Self.patience
        stop()
        if settings.complete, sent > 0 {
            progress.clear()
            tell("Interrupted after \(counted(sent, "message")): the channel is ended, the topic stays live.")
        }
        return nil
    }

    private mutating func giveUp() -> Int32 {
        progress.clear()
        tell("Ended without the broker's acknowledgement: of \(counted(sent, "message")) the last may be missing.")
        session.finish()
        return ExitCode.failure
    }

    private mutating func finish() throws(UsageError) -> Int32 {
        session.finish()
        progress.finish(sent: sent, now: Clock.monotonic())
        if let mistake { throw mistake }
        if settings.ack { report() }
        return ExitCode.done
    }

    private func report() {
        var output = Output()
        if settings.json {
            let sequence = lastSequence.map { ",\"sequence\":\($0)" } ?? ""
            output.buffer.append("{\"acknowledged\":\(sent)\(sequence)}\n")
        } else {
            let last = lastSequence.map { sent > 0 ? ", the last as sequence \($0)" : "" } ?? ""
            output.buffer.append("\(counted(sent, "message")) acknowledged\(last)\n")
        }
        output.drain()
    }
}

// ChannelPublisher: `forebay pub` on one channel, under the broker's credit.
//
// The first message opens the channel; all others need credit from the broker. Input is read only while there is credit
// and room, so memory use is limited to one line and one socket buffer.

import Bytes
import Client
import EventLoop
import Glibc

struct ChannelPublisher: ~Copyable {
    private let settings: PublishSettings
    private var session: Session
    private var reconnection: Reconnection
    private var lines = LineReader(limit: PublishSettings.lineLimit)
    private var payload = ByteBuffer()
    private var messages: SentMessages
    /// Nil if messages are not numbered.
    private var numbers: MessageNumbers?
    private var pacer: Pacer?
    private var progress: Progress
    private var stream: StreamID?
    /// Whether the input has ended.
    private var isDry = false
    /// Whether our half of the channel is complete. The broker's completion then acknowledges everything.
    private var isEnding = false
    private var hasEnded = false
    private var lastSequence: UInt64?
    /// The signal that interrupted the run, and when the run stops waiting for the acknowledgement.
    private var interruption: (signal: Int32, patienceEnds: UInt64)?
    private var mistake: UsageError?
    /// Messages that are sent again on this connection; 0 once that has been reported.
    private var repeated: UInt64 = 0

    /// No more messages are made while more bytes than this wait in the socket's queue.
    private static let outputLimit = 256 << 10
    /// No more lines are read while unacknowledged lines hold more bytes than this.
    private static let keptLimit = 8 << 20
    private static let readQuantum = 64 << 10
    private static let patience: UInt64 = 2_000_000_000

    init(
        _ settings: PublishSettings, _ reconnection: consuming Reconnection
    ) throws {
        let content = try settings.content()
        let session = try reconnection.begin(signals: [SIGINT, SIGTERM, SIGHUP])
        try reconnection.greet(session)
        self.settings = settings
        self.reconnection = reconnection
        self.session = session
        let now = Clock.monotonic()
        pacer = settings.rate.map { Pacer(rate: $0, now: now) }
        progress = Progress(now: now)
        var keepsPayloads = false
        switch settings.source {
        case .message, .file: payload.append(content)
        case .size(let size):
            let pattern = Array("abcdefghijklmnopqrstuvwxyz0123456789".utf8)
            payload.append((0..<size).map { pattern[$0 % pattern.count] })
        case .lines: keepsPayloads = true
        }
        messages = SentMessages(keepsPayloads: keepsPayloads)
        numbers = settings.publisher.map { MessageNumbers(publisher: $0, topic: settings.topic) }
    }

    mutating func run() throws -> Int32 {
        do {
            while true {
                do {
                    return try publish()
                } catch let error as ClientError {
                    if let code = try reconnect(after: error) { return code }
                }
            }
        } catch let error as ClientError {
            throw ClientError(error.code, error.message + account)
        }
    }

    /// How far the run got, for resuming from there.
    private var account: String {
        guard messages.taken > 0 else { return "" }
        let sent = counted(messages.taken, "message was", "messages were")
        let acknowledgement = lastSequence.map { "\(messages.acknowledged) acknowledged, last sequence \($0)" }
        return " (\(sent) sent, \(acknowledgement ?? "none acknowledged").)"
    }

    /// Reconnects and sends unacknowledged messages again. Returns an exit code if that fails.
    private mutating func reconnect(after error: ClientError) throws(ClientError) -> Int32? {
        if interruption != nil { return giveUp() }
        repeated = messages.lost()
        stream = nil
        isEnding = false
        numbers?.lost()
        switch try reconnection.connect(&session, after: error) {
        case .connected: try reconnection.greet(session)
        case .signal(let signal):
            interruption = (signal, 0)
            return giveUp()
        // Nobody reads this command's output.
        case .outputGone: break
        }
        return nil
    }

    /// Notes that the broker accepts messages.
    private mutating func works() {
        reconnection.answered(by: session.address)
        reconnection.works()
        guard repeated > 0 else { return }
        // The broker recognizes numbered messages.
        if numbers != nil { return repeated = 0 }
        let what = counted(repeated, "message is", "messages are")
        notify("\(what) sent again because no acknowledgement arrived; subscribers may receive them twice.")
        repeated = 0
    }

    private mutating func publish() throws -> Int32 {
        while true {
            while let event = try session.next() {
                try handle(event)
            }
            if hasEnded { return try finish() }
            try numbers?.ask(session.connection)
            let blocked = try produce()
            if hasEnded { return try finish() }
            let woken = try session.wait(wants(blocked))
            reconnection.report(now: woken.now)
            if woken.input { readInput() }
            if let signal = woken.signal, let code = interrupt(signal, woken.now) { return code }
            if let interruption, woken.now >= interruption.patienceEnds { return giveUp() }
            progress.show(sent: messages.taken, credit: credit, ending: isEnding, now: woken.now)
        }
    }

    private var credit: UInt32 { stream.map { session.connection.credit(of: $0) } ?? 1 }

    // MARK: Sending

    /// Why no more messages are made at the moment.
    private enum Blocked {
        case output, credit, time, input, nothing
    }

    private mutating func produce() throws(ClientError) -> Blocked {
        if let numbers, !numbers.isKnown { return .nothing }
        var now = Clock.monotonic()
        while !isEnding, !hasEnded {
            guard session.connection.queued < Self.outputLimit else { return .output }
            if messages.next == nil {
                if isDry || messages.taken == settings.count {
                    try endSending()
                    break
                }
                guard credit > 0, messages.bytes < Self.keptLimit else { return .credit }
                if let pacer, !pacer.isDue(now) {
                    now = Clock.monotonic()
                    if !pacer.isDue(now) { return .time }
                }
                guard take() else { return .input }
                pacer?.sent(now: now)
            }
            guard messages.next != nil else { continue }
            guard credit > 0 else { return .credit }
            try sendNext()
        }
        return .nothing
    }

    /// Takes another message from the source. Returns false if no message is available yet.
    private mutating func take() -> Bool {
        switch settings.source {
        case .message, .file, .size: messages.take(UnsafeRawBufferPointer(start: nil, count: 0))
        case .lines:
            switch lines.next() {
            case .line(let line): messages.take(line)
            case .none: return false
            case .end: isDry = true
            case .tooLong:
                let limit = Units.bytes(UInt64(PublishSettings.lineLimit))
                mistake = UsageError(
                    "Line \(messages.taken + 1) is longer than \(limit); it and the lines after it were not published."
                )
                stop()
            }
        }
        return true
    }

    private mutating func sendNext() throws(ClientError) {
        switch settings.source {
        case .message, .file: try send(payload.readable)
        case .size:
            number(messages.next ?? 0)
            try send(payload.readable)
        case .lines:
            payload.removeAll()
            payload.append(messages.payload)
            try send(payload.readable)
        }
    }

    /// Writes its number at the beginning of a generated payload, if it fits, so that gaps are visible.
    private mutating func number(_ number: UInt64) {
        guard payload.count >= 20 else { return }
        var rest = number
        payload.withMutableReadable { bytes in
            for place in stride(from: 19, through: 0, by: -1) {
                bytes[place] = UInt8(ascii: "0") + UInt8(rest % 10)
                rest /= 10
            }
        }
    }

    private mutating func send(_ data: UnsafeRawBufferPointer) throws(ClientError) {
        if let stream {
            guard session.connection.send(stream, data, settings.properties) else { return }
        } else {
            let isOnly = messages.next == messages.taken && messages.taken == settings.count
            stream = try session.connection.openChannel(
                settings.topic, completesTopic: settings.complete, first: data, settings.properties, isOnly: isOnly,
                acknowledged: true, number: numbers?.number(at: messages.next ?? 1))
            if isOnly { isEnding = true }
        }
        messages.sent()
    }

    private mutating func endSending() throws(ClientError) {
        guard let stream else {
            hasEnded = true
            // Everything was acknowledged on a connection that was lost before the end was acknowledged.
            if settings.complete, messages.taken > 0 {
                throw ClientError(
                    .rejected,
                    "The connection was lost before the topic was completed; use 'forebay topic complete'.")
            }
            return
        }
        isEnding = true
        session.connection.complete(stream)
    }

    /// Ends the channel, but not the topic, before the end of the input.
    private mutating func stop() {
        isDry = true
        guard settings.complete, let stream else { return }
        session.connection.cancel(stream)
        self.stream = nil
        hasEnded = true
    }

    // MARK: Waiting

    private func wants(_ blocked: Blocked) -> Session.Wants {
        var wants = Session.Wants()
        wants.input = blocked == .input
        if blocked == .time { wants.until = pacer?.next }
        let other = [interruption?.patienceEnds, progress.nextUpdate, reconnection.reportDue].compactMap { $0 }.min()
        if let other { wants.until = min(wants.until ?? UInt64.max, other) }
        return wants
    }

    private mutating func readInput() {
        let space = lines.reserve(Self.readQuantum)
        let count = read(0, space, Self.readQuantum)
        if count > 0 {
            lines.commit(count)
        } else if count == 0 {
            lines.end()
        } else if errno != EAGAIN, errno != EINTR {
            mistake = UsageError("Standard input cannot be read: \(SystemError.text(of: errno)).")
            lines.end()
        }
    }

    // MARK: Events

    private mutating func handle(_ event: ClientEvent) throws(ClientError) {
        switch event {
        case .acknowledged(_, let acknowledgement):
            works()
            lastSequence = acknowledgement.sequence
            if let accepted = acknowledgement.accepted { messages.accept(accepted) }
        case .completed(let id, _, _) where numbers?.isQuestion(id) == true: break
        case .message(let id, let message) where numbers?.isQuestion(id) == true:
            works()
            try resume(message.data)
        case .completed:
            guard isEnding else {
                throw ClientError(.rejected, "The broker ended the channel before the last message.")
            }
            messages.acceptAll()
            hasEnded = true
        case .failed(_, let error): throw error
        case .declined:
            if !isEnding { throw ClientError(.rejected, "The broker accepts no more messages on this channel.") }
        case .granted: works()
        case .pong: reconnection.answered(by: session.address)
        // If this ends the connection, the end is reported separately.
        case .opened, .closing, .message, .topicEnded: break
        }
    }

    /// The broker has reported the publisher's last number, so it is known which messages are published.
    private mutating func resume(_ answer: UnsafeRawBufferPointer) throws(ClientError) {
        let doubtful = messages.doubtful
        let published = try numbers?.answer(answer, acknowledged: messages.acknowledged, doubtful: doubtful) ?? 0
        messages.confirm(published)
        if doubtful > published {
            notify("\(counted(doubtful - published, "message is", "messages are")) sent again, with the same numbers.")
        }
    }

    /// Handles a signal. The first ends the channel in an orderly way, the second ends the process.
    private mutating func interrupt(_ signal: Int32, _ now: UInt64) -> Int32? {
        let isFirst = interruption == nil && !isEnding
        interruption = interruption ?? (signal, now + Self.patience)
        if !isFirst { return giveUp() }
        stop()
        return nil
    }

    private mutating func giveUp() -> Int32 {
        session.finish()
        return interrupted()
    }

    private mutating func interrupted() -> Int32 {
        let missing = messages.unacknowledged
        let acknowledged = counted(messages.acknowledged, "message is", "messages are")
        let rest = missing == 0 ? "" : "; the outcome of \(missing) more is unknown"
        let topic = settings.complete && messages.taken > 0 ? " The topic stays live." : ""
        notify(
            "Interrupted: \(acknowledged) acknowledged\(rest).\(topic)",
            ["acknowledged": messages.acknowledged, "unknown": missing])
        return ExitCode.of(signal: interruption?.signal ?? SIGINT)
    }

    private mutating func finish() throws(UsageError) -> Int32 {
        session.finish()
        if interruption != nil { return interrupted() }
        progress.finish(sent: messages.taken, now: Clock.monotonic())
        if let mistake { throw mistake }
        return settings.ack ? report() : ExitCode.done
    }

    private func report() -> Int32 {
        var output = Output()
        let count = messages.acknowledged
        if settings.isOneMessage, !settings.json, let lastSequence {
            output.buffer.append("\(lastSequence)\n")
        } else if settings.json {
            let sequence = lastSequence.map { ",\"sequence\":\($0)" } ?? ""
            output.buffer.append("{\"acknowledged\":\(count)\(sequence)}\n")
        } else {
            let last = lastSequence.map { count > 0 ? ", last sequence \($0)" : "" } ?? ""
            output.buffer.append("\(counted(count, "message")) acknowledged\(last)\n")
        }
        return output.finish()
    }
}

// Subscriber: `forebay sub`. Prints messages as they arrive, and requests more only when they have been printed.

import Bytes
import Client
import ForebayWire
import Glibc
import RSocket

struct Subscriber: ~Copyable {
    private let settings: SubscribeSettings
    private let format: MessageFormat
    private var session: Session
    private var reconnection: Reconnection
    private let options: SubscribeOptions
    private var position: SubscriptionPosition
    /// Whether no message has arrived since the connection was lost.
    private var isBack = false
    private var output: Output
    private var creditWindow: CreditWindow
    private var stream: StreamID
    private var delivered: UInt64 = 0
    /// With `--once`, what was requested and has not arrived. The broker discards this demand when the connection is
    /// lost.
    private var left: UInt32
    /// Messages in the output that the reader has not accepted yet; they do not count as consumed.
    private var unprinted: UInt64 = 0
    private var epoch: UInt64?
    private var hasReportedSpent = false
    /// Topics of a pattern that restarted since the connection began, and how many of them are named.
    private var restarted = 0
    private static let mostNamed = 10

    private enum End {
        case completed
        case enough
        case failed(ClientError)
        /// The broker refused to continue; another request may succeed.
        case refused
    }
    private var end: End?
    /// Asks whether the topic exists, if stderr is a terminal.
    private let topicQuery: StreamID?

    init(
        _ settings: SubscribeSettings, _ reconnection: consuming Reconnection
    ) throws(ClientError) {
        let session = try reconnection.begin(signals: [SIGINT, SIGTERM, SIGHUP])
        var creditWindow = CreditWindow(batch: settings.request, once: settings.once, limit: settings.count)
        var options = settings.options
        // Resuming requires the position, which is part of the metadata. For a pattern, metadata is always on.
        if reconnection.isOn, !options.meta, !settings.isPattern {
            options.meta = true
            // Metadata that is not printed would hide a gap at the start.
            options.gap = options.gap ?? .fail
        }
        let isWatched = isatty(2) == 1 && !TopicName.isSystem(settings.topic) && !settings.isPattern
        let topicQuery = isWatched ? try session.connection.call(.topicInfo(settings.topic)) : nil
        let n = creditWindow.first()
        let stream = try session.connection.subscribe(settings.topic, options, n: n)
        // The response proves that the subscription was not refused.
        try reconnection.greet(session)
        self.topicQuery = topicQuery
        self.stream = stream
        left = n
        self.options = options
        position = SubscriptionPosition(options.start, ofPattern: settings.isPattern)
        self.session = session
        self.reconnection = reconnection
        self.creditWindow = creditWindow
        self.settings = settings
        output = Output()
        format = MessageFormat(kind: settings.format, isTerminal: output.isTerminal)
    }

    mutating func run() throws(ClientError) -> Int32 {
        while true {
            do throws(ClientError) {
                return try follow()
            } catch {
                if let code = try reconnect(after: error) { return code }
            }
        }
    }

    /// Reconnects and resumes the subscription. Returns an exit code if something else ends the wait.
    private mutating func reconnect(after error: ClientError) throws(ClientError) -> Int32? {
        // Messages that arrived are printed, and requested messages that did not arrive are requested again.
        unprinted = 0
        if settings.once, left == 0 { throw error }
        var error = error
        while true {
            switch try reconnection.connect(&session, after: error) {
            case .connected: break
            case .signal: return ExitCode.done
            case .outputGone: return finishWithoutReader()
            }
            position.lost()
            isBack = true
            do throws(ClientError) {
                try resume()
                return nil
            } catch let other {
                error = other
            }
        }
    }

    /// Resumes the subscription on the current connection.
    private mutating func resume() throws(ClientError) {
        var options = options
        (options.start, options.positions) = (position.start, position.positions)
        // The next message will report what is missing.
        options.gap = .tell
        if settings.isPattern { reconnection.remark = remark }
        restarted = 0
        creditWindow = CreditWindow(
            batch: settings.once ? left : settings.request, once: settings.once,
            limit: settings.count.map { $0 - delivered })
        stream = try session.connection.subscribe(settings.topic, options, n: creditWindow.first())
        try reconnection.greet(session)
    }

    /// Prints what arrives on one connection.
    private mutating func follow() throws(ClientError) -> Int32 {
        while true {
            try pull()
            if !output.isUsable { return finishWithoutReader() }
            if case .refused = end {
                end = nil
                reconnection.refused()
                try resume()
            }
            if let end { return try finish(end) }
            askAgain()
            var wants = Session.Wants()
            wants.reading = !output.isFull
            wants.output = !output.isEmpty
            wants.outputGone = true
            wants.until = reconnection.reportDue
            let woken = try session.wait(wants)
            reconnection.report(now: woken.now)
            if woken.signal != nil {
                session.connection.cancel(stream)
                session.finish()
                output.flush()
                return ExitCode.done
            }
            if woken.outputGone { return finishWithoutReader() }
        }
    }

    /// Handles events until there are none, or the reader of our output is too far behind.
    private mutating func pull() throws(ClientError) {
        var isFull = false
        repeat {
            isFull = false
            do {
                while end == nil, !isFull, let event = try session.next() {
                    handle(event)
                    isFull = output.isFull
                }
            } catch {
                // Messages that arrived before the connection was lost are printed first.
                output.drain()
                throw error
            }
            output.flush()
        } while isFull && !output.isFull && output.isUsable
    }

    private mutating func handle(_ event: ClientEvent) {
        switch event {
        case .opened(stream, let opening):
            position.opened(opening)
            if settings.options.opening, !isBack { show(opening) }
        case .message(stream, let message):
            reconnection.works()
            let info = message.info
            guard isNew(info) else {
                // Its credit was meant for another message.
                if session.connection.outstanding(on: stream) < CreditWindow.unbounded {
                    session.connection.requestN(stream, 1)
                }
                return
            }
            unprinted += 1
            if left > 0, left < CreditWindow.unbounded { left -= 1 }
            format.append(
                message.data, info: settings.meta ? info : nil, topic: info?.topic, metadata: message.metadata,
                to: &output.buffer)
            delivered += 1
            if delivered == settings.count {
                session.connection.cancel(stream)
                end = .enough
            }
        case .topicEnded(stream, let end): if settings.meta { note(end.sentence) }
        case .completed(stream, let dropped, let info):
            if settings.meta { announceEnd(dropped: dropped, info) }
            end = .completed
        case .failed(stream, let error): end = position.refused(error) ? .refused : .failed(advised(error))
        // A user that may subscribe is not always allowed to ask.
        case .failed(topicQuery, let error) where error.word == .notFound:
            notify("There is no topic '\(settings.topic)' yet; waiting for its first message. ^C exits.")
        case .pong: reconnection.answered(by: session.address)
        // If this ends the connection, the end is reported separately.
        case .opened, .message, .topicEnded, .completed, .failed, .closing, .granted, .declined, .acknowledged: break
        }
    }

    /// Shows where the subscription begins: among the messages as JSON, else as a note.
    private mutating func show(_ opening: OpeningPosition) {
        guard format.kind == .json else {
            return note("The subscription begins with #\(opening.next) of epoch \(opening.epoch).")
        }
        output.buffer.append("{\"epoch\":\"\(opening.epoch)\",\"next\":\(opening.next)}\n")
    }

    /// Reports what a message reveals about those before it. Returns false if the message has been printed already.
    private mutating func isNew(_ info: MessageInfo?) -> Bool {
        guard let info else { return true }
        defer { epoch = info.epoch }
        let arrival = position.receive(info)
        if arrival == .again { return false }
        if settings.isPattern {
            if position.isBack || settings.meta, let sentence = sentence(arrival, info) { note(sentence) }
            return true
        }
        if isBack {
            if let sentence = arrival.sentence(info) { note(sentence) }
        } else if settings.meta {
            report(info)
        }
        isBack = false
        return true
    }

    /// What a message of a pattern reveals. After a restart of the broker, that can be the same for many topics.
    private mutating func sentence(_ arrival: TopicPosition.Arrival, _ info: MessageInfo) -> String? {
        guard case .restarted = arrival else { return arrival.sentence(info) }
        restarted += 1
        if restarted <= Self.mostNamed { return arrival.sentence(info) }
        return restarted == Self.mostNamed + 1 ? "More topics restarted; they are not listed." : nil
    }

    /// What a subscription to a pattern does after a lost connection.
    private var remark: String {
        if position.isComplete { return "" }
        guard let newest = position.newest else { return " Messages published in between may be lost." }
        let since = "with the messages since \(MessageFormat.clock(newest))"
        guard !position.positions.isEmpty else {
            return " The subscription continues \(since); older ones, if any were still waiting, are lost."
        }
        let topics = counted(UInt64(position.positions.count), "topic")
        return
            " The subscription continues in \(topics); others begin \(since), and older ones, if any were still "
            + "waiting in them, are lost."
    }

    private mutating func report(_ info: MessageInfo) {
        if epoch != info.epoch {
            if format.kind == .text || isRestarted(info) {
                note("epoch \(info.epoch)\(isRestarted(info) ? restartNote : "")")
            }
            if delivered == 0, !isRestarted(info), let sequence = asked?.sequence, info.sequence < sequence {
                note("The subscription begins with #\(info.sequence); #\(sequence) does not exist yet.")
            }
        }
        if info.dropped > 0 { note("\(counted(info.dropped, "message")) dropped before #\(info.sequence).") }
    }

    /// Reports what no message could report.
    private mutating func announceEnd(dropped: UInt64, _ info: MessageInfo?) {
        if dropped > 0 { note("\(counted(dropped, "message")) dropped before the end.") }
        guard delivered == 0, let info else { return }
        if isRestarted(info) {
            note("epoch \(info.epoch)\(restartNote)")
        } else if let sequence = asked?.sequence, info.sequence > 0, info.sequence < sequence {
            note("The topic ended with #\(info.sequence); #\(sequence) was never published.")
        }
    }

    /// Reports something about the messages, after the ones before it have been printed.
    private mutating func note(_ sentence: String) {
        output.flush()
        notify(sentence)
    }

    /// Where the subscription was asked to resume.
    private var asked: (sequence: UInt64, epoch: UInt64?)? {
        if case .from(let sequence, let epoch) = settings.options.start { (sequence, epoch) } else { nil }
    }

    private func isRestarted(_ info: MessageInfo) -> Bool { asked?.epoch.map { $0 != info.epoch } ?? false }

    private var restartNote: String { ": the topic restarted, and requested messages may be lost." }

    private mutating func askAgain() {
        guard output.isEmpty, unprinted > 0 else { return }
        let n = creditWindow.use(unprinted)
        unprinted = 0
        if n > 0 { session.connection.requestN(stream, n) }
        if settings.once, !hasReportedSpent, session.connection.outstanding(on: stream) == 0 {
            hasReportedSpent = true
            let spent = "The credit of \(settings.request ?? 0) is used up."
            notify("\(spent) The subscription stays open and reports its end; ^C cancels it.")
        }
    }

    /// A gap fails the subscription only if the client did not ask to have gaps reported.
    private func advised(_ error: ClientError) -> ClientError {
        guard error.word == .gap, !settings.options.meta, settings.options.gap == nil else { return error }
        return ClientError(
            error.code, error.message + " With --meta, the gap is reported and the messages are delivered.")
    }

    private mutating func finish(_ end: End) throws(ClientError) -> Int32 {
        self.end = nil
        session.finish()
        let code = output.finish()
        if code == ExitCode.done, case .failed(let error) = end { throw error }
        return code
    }

    private mutating func finishWithoutReader() -> Int32 {
        session.connection.cancel(stream)
        session.finish()
        return output.finish()
    }
}

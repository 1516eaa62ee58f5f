// Interactive: `forebay sub --interactive`. A person grants credit with keys and sees waiting and dropped messages.
//
// A subscription needs at least one credit to begin, so it begins with 1, or with --request. Only the broker knows the
// numbers of waiting and dropped messages: its list of subscriptions is read on the same connection, and our own
// subscription is found by topic and address.

import Bytes
import Client
import EventLoop
import Glibc

struct Interactive: ~Copyable {
    private let settings: SubscribeSettings
    private var session: Session
    private var reconnection: Reconnection
    private var position: TopicPosition
    /// Whether no message has arrived since the connection was lost.
    private var isBack = false
    /// Messages that arrived and used up credit, whether shown or not.
    private var taken: UInt64 = 0
    private var output: Output
    private var state: ViewState
    private var stream: StreamID
    private var flowing = FlowingDemand()

    private var listStream: StreamID?
    private var listBegan: UInt64 = 0
    private var nextList: UInt64 = 0
    /// Drops reported with messages, used until the broker's list is available; and drops on earlier connections.
    private var droppedReported: UInt64 = 0
    private var droppedBefore: UInt64 = 0
    private var hasList = false

    private var rateSince: (time: UInt64, delivered: UInt64)
    private var picture = Picture()
    private var isInEscape = false
    private var failure: ClientError?

    private static let rateInterval: UInt64 = 1_000_000_000
    private static let listInterval: UInt64 = 500_000_000
    /// The bytes of a message that can appear on the screen.
    private static let textLimit = 1024

    init(
        _ settings: SubscribeSettings, _ reconnection: consuming Reconnection
    ) throws(ClientError) {
        let session = try reconnection.begin(signals: [SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP, SIGCONT])
        let first = settings.request ?? 1
        let stream = try session.connection.subscribe(settings.topic, settings.options, n: first)
        try reconnection.greet(session)
        self.stream = stream
        self.reconnection = reconnection
        position = TopicPosition(settings.options.start)
        state = ViewState(topic: settings.topic, address: "\(session.address)")
        self.session = session
        self.settings = settings
        output = Output()
        state.granted = UInt64(first)
        state.note = "Started with a credit of \(first). Keys grant more."
        rateSince = (Clock.monotonic(), 0)
    }

    mutating func run() throws(ClientError) -> Int32 {
        var terminal = Terminal()
        var isLeft = false
        while !isLeft {
            do throws(ClientError) {
                isLeft = try !turn(&terminal)
            } catch {
                // Once the subscription has ended, a lost connection is not restored.
                guard state.status == .live else { throw error }
                isLeft = try !reconnect(after: error, &terminal)
            }
        }
        terminal.giveBack()
        session.connection.cancel(stream)
        session.finish()
        if let failure {
            notify(Program.sentence(failure))
            return ExitCode.of(failure)
        }
        return ExitCode.done
    }

    /// Runs one turn. Returns false if the user wants to quit, or the terminal is gone.
    private mutating func turn(_ terminal: inout Terminal) throws(ClientError) -> Bool {
        while let event = try session.next() { try handle(event) }
        let now = Clock.monotonic()
        reconnection.report(now: now)
        showNote()
        flow(now)
        try list(now)
        measure(now)
        draw(now)
        var wants = Session.Wants()
        wants.input = true
        wants.output = !output.isEmpty
        wants.outputGone = true
        wants.until = min(picture.due, rateSince.time + Self.rateInterval, nextList, reconnection.reportDue)
        return obey(try session.wait(wants), &terminal)
    }

    private mutating func draw(_ now: UInt64) {
        picture.draw(now, to: &output) { [state] in View.render(state, width: $0, height: $1) }
    }

    private mutating func obey(_ woken: Session.Woken, _ terminal: inout Terminal) -> Bool {
        if woken.outputGone || woken.input && !readKeys() { return false }
        guard let signal = woken.signal else { return true }
        if [SIGINT, SIGTERM, SIGHUP].contains(signal) { return false }
        picture.obey(signal, &terminal)
        return true
    }

    // MARK: Another connection

    /// Reconnects and resumes the subscription. Returns false if the user wants to quit.
    private mutating func reconnect(
        after error: ClientError, _ terminal: inout Terminal
    ) throws(ClientError) -> Bool {
        // Credit that was granted and not used is granted again.
        let left = UInt32(min(state.granted - taken, UInt64(CreditWindow.unbounded)))
        state.status = .lost
        listStream = nil
        var error = error
        while true {
            reconnection.lose(error)
            let due = try reconnection.pause(after: error)
            showNote()
            while Clock.monotonic() < due {
                let now = Clock.monotonic()
                draw(now)
                // Periodically retries output that the terminal has not accepted.
                let next = min(due, output.isEmpty ? picture.due : now + 50_000_000)
                guard obey(session.rest(until: next, input: true), &terminal) else { return false }
            }
            do throws(ClientError) {
                try reconnection.attempt(&session)
                try subscribe(asking: left)
                return true
            } catch let other {
                error = other
            }
        }
    }

    private mutating func subscribe(asking left: UInt32) throws(ClientError) {
        position.lost()
        isBack = true
        var options = settings.options
        options.start = position.start
        // The next message will report what is missing.
        options.gap = .tell
        // A subscription cannot begin without credit.
        let n = max(1, left)
        stream = try session.connection.subscribe(settings.topic, options, n: n)
        try reconnection.greet(session)
        state.granted += UInt64(n - left)
        flowing = FlowingDemand()
        (droppedReported, droppedBefore, hasList) = (state.dropped, state.dropped, false)
        state.status = .live
        nextList = 0
    }

    private mutating func showNote() {
        guard let note = reconnection.takeNote() else { return }
        state.note = note
        picture.isDirty = true
    }

    // MARK: The broker

    private mutating func handle(_ event: ClientEvent) throws(ClientError) {
        switch event {
        case .message(listStream, let message): readRow(message.data)
        case .opened(stream, let opening):
            position.opened(opening)
            state.note = "The subscription begins with #\(opening.next) of epoch \(opening.epoch)."
        case .message(stream, let message):
            reconnection.works()
            taken += 1
            show(message)
        case .pong:
            reconnection.answered(by: session.address)
            state.address = "\(session.address)"
        case .completed(listStream, _, _):
            reconnection.works()
            endList()
        case .failed(listStream, _): endList()
        case .completed(stream, let dropped, _):
            droppedReported += dropped
            state.status = .completed
            state.isFlowing = false
            state.note = "The topic has completed; there are no more messages."
        case .failed(stream, let error) where reconnection.isLoss(error): throw error
        case .failed(stream, let error):
            failure = error
            state.status = .failed(error.message)
            state.isFlowing = false
            state.note = SafeText.line(Program.sentence(error))
        case .closing(let why): state.note = "The broker is closing the connection: \(SafeText.line(why))"
        default: return
        }
        picture.isDirty = true
    }

    private mutating func show(_ message: ClientEvent.Message) {
        let info = message.info
        if let info {
            let arrival = position.receive(epoch: info.epoch, sequence: info.sequence, dropped: info.dropped)
            if arrival == .again { return }
            if isBack, let sentence = arrival.sentence(info) { state.note = sentence }
            isBack = false
        }
        let text = SafeText.line(message.data.slice(0..<min(message.data.count, Self.textLimit)))
        let clock = MessageFormat.clock(info?.timestamp ?? Clock.wall())
        state.messages.append(.init(sequence: info?.sequence, clock: clock, text: text, dropped: info?.dropped ?? 0))
        if state.messages.count > 2 * View.messageLimit {
            state.messages.removeFirst(state.messages.count - View.messageLimit)
        }
        state.delivered += 1
        droppedReported += info?.dropped ?? 0
        if !hasList { state.dropped = droppedReported }
    }

    /// Requests the list of subscriptions half a second after the last one, or later if that took a long time.
    private mutating func list(_ now: UInt64) throws(ClientError) {
        guard listStream == nil, now >= nextList, state.status == .live else {
            if listStream == nil, state.status != .live { nextList = UInt64.max }
            return
        }
        listStream = try session.connection.list(.subscriptions, n: CreditWindow.unbounded)
        listBegan = now
        nextList = UInt64.max
    }

    private mutating func endList() {
        listStream = nil
        let now = Clock.monotonic()
        nextList = now + max(Self.listInterval, 20 * (now - listBegan))
    }

    private mutating func readRow(_ data: UnsafeRawBufferPointer) {
        guard let row = JSON(data), row["peer"]?.text == session.localAddress, row["topic"]?.text == settings.topic
        else {
            return
        }
        hasList = true
        state.waiting = row["waiting"]?.unsigned
        state.buffer = row["buffer"]?.unsigned
        state.policy = row["policy"]?.text.map(SafeText.line)
        state.dropped = row["dropped"]?.unsigned.map { droppedBefore &+ $0 } ?? state.dropped
    }

    private mutating func flow(_ now: UInt64) {
        if state.isFlowing {
            let n = flowing.refill(outstanding: session.connection.outstanding(on: stream), now: now)
            if n > 0 { grant(n) }
        }
        state.credit = UInt64(session.connection.outstanding(on: stream))
    }

    private mutating func grant(_ n: UInt32) {
        session.connection.requestN(stream, n)
        state.granted += UInt64(n)
        picture.isDirty = true
    }

    private mutating func measure(_ now: UInt64) {
        let gone = now - rateSince.time
        guard gone >= Self.rateInterval else { return }
        let rate = Double(state.delivered - rateSince.delivered) * 1e9 / Double(gone)
        rateSince = (now, state.delivered)
        if rate != state.rate { picture.isDirty = true }
        state.rate = rate
    }

    // MARK: The person

    /// Handles the keys pressed. Returns false if the user wants to quit, or the terminal is gone.
    private mutating func readKeys() -> Bool {
        var keys = [UInt8](repeating: 0, count: 64)
        let count = read(0, &keys, keys.count)
        if count < 0 { return errno == EAGAIN || errno == EINTR }
        if count == 0 { return false }
        for key in keys.prefix(count) where !press(key) { return false }
        picture.isDirty = true
        return true
    }

    private mutating func press(_ key: UInt8) -> Bool {
        // An arrow or function key is ESC, then [ or O, then characters up to a letter: they are all ignored.
        if isInEscape {
            if (0x40...0x7e).contains(key), key != UInt8(ascii: "["), key != UInt8(ascii: "O") { isInEscape = false }
            return true
        }
        if key == 0x1b {
            isInEscape = true
            return true
        }
        if key == UInt8(ascii: "q") || key == 3 || key == 4 { return false }
        guard state.status == .live else { return true }
        switch key {
        case UInt8(ascii: "1"): grantByKey(1)
        case UInt8(ascii: "0"): grantByKey(10)
        case UInt8(ascii: "c"): grantByKey(100)
        case UInt8(ascii: "a"):
            state.isFlowing = true
            state.note = "All: credit is renewed in small amounts as it is used, so that p can stop it."
        case UInt8(ascii: "p"):
            state.isFlowing = false
            let left = session.connection.outstanding(on: stream)
            state.note =
                left == 0
                ? "Paused. No credit is left, so the broker sends nothing."
                : "Paused. Granted credit cannot be revoked; \(left) more may still arrive."
        default: break
        }
        return true
    }

    private mutating func grantByKey(_ n: UInt32) {
        grant(n)
        state.note = n == 1 ? "Granted 1 more." : "Granted \(n) more."
    }
}

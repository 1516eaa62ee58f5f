// Top: `forebay top`. Reads the broker's lists one after another, about once a second; statistics are pushed by the
// broker. Everything uses one connection, over any protocol.

import Bytes
import Client
import EventLoop
import ForebayWire
import Glibc

struct Top: ~Copyable {
    private var session: Session
    private var reconnection: Reconnection
    private var output: Output
    private var state: TopState
    private let interval: UInt64
    /// Whether to print a single picture and exit.
    private let once: Bool

    /// Which lists the user may see only in part.
    private let visibilityNote: String
    private var stats: StreamID?
    private var topics: StreamID?
    private var subscriptions: StreamID?
    private var nextLook: UInt64 = 0
    private var began: UInt64 = 0
    private var looks = 0
    /// Whether a list was refused. A broker that is shutting down refuses lists, and then closes the connection.
    private var isRefused = false
    private var picture = Picture()
    /// The bytes received so far of an arrow or function key, which begin with ESC.
    private var escape: [UInt8] = []
    private let json: Bool

    /// Used when a single picture is printed: rates need two samples.
    private static let onceInterval: UInt64 = 500_000_000
    /// The width of a single picture: `COLUMNS`, if that is wide enough.
    private static var onceWidth: Int {
        let columns = getenv("COLUMNS").flatMap { Int(String(cString: $0)) } ?? 0
        return (40...1000).contains(columns) ? columns : 160
    }
    /// Nanoseconds between two statistics of the broker.
    private static let statsInterval: UInt64 = 1_000_000_000
    /// Nanoseconds after which a refused list is requested again.
    private static let refusalPause: UInt64 = 2_000_000_000

    init(_ arguments: Arguments, _ reconnection: consuming Reconnection) throws {
        let once = arguments.has("once")
        if !once { try Terminal.check(for: "'forebay top' without --once") }
        var session = try reconnection.begin(signals: [SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP, SIGCONT])
        var state = TopState(address: "\(session.address)")
        if let visibility = try session.askVisibility() {
            // Without this error, the screen would look like a broker without clients.
            if !visibility.covers(.topics), !visibility.covers(.subscriptions) {
                throw ClientError(.rejected, visibility.refusal(.subscriptions))
            }
            if let list = [BrokerList.topics, .subscriptions].first(where: { !visibility.covers($0) }) {
                state.note = visibility.refusal(list)
            }
        }
        if let text = arguments.text("sort"), let order = TopOrder.allCases.first(where: { $0.name == text }) {
            state.order = order
        }
        let stats = try Self.subscribe(session)
        try reconnection.greet(session)
        visibilityNote = state.note
        self.stats = stats
        self.session = session
        self.reconnection = reconnection
        self.state = state
        self.once = once
        json = arguments.has("json")
        interval = UInt64((arguments.decimal("interval") ?? 1) * 1e9)
        output = Output()
    }

    private static func subscribe(_ session: borrowing Session) throws(ClientError) -> StreamID {
        var options = SubscribeOptions()
        options.overflow = .latest
        options.start = .last(1)
        return try session.connection.subscribe("$SYS.stats", options, n: CreditWindow.unbounded)
    }

    mutating func run() throws(ClientError) -> Int32 {
        if once { return try printOnce() }
        var terminal = Terminal()
        var isLeft = false
        while !isLeft {
            do throws(ClientError) {
                isLeft = try !turn(&terminal)
            } catch {
                isLeft = try !reconnect(after: error, &terminal)
            }
        }
        terminal.giveBack()
        session.finish()
        return ExitCode.done
    }

    /// Runs one turn. Returns false if the user wants to quit, or the terminal is gone.
    private mutating func turn(_ terminal: inout Terminal) throws(ClientError) -> Bool {
        while let event = try session.next() { try handle(event) }
        let now = Clock.monotonic()
        reconnection.report(now: now)
        showNote()
        try look(now)
        draw(now)
        var wants = Session.Wants()
        wants.input = true
        wants.output = !output.isEmpty
        wants.outputGone = true
        let nextLook = isLooking || state.isPaused ? UInt64.max : nextLook
        wants.until = min(picture.due, nextLook, reconnection.reportDue)
        return obey(try session.wait(wants), &terminal)
    }

    private mutating func draw(_ now: UInt64) {
        picture.draw(now, to: &output) { [state] in TopView.render(state, width: $0, height: $1) }
    }

    private mutating func obey(_ woken: Session.Woken, _ terminal: inout Terminal) -> Bool {
        if woken.outputGone || woken.input && !readKeys() { return false }
        guard let signal = woken.signal else { return true }
        if [SIGINT, SIGTERM, SIGHUP].contains(signal) { return false }
        picture.obey(signal, &terminal)
        return true
    }

    /// Reconnects and starts again. Returns false if the user wants to quit.
    private mutating func reconnect(
        after error: ClientError, _ terminal: inout Terminal
    ) throws(ClientError) -> Bool {
        var error = error
        (topics, subscriptions, stats, isRefused) = (nil, nil, nil, false)
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
                stats = try Self.subscribe(session)
                try reconnection.greet(session)
                nextLook = 0
                return true
            } catch let other {
                error = other
            }
        }
    }

    private mutating func showNote() {
        guard let note = reconnection.takeNote() else { return }
        state.note = [note, visibilityNote].filter { !$0.isEmpty }.joined(separator: " ")
        picture.isDirty = true
    }

    private mutating func printOnce() throws(ClientError) -> Int32 {
        while looks < 2 || isLooking || state.stats == nil {
            while let event = try session.next() { try handle(event) }
            try look(Clock.monotonic())
            var wants = Session.Wants()
            wants.until = isLooking ? UInt64.max : nextLook
            if try session.wait(wants).signal != nil { return ExitCode.done }
        }
        session.finish()
        if json {
            output.buffer.append(state.json.encoded + "\n")
            return output.finish()
        }
        let rows = min(state.topics.count, TopState.most) + min(state.subscriptions.count, TopState.most) + 8
        let lines = TopView.render(state, width: Self.onceWidth, height: rows)
        for line in lines.dropLast() {
            let end = line.text.lastIndex { $0 != " " }.map { line.text.index(after: $0) } ?? line.text.startIndex
            output.buffer.append(line.text[..<end] + "\n")
        }
        return output.finish()
    }

    // MARK: The broker

    private var isLooking: Bool { topics != nil || subscriptions != nil }

    /// Reads the lists again when due. The interval is longer if reading took a long time, so that a broker with very
    /// many entries is not queried constantly.
    private mutating func look(_ now: UInt64) throws(ClientError) {
        guard !isLooking, now >= nextLook, !state.isPaused else { return }
        began = now
        state.beginTopics()
        topics = try session.connection.list(.topics, n: CreditWindow.unbounded)
    }

    private mutating func handle(_ event: ClientEvent) throws(ClientError) {
        switch event {
        case .message(stats, let message):
            reconnection.works()
            let now = Clock.monotonic()
            if let figures = JSON(message.data) { state.take(stats: figures, now: now) }
            // The rates of topics then cover the same second as those of the broker.
            if !once, nextLook < now + min(interval, Self.statsInterval) * 9 / 10 { nextLook = min(nextLook, now) }
        case .message(topics, let message):
            if let row = JSON(message.data) { state.add(topic: TopTopic(row)) }
            return
        case .message(subscriptions, let message):
            if let row = JSON(message.data) { state.add(subscription: TopSubscription(row)) }
            return
        case .completed(topics, _, _):
            reconnection.works()
            topics = nil
            state.endTopics(now: Clock.monotonic())
            state.beginSubscriptions()
            subscriptions = try session.connection.list(.subscriptions, n: CreditWindow.unbounded)
        case .completed(subscriptions, _, _):
            subscriptions = nil
            let now = Clock.monotonic()
            state.endSubscriptions(now: now)
            looks += 1
            isRefused = false
            let pause = once ? Self.onceInterval : interval
            nextLook = max(began + pause, now + 10 * (now - began))
        case .failed(topics, let error), .failed(subscriptions, let error):
            // A single refusal after lists were read is tolerated: the connection may be about to end anyway.
            guard looks > 0, reconnection.isOn, !isRefused else { throw error }
            isRefused = true
            (topics, subscriptions) = (nil, nil)
            nextLook = Clock.monotonic() + max(interval, Self.refusalPause)
        case .failed(stats, let error): throw error
        case .pong:
            reconnection.answered(by: session.address)
            state.address = "\(session.address)"
        case .closing(let why): state.note = "The broker is closing the connection: \(SafeText.line(why))"
        default: return
        }
        picture.isDirty = true
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
        if !escape.isEmpty {
            escape.append(key)
            // An arrow or function key is ESC, then [ or O, then characters up to a letter or ~.
            if (0x40...0x7e).contains(key), escape.count > 2 || key != UInt8(ascii: "[") && key != UInt8(ascii: "O") {
                scroll(String(decoding: escape.dropFirst(2), as: UTF8.self))
                escape = []
            }
            return true
        }
        switch key {
        case 0x1b: escape = [key]
        case UInt8(ascii: "\t"): state.scrolled = state.scrolled == .topics ? .subscriptions : .topics
        case UInt8(ascii: "k"): scroll("A")
        case UInt8(ascii: "j"): scroll("B")
        case UInt8(ascii: "q"), 3, 4: return false
        case UInt8(ascii: " "), UInt8(ascii: "p"): state.isPaused.toggle()
        case UInt8(ascii: "r"):
            state.isReversed.toggle()
            lookAgain()
        default:
            guard let order = TopOrder(rawValue: Character(Unicode.Scalar(key))) else { return true }
            state.order = order
            state.isReversed = false
            lookAgain()
        }
        return true
    }

    /// - Parameter key: what terminals send for an arrow or a page key after the escape.
    private mutating func scroll(_ key: String) {
        let height = Terminal.size().height
        let rooms = TopView.rooms(state, height: height)
        let page = max(1, (state.scrolled == .topics ? rooms.topics : rooms.subscriptions) - 1)
        let (first, last) = (-TopState.most, TopState.most)
        let rows = [
            "A": -1, "B": 1, "5~": -page, "6~": page,
            // Home and End, for which terminals use three encodings.
            "H": first, "1~": first, "7~": first, "F": last, "4~": last, "8~": last,
        ]
        if let count = rows[key] { state.scroll(by: count, rooms) }
    }

    /// Reads the lists again soon, because a different order may bring up rows that were not kept.
    private mutating func lookAgain() {
        state.sort()
        nextLook = 0
    }
}

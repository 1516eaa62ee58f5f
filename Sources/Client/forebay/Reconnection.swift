// Reconnection: when and where a command reconnects after losing its connection, and what it reports meanwhile.

import Bytes
import Client
import EventLoop
import ForebayWire

/// How a long-running command keeps its connection to one of several brokers.
struct Reconnection {
    /// What ended a wait for a connection.
    enum Outcome {
        case connected
        case signal(Int32)
        /// The reader of the output is gone.
        case outputGone
    }

    private var brokers: Brokers
    /// Whether the command continues after losing its connection.
    let isOn: Bool
    /// Nanoseconds without a connection after which the command gives up; nil for never.
    private let limit: UInt64?
    private var backoff = Backoff(first: 100_000_000, longest: 10_000_000_000)
    private var random = SystemRandomNumberGenerator()
    /// Whether a connection has worked once. Until then, each broker is tried once.
    private var isServed = false
    /// When the broker answered on this connection, and whether it has done more than that.
    private var answeredAt: UInt64?
    private var hasWorked = false
    /// The broker of a new connection, until it is reported.
    private var unreported: BrokerAddress?
    /// When the connection was lost, while there is none.
    private var lostAt: UInt64?
    /// The last reason that was reported for having no connection.
    private var reported: String?
    /// Sentences to add to the report of the next connection after a lost one, each after a space.
    var remark = ""
    /// For a full-screen view: what it shows next instead of a line on stderr.
    private var note: String?

    /// How long an idle connection must last to count as a success, in nanoseconds.
    private static let leastTime: UInt64 = 1_000_000_000

    static let options: [OptionSpec] = [
        OptionSpec(
            name: "no-reconnect", kind: .flag, help: "exit when the connection is lost, instead of reconnecting"),
        OptionSpec(
            name: "reconnect-time", value: "SECONDS", kind: .decimal(0...31_536_000),
            help: "exit after SECONDS without a connection; default: never"),
    ]

    /// - Parameter hasPicture: whether reports go to `note` instead of stderr.
    init(_ arguments: Arguments, _ addresses: [BrokerAddress], hasPicture: Bool = false) throws(UsageError) {
        if arguments.has("no-reconnect"), arguments.has("reconnect-time") {
            throw UsageError("--no-reconnect and --reconnect-time are mutually exclusive.")
        }
        brokers = Brokers(addresses)
        note = hasPicture ? "" : nil
        isOn = !arguments.has("no-reconnect")
        limit = arguments.decimal("reconnect-time").map { UInt64($0 * 1e9) }
    }

    /// Connects for the first time, to the first broker that answers.
    mutating func begin(signals: [Int32]) throws(ClientError) -> Session { try Session(to: &brokers, signals: signals) }

    /// Asks the broker for a keepalive response.
    func greet(_ session: borrowing Session) throws(ClientError) {
        if isOn { try session.connection.ping(UnsafeRawBufferPointer(start: nil, count: 0), now: Clock.monotonic()) }
    }

    /// Notes that the broker has responded.
    mutating func answered(by address: BrokerAddress) {
        guard answeredAt == nil else { return }
        if lostAt != nil { unreported = address }
        answeredAt = Clock.monotonic()
    }

    /// Notes that the broker does what was requested.
    mutating func works() {
        hasWorked = true
        if unreported != nil { report(now: Clock.monotonic()) }
    }

    /// Notes that the broker refused what was requested, and that something else is requested with another remark.
    mutating func refused() { answeredAt = nil }

    /// When to call `report`, on the monotonic clock; `UInt64.max` for never.
    var reportDue: UInt64 {
        guard unreported != nil, let answeredAt else { return .max }
        return hasWorked ? answeredAt : answeredAt.addingClamped(Self.leastTime)
    }

    /// Reports a new connection once it has worked or lasted: a broker that answers may refuse what was requested.
    mutating func report(now: UInt64) {
        guard let address = unreported, now >= reportDue else { return }
        unreported = nil
        show(isServed ? "Reconnected to \(address).\(remark)" : "Connected to \(address).")
    }

    /// Notes that the connection was lost. One that had only just begun does not count as a success: the pauses keep
    /// growing.
    mutating func lose(_ error: ClientError) {
        let hasLasted = hasWorked || answeredAt.map { Clock.monotonic() - $0 >= Self.leastTime } ?? false
        if hasLasted || answeredAt != nil && error.endsConnection { isServed = true }
        if hasLasted {
            backoff.reset()
            brokers.succeed()
            lostAt = nil
            reported = nil
        }
        answeredAt = nil
        hasWorked = false
        unreported = nil
    }

    /// Reconnects after `error`, in as many attempts as needed.
    /// - Throws: `error`, or the error of the last attempt, if retrying is pointless.
    mutating func connect(_ session: inout Session, after error: ClientError) throws(ClientError) -> Outcome {
        var error = error
        lose(error)
        while true {
            let due = try pause(after: error)
            while Clock.monotonic() < due {
                let woken = session.rest(until: due)
                if let signal = woken.signal { return .signal(signal) }
                if woken.outputGone { return .outputGone }
            }
            do throws(ClientError) {
                try attempt(&session)
                return .connected
            } catch let other {
                error = other
            }
        }
    }

    /// When to try the next broker, on the monotonic clock: at once, unless all have failed. Call `lose` first.
    /// - Throws: the errors of the last attempts, if retrying is pointless.
    mutating func pause(after error: ClientError) throws(ClientError) -> UInt64 {
        guard isOn, Self.mayPass(error) || Self.concernsOne(error) else { throw error }
        let now = Clock.monotonic()
        let since = lostAt ?? now
        let end = limit.map { since.addingClamped($0) } ?? .max
        let address = brokers.current
        let isAtOnce = brokers.fail(error)
        guard now < end else { throw brokers.failure }
        defer { lostAt = since }
        if isAtOnce {
            // If the next ones fail as well, all are reported together.
            if lostAt == nil { reportLoss(ClientError(error.code, brokers.message(of: error, at: address))) }
            return now
        }
        guard isServed, brokers.errors.contains(where: Self.mayPass), let pause = backoff.next(using: &random) else {
            throw brokers.failure
        }
        reportLoss(brokers.failure)
        return min(now.addingClamped(pause), end)
    }

    /// Makes one attempt, at the next broker.
    mutating func attempt(_ session: inout Session) throws(ClientError) { try session.reconnect(to: brokers.current) }

    /// Whether a stream that ended with `error` can continue on another connection.
    func isLoss(_ error: ClientError) -> Bool { isOn && Self.mayPass(error) }

    /// Whether a retry may succeed.
    private static func mayPass(_ error: ClientError) -> Bool {
        switch error.code {
        case .unavailable: true
        case .badURL, .badCredentials, .badFile, .untrusted, .wrongHost, .outdated: false
        default: error.endsConnection && !error.refusesCredentials
        }
    }

    /// Whether only this broker is unusable, by its address or its certificate.
    private static func concernsOne(_ error: ClientError) -> Bool {
        [.badURL, .untrusted, .wrongHost, .outdated].contains(error.code)
    }

    private mutating func reportLoss(_ error: ClientError) {
        let sentence = Program.sentence(error)
        guard sentence != reported else { return }
        let next = reported == nil ? " Reconnecting." : " Trying again."
        show(sentence + (isServed ? next : " Trying the next broker."))
        reported = sentence
    }

    /// What the screen should show; nil if nothing is new.
    mutating func takeNote() -> String? {
        guard let note, !note.isEmpty else { return nil }
        self.note = ""
        return note
    }

    private mutating func show(_ sentence: String) {
        if note == nil { notify(sentence) } else { note = SafeText.line(sentence) }
    }
}

extension EndNotice {
    /// The notice for a person.
    var sentence: String {
        let loss = dropped > 0 ? " \(counted(dropped, "message")) dropped before the end." : ""
        guard let failure else { return "The topic \(topic) completed.\(loss)" }
        return "\(topic): \(failure).\(loss)"
    }
}

extension TopicPosition.Arrival {
    /// What a message reveals; nil if nothing is missing. With a pattern, the sentence names the topic.
    func sentence(_ info: MessageInfo) -> String? {
        let place = info.topic.map { " of \($0)" } ?? ""
        return switch self {
        case .next, .again: nil
        case .behind(let lost?): "\(counted(lost, "message")) lost before #\(info.sequence)\(place)."
        case .behind(nil), .uncertain: "Messages may have been lost before #\(info.sequence)\(place)."
        case .restarted:
            "epoch \(info.epoch)\(place): the topic restarted; this is its #\(info.sequence), and the rest of the "
                + "previous epoch is lost."
        }
    }
}

// Control: `topic info|complete|fail|delete`, the lists, and single requests with their responses.

import Bytes
import Client
import ForebayWire
import Glibc

/// The commands that consist of one request and one response.
struct Control {
    private let command: Command
    private let name: String
    private let call: ControlCall
    private let json: Bool

    init(_ command: Command, _ arguments: Arguments) throws(UsageError) {
        self.command = command
        name = arguments.operands[0]
        json = arguments.has("json")
        call =
            switch command {
            case .topicComplete: .completeTopic(name)
            case .topicFail: .failTopic(name, message: arguments.text("message"))
            case .topicDelete: .deleteTopic(name)
            case .closeConnection: .closeConnection(name)
            case .closeSubscription: .closeSubscription(try Control.number(name))
            default: .topicInfo(name)
            }
        switch command {
        case .closeConnection:
            let parts = name.split(separator: "-", omittingEmptySubsequences: false)
            if parts.count != 3 || parts.contains(where: { UInt32($0) == nil }) {
                throw UsageError("'\(name)' is not a connection id; 'forebay conns' lists the connections.")
            }
        case .closeSubscription: break
        default: try SubscribeSettings.check(topic: name)
        }
    }

    private static func number(_ text: String) throws(UsageError) -> UInt64 {
        guard let number = UInt64(text) else {
            throw UsageError("'\(text)' is not a subscription id; 'forebay subs' lists the subscriptions.")
        }
        return number
    }

    private var outcome: String {
        switch command {
        case .topicComplete: "completed"
        case .topicFail: "failed"
        case .closeConnection: "closed"
        case .closeSubscription: "ended"
        default: "deleted"
        }
    }

    func run(_ addresses: [BrokerAddress]) throws(ClientError) -> Int32 {
        try Session.run(addresses, signals: [SIGINT, SIGTERM, SIGHUP]) { (session) throws(ClientError) in
            try run(on: &session)
        }
    }

    private func run(on session: inout Session) throws(ClientError) -> Int32 {
        guard let answer = try session.ask(call) else { return ExitCode.done }
        session.finish()
        var output = Output()
        if json {
            output.buffer.append(answer)
            output.buffer.append("\n")
        } else if command == .topicInfo {
            output.buffer.append(JSON(answer).flatMap(Table.details) ?? SafeText.line(answer) + "\n")
        } else {
            output.buffer.append("\(SafeText.line(name)) is \(outcome)\n")
        }
        return output.finish()
    }
}

extension Session {
    /// Makes a call and returns its response; nil if a signal arrived first.
    mutating func ask(_ call: ControlCall) throws(ClientError) -> String? {
        let id = try connection.call(call)
        var answer = ""
        let signal = try waitForEnd(of: id) {
            if case .message(_, let message) = $0 { answer = String(decoding: message.data, as: UTF8.self) }
        }
        return signal == nil ? answer : nil
    }

    /// Passes on what arrives on a stream until its end. Returns a signal that arrived before that.
    mutating func waitForEnd(of id: StreamID, _ take: (ClientEvent) -> Void) throws(ClientError) -> Int32? {
        while true {
            while let event = try next() {
                switch event {
                case .message(id, _), .acknowledged(id, _): take(event)
                case .completed(id, _, _): return nil
                case .failed(id, let error): throw error
                default: break
                }
            }
            if let signal = try wait(Wants()).signal { return signal }
        }
    }
}

/// `topics`, `subs`, `conns`: a stream of JSON objects, shown as a table.
struct ListRequest {
    private let kind: BrokerList
    private let json: Bool
    /// Whether to include columns about the broker's internals.
    private let isWide: Bool
    /// Rows aligned with each other. More rows start another table, so that a million rows need no memory.
    private static let page = 1000
    private static let batch: UInt32 = 512

    init(_ kind: BrokerList, _ arguments: Arguments) {
        self.kind = kind
        json = arguments.has("json")
        isWide = arguments.has("wide")
    }

    private var columns: [Column] {
        switch kind {
        case .topics: Table.topics
        case .subscriptions: Table.subscriptions
        case .connections: isWide ? Table.connections + Table.wideConnections : Table.connections
        }
    }

    func run(_ addresses: [BrokerAddress]) throws(ClientError) -> Int32 {
        try Session.run(addresses, signals: [SIGINT, SIGTERM, SIGHUP]) { (session) throws(ClientError) in
            try run(on: &session)
        }
    }

    private func run(on session: inout Session) throws(ClientError) -> Int32 {
        var output = Output()
        var creditWindow = CreditWindow(batch: Self.batch)
        var rows: [JSON] = []
        var hasPrinted = false
        var isEmpty = true
        let id = try session.connection.list(kind, n: creditWindow.first())
        while true {
            var used: UInt64 = 0
            while let event = try session.next() {
                switch event {
                case .message(id, let message):
                    used += 1
                    isEmpty = false
                    if json {
                        output.buffer.append(message.data)
                        output.buffer.append("\n")
                    } else {
                        rows.append(JSON(message.data) ?? .null)
                    }
                case .completed(id, _, _):
                    guard let visibility = try session.askVisibility() else { return ExitCode.done }
                    if isEmpty, !visibility.covers(kind) { throw ClientError(.rejected, visibility.refusal(kind)) }
                    if !json, !rows.isEmpty || !hasPrinted { print(&rows, &output) }
                    if !visibility.covers(kind) { notify(visibility.note(kind)) }
                    session.finish()
                    return output.finish()
                case .failed(id, let error): throw error
                default: break
                }
                if rows.count == Self.page {
                    print(&rows, &output)
                    hasPrinted = true
                }
            }
            output.drain()
            if !output.isUsable { return output.finish() }
            let n = creditWindow.use(used)
            if n > 0 { session.connection.requestN(id, n) }
            if try session.wait(Session.Wants()).signal != nil { return ExitCode.done }
        }
    }

    /// For rows of the same topic, the older subscription comes first.
    static func precedes(_ one: JSON, _ other: JSON, by field: String) -> Bool {
        (one[field]?.text ?? "", one["id"]?.unsigned ?? 0) < (other[field]?.text ?? "", other["id"]?.unsigned ?? 0)
    }

    /// Prints a page of rows. The broker's shards list their rows one after another; in a table they are sorted by
    /// topic.
    private func print(_ rows: inout [JSON], _ output: inout Output) {
        if kind != .connections {
            let field = kind == .topics ? "name" : "topic"
            rows.sort { Self.precedes($0, $1, by: field) }
        }
        output.buffer.append(Table.render(columns, rows))
        rows.removeAll(keepingCapacity: true)
    }
}

// Control: `topic info|complete|fail|delete`, the tables, and one request with its answer.

import Bytes
import Client
import Glibc

/// The topic commands that are one question and one answer.
struct Control {
    private let command: Command
    private let name: String
    private let route: Route
    private let json: Bool

    init(_ command: Command, _ arguments: Arguments) throws(UsageError) {
        self.command = command
        name = arguments.operands[0]
        json = arguments.has("json")
        var options = [(name: "name", value: name)]
        let call: String
        switch command {
        case .topicComplete: call = "$SYS.topic.complete"
        case .topicFail:
            call = "$SYS.topic.fail"
            if let message = arguments.text("message") { options.append(("message", message)) }
        case .topicDelete: call = "$SYS.topic.delete"
        default: call = "$SYS.topic.info"
        }
        if name.isEmpty { throw UsageError("The topic's name is empty: give one like host.vmstat.") }
        route = Route(call, options: options)
        if route.tags == nil {
            throw UsageError("The name and the message must each fit into \(Route.tagLimit) bytes, percent-encoded.")
        }
    }

    func run(_ address: BrokerAddress) throws(ClientError) -> Int32 {
        var session = try Session(to: address, signals: [SIGINT, SIGTERM, SIGHUP])
        guard let answer = try session.ask(route) else { return ExitCode.done }
        session.finish()
        var output = Output()
        if json {
            output.buffer.append(answer)
            output.buffer.append("\n")
        } else if command == .topicInfo {
            output.buffer.append(JSON(answer).flatMap(Table.details) ?? SafeText.line(answer) + "\n")
        } else {
            let what = command == .topicComplete ? "completed" : command == .topicFail ? "failed" : "deleted"
            output.buffer.append("\(SafeText.line(name)) is \(what)\n")
        }
        output.drain()
        return ExitCode.done
    }
}

extension Session {
    /// One REQUEST_RESPONSE and its answer as text; nil when a signal came before it.
    mutating func ask(_ route: Route, data: String = "") throws(ClientError) -> String? {
        var bytes = ByteBuffer()
        bytes.append(data)
        let id = try connection.request(route, data: bytes.readable)
        var answer = ""
        while true {
            while let event = try next() {
                switch event {
                case .message(id, let message): answer = String(decoding: message.data, as: UTF8.self)
                case .completed(id, _): return answer
                case .failed(id, let error): throw error
                default: break
                }
            }
            if try wait(Wants()).signal != nil { return nil }
        }
    }
}

/// `topics`, `subs`, `conns`: a stream of JSON objects as a table.
struct Listing {
    enum Kind {
        case topics, subscriptions, connections
    }

    private let kind: Kind
    private let json: Bool
    /// Rows that are aligned with each other; more are further tables, so that a million rows need no memory.
    private static let page = 1000
    private static let batch: UInt32 = 512

    init(_ kind: Kind, json: Bool) {
        self.kind = kind
        self.json = json
    }

    private var call: String {
        switch kind {
        case .topics: "$SYS.topics"
        case .subscriptions: "$SYS.subscriptions"
        case .connections: "$SYS.connections"
        }
    }

    private var columns: [Column] {
        switch kind {
        case .topics: Table.topics
        case .subscriptions: Table.subscriptions
        case .connections: Table.connections
        }
    }

    func run(_ address: BrokerAddress) throws(ClientError) -> Int32 {
        var session = try Session(to: address, signals: [SIGINT, SIGTERM, SIGHUP])
        var output = Output()
        var refill = Refill(batch: Self.batch)
        var rows: [JSON] = []
        var hasPrinted = false
        let id = try session.connection.requestStream(Route(call), n: refill.first())
        while true {
            var used: UInt64 = 0
            while let event = try session.next() {
                switch event {
                case .message(id, let message):
                    used += 1
                    if json {
                        output.buffer.append(message.data)
                        output.buffer.append("\n")
                    } else {
                        rows.append(JSON(message.data) ?? .null)
                    }
                case .completed(id, _):
                    if !json, !rows.isEmpty || !hasPrinted { output.buffer.append(Table.render(columns, rows)) }
                    output.drain()
                    session.finish()
                    return ExitCode.done
                case .failed(id, let error): throw error
                default: break
                }
                if rows.count == Self.page {
                    output.buffer.append(Table.render(columns, rows))
                    rows.removeAll(keepingCapacity: true)
                    hasPrinted = true
                }
            }
            output.drain()
            if !output.isUsable { return ExitCode.done }
            let n = refill.use(used)
            if n > 0 { session.connection.requestN(id, n) }
            if try session.wait(Session.Wants()).signal != nil { return ExitCode.done }
        }
    }
}

// AdminCall: a parsed request to the admin listener. The table of paths, methods and queries:
//
//     GET                /                                          the page
//     GET                /healthz   /readyz                         liveness; readiness for clients
//     GET                /metrics?topics=N&subscriptions=1          Prometheus
//     GET                /api/v1/info   /api/v1/stats               the broker
//     GET                /api/v1/overview?topics=N&subscriptions=N  figures, topics, slow subscriptions; for each
//                                                                   also _skip=N, _find=…, _sort=…, _slow=1
//     GET                /api/v1/topics?limit=N&cursor=C            and subscriptions, connections
//     GET, DELETE        /api/v1/topics/{name}
//     POST               /api/v1/topics/{name}/complete             and /fail?message=…
//     DELETE             /api/v1/connections/{id}   /api/v1/subscriptions/{id}

import Core
import ForebayWire
import HTTP2

/// A position in a list that is read page by page. Its text is `SHARD-PLACE`.
struct ListCursor: Equatable, Sendable {
    var shard = 0
    var place = 0

    init(shard: Int = 0, place: Int = 0) {
        self.shard = shard
        self.place = place
    }

    init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false).map { UInt32($0) }
        guard parts.count == 2, let shard = parts[0], let place = parts[1] else { return nil }
        self.init(shard: Int(shard), place: Int(place))
    }

    var text: String { "\(shard)-\(place)" }
}

/// Which rows of one table a snapshot contains.
struct Selection: Sendable {
    /// Number of rows, and number of rows that are skipped.
    var limit = 0
    var skip = 0
    var find = ""
    var order = Survey.Order.rank
    /// Whether only slow subscriptions are listed.
    var slow = false

    var reach: Int { skip + limit }
}

enum AdminCall: Sendable {
    case file(PageFile)
    case alive
    case ready
    case metrics(topics: Int, subscriptions: Int)
    case info
    case stats
    case overview(topics: Selection, subscriptions: Selection)
    case list(BrokerList, ListCursor, limit: Int)
    case control(ControlRequest)

    var isControl: Bool { if case .control = self { true } else { false } }

    /// Whether the request changes nothing.
    var isReading: Bool {
        switch self {
        case .control(let call): call.isReading
        default: true
        }
    }

    /// The topic that the user must be permitted to control, if there are users. Nil for what everyone may see: the
    /// page's files, which contain no secrets, and health checks.
    var permitted: String? {
        switch self {
        case .file, .alive, .ready: nil
        case .metrics, .info, .stats, .overview: "$SYS.stats"
        case .list(let list, _, _): list.rawValue
        case .control(let call): call.permitted
        }
    }
}

extension AdminCall {
    /// - Throws: the error to respond with.
    init(_ request: PlainRequest) throws(Problem) {
        let target = try Target(request.target, limit: AdminLimits.target)
        var query = AdminQuery(options: try target.options())
        let method = request.method == "HEAD" ? "GET" : request.method
        self = try AdminCall.resolve(method, try target.segments(), String(target.path), &query)
        try query.expectNothing(at: String(target.path))
    }

    private static func resolve(
        _ method: String, _ path: [String], _ text: String, _ query: inout AdminQuery
    ) throws(Problem) -> AdminCall {
        switch path.count {
        case 1:
            if let file = PageFile.at(path[0]) { return try only("GET", method, text, .file(file)) }
            switch path[0] {
            case "healthz": return try only("GET", method, text, .alive)
            case "readyz": return try only("GET", method, text, .ready)
            case "metrics":
                let topics = try query.number("topics", 0...AdminLimits.topics) ?? AdminLimits.topicsByDefault
                let rows = try query.flag("subscriptions") ? AdminLimits.subscriptions : 0
                return try only("GET", method, text, .metrics(topics: topics, subscriptions: rows))
            default: throw unknown(text)
            }
        case 3... where path[0] == "api" && path[1] == "v1":
            return try resolveAPI(method, Array(path[2...]), text, &query)
        default: throw unknown(text)
        }
    }

    private static func resolveAPI(
        _ method: String, _ path: [String], _ text: String, _ query: inout AdminQuery
    ) throws(Problem) -> AdminCall {
        switch (path[0], path.count) {
        case ("info", 1): return try only("GET", method, text, .info)
        case ("stats", 1): return try only("GET", method, text, .stats)
        case ("overview", 1):
            let topics = try query.selection("topics", of: Survey.Order.ofTopics, most: AdminLimits.topics)
            var rows = try query.selection(
                "subscriptions", of: Survey.Order.ofSubscriptions, most: AdminLimits.subscriptions)
            rows.slow = try query.flag("subscriptions_slow")
            return try only("GET", method, text, .overview(topics: topics, subscriptions: rows))
        case ("topics", 1), ("subscriptions", 1), ("connections", 1):
            guard let list = BrokerList(rawValue: "$SYS.\(path[0])") else { throw unknown(text) }
            let limit = try query.number("limit", 1...AdminLimits.largestPage) ?? AdminLimits.page
            let cursor = try query.cursor()
            return try only("GET", method, text, .list(list, cursor, limit: limit))
        case ("topics", 2):
            let action = try choose(method, text, ["GET": ControlRequest.Action.info, "DELETE": .delete])
            return .control(try .about(path[1], action))
        case ("topics", 3) where path[2] == "complete":
            return try only("POST", method, text, .control(try .about(path[1], .complete)))
        case ("topics", 3) where path[2] == "fail":
            let message = query.text("message") ?? ControlRequest.defaultReason
            return try only("POST", method, text, .control(try .about(path[1], .fail(message: message))))
        case ("connections", 2):
            return try only("DELETE", method, text, .control(try .closing(.connections, id: path[1])))
        case ("subscriptions", 2):
            return try only("DELETE", method, text, .control(try .closing(.subscriptions, id: path[1])))
        default: throw unknown(text)
        }
    }

    private static func only(
        _ wanted: String, _ method: String, _ path: String, _ call: AdminCall
    ) throws(Problem) -> AdminCall {
        try choose(method, path, [wanted: call])
    }

    private static func choose<Choice>(
        _ method: String, _ path: String, _ choices: KeyValuePairs<String, Choice>
    ) throws(Problem) -> Choice {
        for (name, choice) in choices where name == method { return choice }
        let allow = choices.map { $0.key == "GET" ? "GET, HEAD" : $0.key }.joined(separator: ", ")
        throw Problem(.methodNotAllowed, "\(method) is not allowed for \(path); use one of \(allow).", allow: allow)
    }

    private static func unknown(_ path: String) -> Problem {
        Problem(
            .notFound,
            "There is no resource \(path); use /, /healthz, /readyz, /metrics, and under /api/v1/ info, stats, "
                + "overview, topics, subscriptions or connections.")
    }
}

/// The options of a query, which are removed one by one.
struct AdminQuery {
    private var options: [QueryOption]

    init(options: [QueryOption]) { self.options = options }

    mutating func text(_ name: String) -> String? {
        guard let place = options.firstIndex(where: { $0.name == name }) else { return nil }
        return options.remove(at: place).value
    }

    mutating func number(_ name: String, _ range: ClosedRange<Int>) throws(Problem) -> Int? {
        guard let text = text(name) else { return nil }
        guard text.utf8.allSatisfy({ (48...57).contains($0) }), let number = Int(text), range.contains(number) else {
            throw Problem(
                .invalid, "\(name)=\(text) is not a number from \(range.lowerBound) to \(range.upperBound).")
        }
        return number
    }

    mutating func flag(_ name: String) throws(Problem) -> Bool { try number(name, 0...1) == 1 }

    mutating func selection(
        _ table: String, of orders: [Survey.Order], most: Int
    ) throws(Problem) -> Selection {
        var selection = Selection()
        selection.limit = try number(table, 0...most) ?? AdminLimits.page
        selection.skip = try number(table + "_skip", 0...(AdminLimits.reach - selection.limit)) ?? 0
        selection.find = text(table + "_find") ?? ""
        guard let name = text(table + "_sort") else { return selection }
        guard let order = orders.first(where: { $0.rawValue == name }) else {
            let known = orders.map(\.rawValue).joined(separator: ", ")
            throw Problem(.invalid, "\(table)_sort=\(name) is unknown; use one of \(known).")
        }
        selection.order = order
        return selection
    }

    mutating func cursor() throws(Problem) -> ListCursor {
        guard let text = text("cursor") else { return ListCursor() }
        guard let cursor = ListCursor(text) else {
            throw Problem(.invalid, "cursor=\(text) is invalid; use the one from the previous page, or leave it out.")
        }
        return cursor
    }

    func expectNothing(at path: String) throws(Problem) {
        if let option = options.first(where: { !BrokerProtocol.isIgnorable(option: $0.name) }) {
            throw Problem(.invalid, "The option '\(option.name)' is unknown at \(path).")
        }
    }
}

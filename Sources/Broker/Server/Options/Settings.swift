// The table of settings.
//
// To add one: give `Options` (or its `limits`) a field with the setting's default, and add one line below with a phrase
// that describes it. The setting is then a key of the file, a variable, an option, and a line of -h and --print-config.
// Add `.reloadable` if `Server.reload` applies a changed value; all others are reported as needing a restart. Add
// `.secret` if its value must never be shown. Files that a setting names are read in `Server.Configuration.init`;
// constraints between settings are checked in `Options.faults`. Add a row to Docs/configuration.md, lines to
// Packaging/forebayd.yaml and a sample to ConfigurationTests: tests compare them with this table.
//
// A list of records is one line too, with functions that read and write a record; `topics` is an example. The reading
// function calls `fields.needed(key)`, `fields.value(key)`, `fields.values(key)` and `fields.records(key)`, each with a
// function that parses the value. Keys that it does not request are rejected with a suggestion. All errors have line
// and column. `fields.fault(key, sentence)` creates an error for a conflict between keys. Bound every list.

import Configuration
import Core
import EventLoop
import HTTP2

extension Setting {
    /// All settings, in the order in which they are listed.
    static let all: [Setting] =
        within(.listeners, listeners) + within(.tls, tls) + within(.access, access) + within(.process, process)
        + within(.log, log) + within(.topics, topics)
        + within(.store, store) + within(.upstream, upstream) + within(.limits, limits) + within(.times, times)

    static func named(_ name: String) -> Setting? { all.first { $0.name == name } }

    private static func within(_ group: Group, _ settings: [Setting]) -> [Setting] {
        settings.map { setting in
            var setting = setting
            setting.group = group
            return setting
        }
    }

    private static let listeners: [Setting] = [
        .endpoint("listen", \.listen, "address for RSocket clients"),
        .endpoint("http", \.http, "address for HTTP and gRPC clients"),
        .endpoint("admin", \.admin, "address for metrics, health checks, the JSON API and the admin page"),
        .list(
            "allow-origin", "ORIGIN", \.limits.http.cors.origins, most: Options.mostOrigins,
            "web origins that may call the HTTP API, for example https://example.org; * allows all",
            read: readOrigins, write: writeOrigins
        ).reloadable,
        .list(
            "host-name", "NAME", \.hostNames, most: Options.mostOrigins,
            "host names accepted in HTTP requests, besides IP addresses and localhost; * accepts any",
            read: readHostNames, write: writeHostNames
        ).reloadable,
    ]

    private static let process: [Setting] = [
        .number("threads", orAuto: \.threads, in: Options.threadsRange, "event-loop threads; auto is one per CPU"),
        .size(
            "memory", orAuto: \.memory, in: Options.memoryRange,
            "memory for all topics and queues; auto is a quarter of the control group's or machine's memory"
        ).reloadable,
        .time(
            "drain-time", \.drainTime, in: 0...hour,
            "how long the first SIGTERM or SIGINT waits for buffered messages to be delivered"
        ).reloadable,
    ]

    private static let log: [Setting] = [
        .choice(
            "log-level", "LEVEL", \.logLevel,
            [LogRecord.Level.debug, .info, .warning, .error].map { ($0.name, $0) },
            "minimum level to log: debug, info, warn or error"
        ).reloadable,
        .choice(
            "log-format", "FORMAT", \.logFormat, LogFormat.allCases.map { ($0.rawValue, $0) },
            "format of the log on standard error: text or json"),
    ]

    private static let topics: [Setting] = [
        .number("retain", \.limits.retain, in: Options.retainRange, "messages retained per topic for replay")
            .reloadable,
        .size("retain-bytes", \.limits.retainBytes, in: Options.retainBytesRange, "maximum size of a topic")
            .reloadable,
        .time(
            "retain-age", orOff: \.limits.retainAge, in: Options.retainAgeRange,
            "maximum age of a retained message"
        ).reloadable,
        .time(
            "topic-idle", \.limits.topicIdle, in: second...year,
            "how long a topic is kept without publishers and subscribers"
        ).reloadable,
        .time(
            "block-limit", \.limits.blockLimit, in: second...day,
            "how long a subscription with overflow=block may stay full without progress"
        ).reloadable,
        .records(
            "topics", \.limits.topicRules, most: Limits.mostTopicRules,
            "retain, retain-bytes and retain-age for topics that match a pattern; the first match applies",
            read: readTopicRule, write: writeTopicRule
        ).reloadable,
    ]

    private static let limits: [Setting] = [
        .number("max-connections", \.limits.connections, in: 1...10_000_000, "connections in total").reloadable,
        .number(
            "max-connections-per-user", \.limits.connectionsPerUser, in: 1...10_000_000,
            "connections per user; all clients without credentials count as one user"
        ).reloadable,
        .number(
            "max-connections-per-address", \.limits.connectionsPerAddress, in: 1...10_000_000,
            "connections per IPv4 address or IPv6 /64 network"
        ).reloadable,
        .number(
            "max-streams", \.limits.streamsPerConnection, in: 1...1_000_000,
            "streams per connection; at most 1000 over HTTP/2"
        ).reloadable,
        .number("max-subscriptions", \.limits.subscriptions, in: 1...100_000_000, "subscriptions in total").reloadable,
        .number(
            "max-subscriptions-per-user", \.limits.subscriptionsPerUser, in: 1...100_000_000,
            "subscriptions per user"
        ).reloadable,
        .number(
            "max-patterns", \.limits.patterns, in: 1...1_000_000,
            "different patterns that clients are subscribed to; long ones count several times"
        ).reloadable,
        .number(
            "max-matches", \.limits.matches, in: 1...1_000_000,
            "topics that match the pattern of one subscription"
        ).reloadable,
        .number(
            "max-sessions", \.limits.sessions, in: 1...10_000_000, "resumable RSocket connections in total"
        ).reloadable,
        .number(
            "max-sessions-per-user", \.limits.sessionsPerUser, in: 1...10_000_000,
            "resumable RSocket connections per user"
        ).reloadable,
        .size(
            "resume-buffer", \.limits.resumeBuffer, in: (4 << 10)...(1 << 30),
            "bytes sent to a resumable connection and not yet acknowledged, at most"
        ).reloadable,
        .number(
            "max-topics", \.limits.topics, in: 1...10_000_000, "topics in total, including the broker's own"
        ).reloadable,
        .number(
            "max-topics-per-user", \.limits.topicsPerUser, in: 1...10_000_000,
            "topics per user; a topic counts for the user who first used it"
        ).reloadable,
        .size("max-payload", \.limits.payload, in: 1...(16 << 20), "maximum payload of a message").reloadable,
        .size("max-metadata", \.limits.metadata, in: 64...(1 << 20), "maximum metadata of a message or request")
            .reloadable,
        .size(
            "max-headers", \.limits.headers, in: (1 << 10)...(24 << 10),
            "maximum size of an HTTP request's headers"
        ).reloadable,
        .number(
            "publish-rate", orOff: \.limits.publishRate, in: 1...1_000_000_000,
            "messages per second that a user may publish"
        ).reloadable,
        .size(
            "publish-bytes", orOff: \.limits.publishBytes, in: 1...(1 << 40),
            "bytes of payload and metadata per second that a user may publish"
        ).reloadable,
        .time(
            "publish-burst", \.limits.publishBurst, in: 10 * millisecond...hour,
            "time for which an idle user accumulates unused publish rate"
        ).reloadable,
        .size(
            "max-unfinished", \.limits.reassembly, in: (64 << 10)...(1 << 30),
            "bytes of incomplete requests per connection"
        ).reloadable,
        .number(
            "max-parked", \.limits.parkedCount, in: 1...1_000_000,
            "publishes per connection that wait for room in a topic"
        ).reloadable,
        .size("max-parked-bytes", \.limits.parked, in: (64 << 10)...(1 << 30), "bytes of those publishes").reloadable,
        .size(
            "output-buffer", \.limits.output, in: (4 << 10)...(64 << 20),
            "unsent bytes per connection above which messages wait"
        ).reloadable,
        .number("grant", \.limits.grant, in: 1...1_000_000, "messages granted to a publisher at once").reloadable,
        .size(
            "grant-bytes", \.limits.grantBytes, in: (4 << 10)...(1 << 30),
            "expected bytes granted to a publisher at once"
        )
        .reloadable,
    ]

    private static let times: [Setting] = [
        .time(
            "setup-time", \.limits.setupTime, in: 100 * millisecond...hour,
            "time for a new connection to identify itself"
        )
        .reloadable,
        .time("request-time", \.limits.reassemblyTime, in: second...hour, "time for a request to arrive completely")
            .reloadable,
        .time("park-time", \.limits.parkTime, in: second...hour, "time that a publish waits for room in a topic")
            .reloadable,
        .time("unread-time", \.limits.unreadTime, in: second...hour, "time that a client may leave responses unread")
            .reloadable,
        .time(
            "close-time", \.limits.closeTime, in: 100 * millisecond...hour, "time for a client to read a closing error"
        )
        .reloadable,
        .time(
            "resume-time", orOff: \.limits.resumeTime, in: second...day,
            "time that a resumable RSocket connection is kept after its socket is lost"
        ).reloadable,
        .time(
            "http-silence", \.limits.httpSilence, in: 2 * second...day,
            "time after which a silent HTTP connection is closed"
        ).reloadable,
        .time("heartbeat", \.limits.heartbeat, in: second...day, "interval of comments on an idle event stream")
            .reloadable,
    ]

    static let millisecond: UInt64 = 1_000_000
    static let second: UInt64 = 1_000_000_000
    static let hour: UInt64 = 3600 * second
    static let day: UInt64 = 24 * hour
    static let year: UInt64 = 365 * day
}

// Parsing and formatting of single settings.

extension Setting {
    /// An address to listen on, or `off`.
    static func endpoint(_ name: String, _ path: OptionsPath<Endpoint?>, _ about: String) -> Setting {
        value(name, "HOST:PORT", path, about) { text throws(ValueFault) in
            if text == "off" { return nil }
            do throws(SystemError) {
                return try Endpoint(parsing: text)
            } catch {
                throw ValueFault("is not an address: \(error.cause), or off")
            }
        } write: {
            $0?.description ?? "off"
        }
    }

    private static func readOrigins(_ texts: [String]) throws(ValueFault) -> CORSPolicy.Origins {
        for text in texts where text != "*" && !CORSPolicy.isOrigin(text) {
            throw ValueFault("is not an origin: write it as browsers do, for example https://example.org, or *")
        }
        return texts.contains("*") ? .any : texts.isEmpty ? .none : .listed(texts)
    }

    private static func writeOrigins(_ origins: CORSPolicy.Origins) -> [String] {
        switch origins {
        case .none: []
        case .any: ["*"]
        case .listed(let list): list
        }
    }

    private static func readHostNames(_ texts: [String]) throws(ValueFault) -> HostPolicy.Names {
        let names = texts.map { $0.lowercased() }
        for name in names where name != "*" && !HostPolicy.isName(name) {
            throw ValueFault("is not a host name: write it without a port, for example broker.example.org, or *")
        }
        return names.contains("*") ? .any : .listed(names)
    }

    private static func writeHostNames(_ names: HostPolicy.Names) -> [String] {
        switch names {
        case .any: ["*"]
        case .listed(let list): list
        }
    }

    private static func readTopicRule(_ fields: inout Fields) throws(Fault) -> TopicRule {
        let pattern = try fields.needed("match") { text throws(ValueFault) in
            do throws(TopicPatternError) {
                return try TopicPattern(parsing: text)
            } catch {
                throw ValueFault(error.words)
            }
        }
        var rule = TopicRule(match: pattern)
        rule.retain = try fields.value("retain") { text throws(ValueFault) in
            try Value.number(text, in: Options.retainRange)
        }
        rule.retainBytes = try fields.value("retain-bytes") { text throws(ValueFault) in
            try Value.size(text, in: Options.retainBytesRange)
        }
        rule.retainAge = try fields.value("retain-age") { text throws(ValueFault) in
            try timeOrOff(text, in: Options.retainAgeRange)
        }
        return rule
    }

    static func writeTopicRule(_ rule: TopicRule) -> [String] {
        var lines = ["match: \(quoted(rule.match.description))"]
        if let retain = rule.retain { lines.append("retain: \(retain)") }
        if let bytes = rule.retainBytes { lines.append("retain-bytes: \(formatByteSize(bytes))") }
        if let age = rule.retainAge { lines.append("retain-age: \(formatTimeOrOff(age))") }
        return lines
    }
}

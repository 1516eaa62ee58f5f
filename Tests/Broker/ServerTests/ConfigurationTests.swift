// Settings from the file, the environment and the command line: how each is read, which source wins, and how errors are
// reported.

import Configuration
import Core
import EventLoop
import HTTP2
import Testing

@testable import Server

/// A setting with a value that is not its default, its form in a file, and a value that is refused.
struct Sample: Sendable, CustomTestStringConvertible {
    var name: String
    var value: String
    var texts: [String]
    var wrong: String
    var why: String

    init(_ name: String, _ value: String, as texts: [String]? = nil, wrong: String, _ why: String) {
        self.name = name
        self.value = value
        self.texts = texts ?? [value]
        self.wrong = wrong
        self.why = why
    }

    var setting: Setting { Setting.named(name)! }
    var testDescription: String { name }

    static let all: [Sample] = [
        Sample("listen", "[::1]:0", wrong: "7690", "is not an address: write HOST:PORT"),
        Sample("http", "off", wrong: ":1", "is not an address: the host is missing"),
        Sample(
            "allow-origin", "https://a.org, https://b.org", as: ["https://a.org", "https://b.org"], wrong: "a.org",
            "is not an origin: write it as browsers do"),
        Sample("admin", "off", wrong: "7692", "is not an address: write HOST:PORT"),
        Sample(
            "host-name", "a.example, b", as: ["a.example", "b"], wrong: "a:80",
            "is not a host name: write it without a port"),
        Sample("threads", "3", wrong: "0", "is not a number from 1 to 256, or auto"),
        Sample("memory", "64m", as: ["64M"], wrong: "1K", "is not a size from 16M to 65536G"),
        Sample(
            "drain-time", "0s", as: ["0ms"], wrong: "10", "is not a time from 0ms to 1h, for example 500ms, 30s or 5m"),
        Sample("log-level", "warn", wrong: "loud", "is not one of debug, info, warn, error"),
        Sample("log-format", "json", wrong: "xml", "is not one of text, json"),
        Sample("retain", "5", wrong: "2147483648", "is not a number from 1 to 2147483647"),
        Sample("retain-bytes", "5000", wrong: "4095", "is not a size from 4K to 1024G"),
        Sample("retain-age", "90s", wrong: "never", "is not a time from 100ms to 3650d"),
        Sample("topic-idle", "2h", wrong: "0s", "is not a time from 1s to 365d"),
        Sample("store", "/var/lib/forebay", wrong: "/dev/null", "is not a directory"),
        Sample("store-bytes", "1G", wrong: "1M", "is not a size from 16M to 16384G"),
        Sample("store-interval", "50ms", wrong: "0ms", "is not a time from 1ms to 10s"),
        Sample("resident-bytes", "1M", wrong: "1K", "is not a size from 64K to 1024G"),
        Sample("max-uncommitted", "8M", wrong: "1K", "is not a size from 1M to 1024G"),
        Sample("upstream", "nats://127.0.0.1:4222", wrong: "http://a", "is not a list of NATS servers: The URL"),
        Sample("shared-replicas", "3", wrong: "6", "is not a number from 1 to 5"),
        Sample("max-shared-topics", "17", wrong: "0", "is not a number from 1 to 1000000"),
        Sample("upstream-time", "5s", wrong: "999ms", "is not a time from 1s to 1h"),
        Sample("block-limit", "60s", as: ["1m"], wrong: "999ms", "is not a time from 1s to 1d"),
        Sample("max-connections", "17", wrong: "0", "is not a number from 1 to 10000000"),
        Sample("max-connections-per-user", "17", wrong: "0", "is not a number from 1 to 10000000"),
        Sample("max-connections-per-address", "17", wrong: "-1", "is not a number from 1 to 10000000"),
        Sample("max-streams", "17", wrong: "1e3", "is not a number from 1 to 1000000"),
        Sample("max-subscriptions", "17", wrong: "many", "is not a number from 1 to 100000000"),
        Sample("max-subscriptions-per-user", "17", wrong: "0", "is not a number from 1 to 100000000"),
        Sample("max-patterns", "17", wrong: "0", "is not a number from 1 to 1000000"),
        Sample("max-matches", "17", wrong: "0", "is not a number from 1 to 1000000"),
        Sample("max-sessions", "17", wrong: "0", "is not a number from 1 to 10000000"),
        Sample("max-sessions-per-user", "17", wrong: "0", "is not a number from 1 to 10000000"),
        Sample("resume-buffer", "4K", wrong: "1K", "is not a size from 4K to 1G"),
        Sample("max-topics-per-user", "17", wrong: "0", "is not a number from 1 to 10000000"),
        Sample("max-headers", "4K", wrong: "32K", "is not a size from 1K to 24K"),
        Sample("publish-rate", "100", wrong: "0", "is not a number from 1 to 1000000000"),
        Sample("publish-bytes", "1M", wrong: "0", "is not a size from 1 to 1024G"),
        Sample("publish-burst", "5s", wrong: "9ms", "is not a time from 10ms to 1h"),
        Sample("max-topics", "17", wrong: "off", "is not a number from 1 to 10000000"),
        Sample("max-payload", "64K", wrong: "17M", "is not a size from 1 to 16M"),
        Sample("max-metadata", "1K", wrong: "1", "is not a size from 64 to 1M"),
        Sample("max-unfinished", "16M", wrong: "1", "is not a size from 64K to 1G"),
        Sample("max-parked", "17", wrong: "0", "is not a number from 1 to 1000000"),
        Sample("max-parked-bytes", "64K", wrong: "1", "is not a size from 64K to 1G"),
        Sample("output-buffer", "4K", wrong: "1T", "is not a size from 4K to 64M"),
        Sample("grant", "17", wrong: "0", "is not a number from 1 to 1000000"),
        Sample("grant-bytes", "4K", wrong: "1", "is not a size from 4K to 1G"),
        Sample("setup-time", "100ms", wrong: "99ms", "is not a time from 100ms to 1h"),
        Sample("request-time", "1s", wrong: "2d", "is not a time from 1s to 1h"),
        Sample("park-time", "1s", wrong: "1", "is not a time from 1s to 1h"),
        Sample("unread-time", "1s", wrong: "1ns", "is not a time from 1s to 1h"),
        Sample("close-time", "100ms", wrong: "0", "is not a time from 100ms to 1h"),
        Sample("resume-time", "1s", wrong: "10ms", "is not a time from 1s to 1d"),
        Sample("http-silence", "2s", wrong: "1s", "is not a time from 2s to 1d"),
        Sample("allow-anonymous", "true", wrong: "maybe", "is neither true nor false"),
        Sample("heartbeat", "1s", wrong: "", "is not a time from 1s to 1d"),
    ]
}

@Suite struct ConfigurationTests {
    private func load(
        file: String? = nil, _ environment: [(String, String)] = [], _ settings: [(String, String)] = [],
        table: [Setting] = Setting.all
    ) throws(UsageError) -> Loaded {
        let text = file.map { ConfigurationText(path: "/etc/b.yaml", bytes: Array($0.utf8)) }
        return try Loader.load(text, environment: environment, settings: settings, table: table) {
            path throws(ValueFault) in
            if path != "/etc/there" { throw ValueFault("cannot be read: No such file or directory") }
        }
    }

    private func faults(
        file: String? = nil, _ environment: [(String, String)] = [], _ settings: [(String, String)] = [],
        table: [Setting] = Setting.all
    ) -> [String] {
        do throws(UsageError) {
            let loaded = try load(file: file, environment, settings, table: table)
            Issue.record("was read as \(loaded)")
            return []
        } catch {
            return error.faults
        }
    }

    private func inFile(_ sample: Sample, _ value: String) -> String {
        if case .list = sample.setting.shape, value.contains(",") { return "\(sample.name): [\(value)]" }
        return "\(sample.name): \"\(value)\""
    }

    // Every setting

    @Test func everySettingHasASample() {
        let sampled = Set(Sample.all.map(\.name))
        // Records, files, and settings that depend on others have separate tests.
        let dependent = [
            "durable", "relaxed", "shared", "upstream-credentials", "upstream-ca", "upstream-cert", "upstream-key",
        ]
        for setting in Setting.all
        where !setting.isRecords && setting.group != .tls && !dependent.contains(setting.name) {
            #expect(sampled.contains(setting.name), "\(setting.name)")
        }
        #expect(Set(Setting.all.map(\.name)).count == Setting.all.count)
    }

    @Test(arguments: Sample.all)
    func everySourceReadsTheSame(sample: Sample) throws {
        let setting = sample.setting
        let values = sample.value.split(separator: ", ").map { (sample.name, String($0)) }
        let loads = [
            (try load(file: "\n" + inFile(sample, sample.value)), Origin.file(path: "/etc/b.yaml", line: 2)),
            (try load([(setting.variable, sample.value)]), .variable(setting.variable)),
            (try load([], values), .option("--\(sample.name)")),
        ]
        for (loaded, origin) in loads {
            #expect(setting.texts(loaded.options) == sample.texts)
            #expect(!setting.isSame(loaded.options, Options()))
            #expect(loaded.origins == [sample.name: origin])
            #expect(loaded.options == loads[0].0.options)
        }
    }

    @Test(arguments: Sample.all)
    func everySourceRefusesTheSame(sample: Sample) {
        let setting = sample.setting
        let wrong = setting.isSecret ? "(not shown)" : sample.wrong
        let file = faults(file: "# one\n" + inFile(sample, sample.wrong))
        let column = sample.name.count + 3
        #expect(
            file.count == 1 && file[0].hasPrefix("/etc/b.yaml:2:\(column): \(sample.name): \(wrong) \(sample.why)"))
        let option = faults([], [(sample.name, sample.wrong)])
        #expect(option.count == 1 && option[0].hasPrefix("--\(sample.name) \(wrong) \(sample.why)"))
        if sample.wrong.isEmpty { return }
        let variable = faults([(setting.variable, sample.wrong)])
        #expect(variable.count == 1 && variable[0].hasPrefix("\(setting.variable)=\(wrong) \(sample.why)"))
    }

    /// The output of --print-config means the same as what was read, wherever that came from, except for secrets.
    @Test func whatIsPrintedCanBeReadAgain() throws {
        let topics = "topics:\n- match: \">\"\n  retain: 7\n- {match: a.*, retain-bytes: 8K, retain-age: off}\n"
        let file =
            Sample.all.filter { !$0.setting.isSecret }.map { inFile($0, $0.value) }.joined(separator: "\n") + "\n"
            + topics
        let loaded = try load(file: file)
        let printed = loaded.printed()
        let again = try load(file: printed)
        #expect(again.options == loaded.options)
        #expect(again.printed() != printed, "the origins differ")
        #expect(try load(file: try load().printed()).options == Options())
    }

    // Sources

    @Test func laterSourcesWin() throws {
        let file = "retain: 1\ntopic-idle: 1m\nlog-level: debug\nallow-origin: [http://a, http://b]"
        let loaded = try load(
            file: file, [("FOREBAY_RETAIN", "2"), ("FOREBAY_TOPIC_IDLE", "2m"), ("FOREBAY_ALLOW_ORIGIN", "http://c")],
            [("retain", "3")])
        #expect(loaded.options.limits.retain == 3)
        #expect(loaded.options.limits.topicIdle == 120 * Setting.second)
        #expect(loaded.options.logLevel == .debug)
        #expect(loaded.options.limits.http.cors.origins == .listed(["http://c"]), "a source has all of a list or none")
        #expect(
            loaded.origins == [
                "retain": .option("--retain"), "topic-idle": .variable("FOREBAY_TOPIC_IDLE"),
                "log-level": .file(path: "/etc/b.yaml", line: 3), "allow-origin": .variable("FOREBAY_ALLOW_ORIGIN"),
            ])
        let lines = loaded.printed(effective: ["threads": "2 here"]).split(separator: "\n")
        for (key, value, origin) in [
            ("retain", "3", "--retain"), ("topic-idle", "2m", "FOREBAY_TOPIC_IDLE"),
            ("log-level", "debug", "/etc/b.yaml:3"), ("threads", "auto", "default; 2 here"),
            ("allow-origin", "[http://c]", "FOREBAY_ALLOW_ORIGIN"), ("topics", "[]", "default"),
        ] {
            #expect(lines.contains { $0.hasPrefix("\(key): \(value) ") && $0.hasSuffix("# \(origin)") }, "\(key)")
        }
    }

    @Test func aFaultOfAnySourceIsTold() {
        let reported = faults(
            file: "retain: 0\nretian: 1\ntopics: [{match: a, retian: 1}]", [("FOREBAY_RETAIN", "x")],
            [("threads", "0")])
        #expect(
            reported == [
                "/etc/b.yaml:1:9: retain: 0 is not a number from 1 to 2147483647",
                "/etc/b.yaml:2:1: retian is not a known key; did you mean retain?",
                "/etc/b.yaml:3:21: topics.retian is not a known key; did you mean retain?",
                "FOREBAY_RETAIN=x is not a number from 1 to 2147483647",
                "--threads 0 is not a number from 1 to 256, or auto",
            ])
        #expect(faults(file: String(repeating: "x", count: 30).map { "k\($0): 1" }.joined(separator: "\n")).count == 1)
        #expect(faults(file: (0..<100).map { "key\($0): 1" }.joined(separator: "\n")).count == Loader.mostFaults)
    }

    @Test(arguments: [
        ("retain: 1\nretain: 2", "/etc/b.yaml:2:1: retain: duplicate key, first used in line 1; write it once"),
        ("- retain: 1", "/etc/b.yaml:1:1: this is not a list of settings; write KEY: VALUE, one per line"),
        ("retain", "/etc/b.yaml:1:1: this is not a list of settings"),
        ("retain:", "/etc/b.yaml:1:8: retain: the value is missing; write one, or leave the key out"),
        ("retain: ~", "the value is missing"), ("allow-origin:", "the value is missing; write a list"),
        ("retain: [1]", "/etc/b.yaml:1:9: retain: this is a list; write one value"),
        ("retain: {a: 1}", "this is a mapping; write one value"),
        ("allow-origin: {a: 1}", "this is a mapping"),
        ("allow-origin: [http://a, [x]]", "1:26: allow-origin: this is a list"),
        ("allow-origin: [http://a, b]", "/etc/b.yaml:1:26: allow-origin: b is not an origin"),
        ("allow-origin: [" + String(repeating: "a,", count: 65) + "]", "the list has 65 elements; write at most 64"),
        ("\tretain: 1", "this is not YAML"), ("topics: 5", "/etc/b.yaml:1:9: topics: each element must be a mapping"),
        ("nothing-like-it: 1", "/etc/b.yaml:1:1: nothing-like-it is not a known key"),
        ("\"a\\e[2J\": 1", "a\u{FFFD}[2J is not a known key"),
        ("listen: off\nhttp: off", "listen: off (/etc/b.yaml:1) and http: off (/etc/b.yaml:2) leave nothing"),
        (
            "listen: 127.0.0.1:7691",
            "listen: 127.0.0.1:7691 (/etc/b.yaml:1) and http: 127.0.0.1:7691 (default) are the same"
        ),
        (
            "admin: 127.0.0.1:7690",
            "listen: 127.0.0.1:7690 (default) and admin: 127.0.0.1:7690 (/etc/b.yaml:1) are the same"
        ),
        ("http: 0.0.0.0:7690", "listen: 127.0.0.1:7690 (default) and http: 0.0.0.0:7690 (/etc/b.yaml:1) are the same"),
        ("max-payload: 16M", "max-payload: 16M (/etc/b.yaml:1) is more than max-unfinished: 4M (default)"),
    ])
    func refusesFiles(file: String, why: String) {
        let reported = faults(file: file)
        #expect(reported.count == 1 && reported[0].contains(why), "\(reported)")
        #expect(reported.allSatisfy { !$0.contains("\u{1B}") })
    }

    @Test func suspiciousVariablesAreToldAndForeignOnesAreNot() throws {
        let loaded = try load([
            ("FOREBAY_RETIAN", "1"), ("FOREBAY_URL", "rsocket://a:1"), ("FOREBAY_PORT_7690_TCP_ADDR", "10.0.0.1"),
            ("FOREBAY_SERVICE_HOST", "10.0.0.1"), ("FOREBAY_CONFIG", "/x"), ("FOREBAY_TOPICS", "a"),
            ("FOREBAY_RETAIN", ""), ("OTHER", "1"),
        ])
        #expect(
            loaded.warnings == [
                "unknown variable FOREBAY_RETIAN; did you mean FOREBAY_RETAIN?",
                "FOREBAY_TOPICS is ignored: set topics in the configuration file",
            ])
        #expect(loaded.options == Options() && loaded.origins.isEmpty)
    }

    // Topics

    @Test func topicsHaveRules() throws {
        let loaded = try load(
            file: """
                topics:
                  - match: orders.>
                    retain: 100000
                    retain-bytes: 64M
                  - match: "*"
                    retain-age: 5m
                """)
        let rules = [
            TopicRule(match: try TopicPattern(parsing: "orders.>"), retain: 100_000, retainBytes: 64 << 20),
            TopicRule(match: try TopicPattern(parsing: "*"), retainAge: 300 * Setting.second),
        ]
        #expect(loaded.options.limits.topicRules == rules)
        #expect(try load(file: "topics: []").options.limits.topicRules == [])
    }

    @Test(arguments: [
        ("topics: [{retain: 5}]", "1:10: topics: match is missing; every element needs one"),
        ("topics: [{match: a.>.b}]", "1:18: topics.match: a.>.b is not a topic pattern: '>' is not the last token"),
        (
            "topics:\n- match: >\n  retain: 5",
            "2:10: > starts a block of text; write \">\" in quotes if it is"
        ),
        ("topics: [{match: a, retain: 0}]", "1:29: topics.retain: 0 is not a number"),
        ("topics: [{match: a, retain-age: 0}]", "or off"),
        ("topics: [{match: [a]}]", "1:18: topics.match: this is a list"),
        ("topics: [{match: a}, x]", "1:22: topics: each element must be a mapping"),
        ("topics: [{match: a, max: 5}]", "1:21: topics.max is not a known key"),
        ("topics: [" + String(repeating: "{match: a},", count: 257) + "]", "has 257 elements; write at most 256"),
    ])
    func refusesRules(file: String, why: String) {
        let reported = faults(file: file)
        #expect(reported.count == 1 && reported[0].contains(why), "\(reported)")
    }
}

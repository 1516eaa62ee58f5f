// Kinds of settings: switches, texts, secrets, files, records in records.

import Configuration
import EventLoop
import Testing

@testable import Server

extension Options {
    /// Storage for a text.
    fileprivate var word: String? {
        get { listen.flatMap { $0.port == 1 ? $0.host : nil } }
        set { listen = Endpoint(host: newValue ?? "", port: 1) }
    }

    fileprivate var isOn: Bool {
        get { threads == 7 }
        set { threads = newValue ? 7 : nil }
    }

    /// Storage for records.
    fileprivate var users: [User] {
        get { limits.topicRules.map { User(name: $0.match.description, words: []) } }
        set { limits.topicRules = [] }
    }
}

private struct User: Equatable, Sendable {
    var name: String
    var words: [String]
    var inner: [Int] = []
}

@Suite struct SettingKindsTests {
    private func load(
        _ setting: Setting, file: String? = nil, _ environment: [(String, String)] = [],
        _ settings: [(String, String)] = []
    ) throws(UsageError) -> Loaded {
        let text = file.map { ConfigurationText(path: "/etc/forebay/b.yaml", bytes: Array($0.utf8)) }
        return try Loader.load(text, environment: environment, settings: settings, table: [setting]) {
            path throws(ValueFault) in
            if !["/etc/forebay/there", "here"].contains(path) { throw ValueFault("cannot be read: \(path)") }
        }
    }

    private func fault(
        _ setting: Setting, file: String? = nil, _ environment: [(String, String)] = [],
        _ settings: [(String, String)] = []
    ) throws -> String {
        try #require(throws: UsageError.self) { try load(setting, file: file, environment, settings) }.description
    }

    @Test func aSwitchIsOnAlone() throws {
        let setting = Setting.truth("turned-on", \.isOn, "whether")
        #expect(try load(setting, file: "turned-on: yes").options.isOn)
        #expect(try load(setting, [("FOREBAY_TURNED_ON", "true")]).options.isOn)
        #expect(try load(setting, [], [("turned-on", "true")]).options.isOn)
        #expect(try !load(setting, file: "turned-on: true", [], [("turned-on", "false")]).options.isOn)
        #expect(try fault(setting, file: "turned-on: 2").contains("1:12: turned-on: 2 is neither true nor false"))
    }

    @Test func aSecretIsNeverTold() throws {
        var setting = Setting.text("key", "KEY", \.word, "a key").secret
        setting.isReloadable = true
        let first = try load(setting, file: "key: hush")
        #expect(first.options.word == "hush")
        #expect(!first.printed(table: [setting]).contains("hush"))
        #expect(first.printed(table: [setting]).contains("# key: (not shown)"))
        #expect(first.printed(table: [setting]).contains("/etc/forebay/b.yaml:1"))
        var inForce = first
        let changes = inForce.adopt(try load(setting, file: "key: whisper"), table: [setting])
        #expect(changes.count == 1 && !"\(changes)".contains("hush") && !"\(changes)".contains("whisper"))
        #expect(inForce.options.word == "whisper")

        let picky = Setting.value("key", "KEY", \.word, "a key") { text throws(ValueFault) in
            throw ValueFault("is too short")
        } write: {
            $0 ?? ""
        }.secret
        for reported in [
            try fault(picky, file: "key: hush"), try fault(picky, [("FOREBAY_KEY", "hush")]),
            try fault(picky, [], [("key", "hush")]),
        ] {
            #expect(reported.contains("is too short") && !reported.contains("hush"), "\(reported)")
        }
    }

    @Test func aFileHasToBeThere() throws {
        let setting = Setting.file("key-file", \.word, "a file")
        #expect(try load(setting, file: "key-file: there").options.word == "/etc/forebay/there", "beside the file")
        #expect(try load(setting, file: "key-file: /etc/forebay/there").options.word == "/etc/forebay/there")
        #expect(try load(setting, [], [("key-file", "here")]).options.word == "here", "where the command was given")
        #expect(
            try fault(setting, file: "\nkey-file: gone").contains(
                "2:11: key-file: gone cannot be read: /etc/forebay/gone"))
        #expect(try fault(setting, [("FOREBAY_KEY_FILE", "gone")]).contains("FOREBAY_KEY_FILE=gone cannot be read"))
        #expect(try fault(setting, [], [("key-file", "gone")]).contains("--key-file gone cannot be read"))
        #expect(try load(setting).printed(table: [setting]).contains("# key-file: (not set)"))
    }

    @Test func filesAreLookedAt() throws {
        #expect(throws: Never.self) { try ConfigurationFile.check("/proc/self/status") }
        #expect(throws: ValueFault.self) { try ConfigurationFile.check("/proc/self/none") }
        #expect(throws: ValueFault("is a folder: name a file")) { try ConfigurationFile.check("/proc/self") }
    }

    @Test func recordsLieInRecords() throws {
        let node = try #require(
            try Document.parse(Array("[{name: a, words: [x, y], inner: [{n: 1}, {n: 2}]}, {name: b, words: z}]".utf8)))
        func read(_ fields: inout Fields) throws(Fault) -> User {
            let name = try fields.needed("name") { text throws(ValueFault) in text }
            let words = try fields.values("words", most: 2) { text throws(ValueFault) in text }
            let inner = try fields.records("inner", most: 2) { fields throws(Fault) in
                try fields.needed("n") { text throws(ValueFault) in try Value.number(text, in: 1...2) }
            }
            if name == "c" { throw fields.fault("name", "c is taken") }
            return User(name: name, words: words ?? [], inner: inner ?? [])
        }
        #expect(
            try Fields.records(node, of: "users", most: 2, read) == [
                User(name: "a", words: ["x", "y"], inner: [1, 2]), User(name: "b", words: ["z"]),
            ])
        for (text, why) in [
            ("[{name: a, inner: [{n: 3}]}]", "1:24: users.inner.n: 3 is not a number"),
            ("[{name: a, inner: [{n: 1, m: 1}]}]", "1:27: users.inner.m is not a known key; did you mean n?"),
            ("[{name: a, inner: [{}]}]", "1:20: users.inner: n is missing"),
            ("[{name: a, words: [x, y, z]}]", "1:19: users.words: the list has 3 elements; write at most 2"),
            ("[{name: c}]", "1:9: users.name: c is taken"),
        ] {
            let wrong = try #require(try Document.parse(Array(text.utf8)))
            let fault = try #require(throws: Fault.self) { try Fields.records(wrong, of: "users", most: 2, read) }
            #expect(fault.description.hasPrefix(why), "\(fault)")
        }
    }

    @Test(arguments: [
        ("127.0.0.1:7690", true), ("off", true), ("[::1]:0", false), ("*", false), (">", false), ("a.*", false),
        ("a: b", false), ("a #b", false), ("null", false), ("", false), ("a\"\\\u{1}b", false), ("https://a.org", true),
        ("- a", false), ("$SYS.a", true), ("é", false), ("a:", false), ("true", true),
    ])
    func textsArePrintedAsYAMLHasThem(text: String, isPlain: Bool) throws {
        let written = quoted(text)
        #expect((written == text) == isPlain)
        let node = try #require(try Document.parse(Array("[\(written)]".utf8)))
        #expect(try node.list(of: "", most: 1)[0].text(of: "") == text)
    }
}

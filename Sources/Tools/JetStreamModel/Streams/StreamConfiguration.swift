// StreamConfiguration: the configuration of a stream, as far as the model knows it; its JSON, and why it is refused.
// Members that exist but that the model does not know are refused, so that no test relies on them by mistake.

import JSONParsing

/// The configuration of a stream. Limits of -1 mean no limit; times are nanoseconds.
public struct StreamConfiguration: Equatable, Sendable {
    /// Copies of messages that are sent to other subjects.
    public struct Republish: Equatable, Sendable {
        public var source = ">"
        public var destination = ""
        public var isHeadersOnly = false
    }

    public var name = ""
    public var subjects: [String] = []
    public var maxMessages = -1
    public var maxBytes = -1
    public var maxAge = 0
    public var maxMessagesPerSubject = -1
    public var maxMessageSize = -1
    /// Whether new messages are refused at a limit, instead of removing old ones.
    public var discardsNew = false
    public var isInMemory = false
    public var replicas = 1
    public var duplicateWindow = 0
    public var republish: Republish?
    public var allowsDirect = false
    public var isSealed = false
    public var deniesDelete = false
    public var deniesPurge = false
    /// Without what the server adds.
    public var metadata: [String: String] = [:]

    private static let defaultWindow = 120_000_000_000
    private static let leastTime = 100_000_000

    /// Fills in what a request leaves out.
    mutating func complete() {
        func unlimited(_ limit: inout Int) { if limit <= 0 { limit = -1 } }
        unlimited(&maxMessages)
        unlimited(&maxBytes)
        unlimited(&maxMessagesPerSubject)
        unlimited(&maxMessageSize)
        if subjects.isEmpty { subjects = [name] }
        if replicas == 0 { replicas = 1 }
        if duplicateWindow == 0 {
            let window = StreamConfiguration.defaultWindow
            duplicateWindow = maxAge > 0 ? min(maxAge, window) : window
        }
    }

    /// Checks what does not depend on other streams.
    func check(servers: Int) throws(APIError) {
        func require(_ holds: Bool, _ why: @autoclosure () -> String) throws(APIError) {
            if !holds { throw .configuration(why()) }
        }
        try require(
            !name.isEmpty && !name.contains { ".*> \t/\\".contains($0) },
            "stream name is required and can not contain '.', '*', '>'")
        try require(replicas <= 5, "maximum replicas is 5")
        try require(replicas >= 0, "replicas count cannot be negative")
        let least = StreamConfiguration.leastTime
        try require(maxAge == 0 || maxAge >= least, "max age needs to be >= 100ms")
        try require(duplicateWindow >= 0, "duplicates window can not be negative")
        try require(maxAge == 0 || duplicateWindow <= maxAge, "duplicates window can not be larger then max age")
        try require(duplicateWindow >= least, "duplicates window needs to be >= 100ms")
        var earlier: [[String]] = []
        for subject in subjects {
            try require(Subjects.isValid(filter: subject), "invalid subject")
            let tokens = Subjects.tokens(subject)
            try require(subject != ">", "capturing all subjects requires no-ack to be true")
            for reserved in ["$JS.>", "$JSC.>", "$NRG.>", "$SYS.>"]
            where Subjects.overlap(tokens, Subjects.tokens(reserved)) {
                throw .configuration("subjects that overlap with jetstream api require no-ack to be true")
            }
            if let other = earlier.first(where: { Subjects.overlap($0, tokens) }) {
                throw .configuration("subject \"\(other.joined(separator: "."))\" overlaps with \"\(subject)\"")
            }
            earlier.append(tokens)
        }
        try check(earlier)
        if replicas > servers { throw servers == 1 ? .notClustered : .noPeers }
    }

    /// Checks `republish`.
    private func check(_ subjects: [[String]]) throws(APIError) {
        guard let republish else { return }
        let target = Subjects.tokens(republish.destination)
        guard SubjectTransform(from: republish.source, to: republish.destination) != nil else {
            throw .configuration(
                "stream configuration for republish with transform from '\(republish.source)' to "
                    + "'\(republish.destination)' not valid")
        }
        guard !subjects.contains(where: { Subjects.overlap($0, target) }) else {
            throw .configuration("stream configuration for republish destination forms a cycle")
        }
    }

    /// Checks an update of `old`, and applies what follows from it.
    mutating func update(from old: StreamConfiguration) throws(APIError) {
        let rules = [
            (isInMemory == old.isInMemory, "change storage type"),
            (isSealed || !old.isSealed, "unseal a sealed stream"),
            (deniesDelete || !old.deniesDelete, "cancel deny message deletes"),
            (deniesPurge || !old.deniesPurge, "cancel deny purge"),
        ]
        for (holds, what) in rules where !holds {
            throw .configuration("stream configuration update can not \(what)")
        }
        guard isSealed else { return }
        maxAge = 0
        discardsNew = true
        deniesDelete = true
        deniesPurge = true
    }

    /// The JSON in answers.
    var json: String { json(isListed: false) }

    /// - Parameter isListed: whether it is an entry of a list.
    func json(isListed: Bool) -> String {
        var writer = JSONWriter()
        writer.put("name", name)
        writer.put("subjects", subjects)
        writer.put("retention", "limits")
        writer.put("max_consumers", -1)
        writer.put("max_msgs", maxMessages)
        writer.put("max_bytes", maxBytes)
        writer.put("max_age", maxAge)
        writer.put("max_msgs_per_subject", maxMessagesPerSubject)
        writer.put("max_msg_size", maxMessageSize)
        writer.put("discard", discardsNew ? "new" : "old")
        writer.put("storage", isInMemory ? "memory" : "file")
        writer.put("num_replicas", replicas)
        writer.put("duplicate_window", duplicateWindow)
        writer.put("compression", "none")
        if let republish {
            var inner = JSONWriter()
            inner.put("src", republish.source)
            inner.put("dest", republish.destination)
            if republish.isHeadersOnly { inner.put("headers_only", true) }
            writer.put("republish", raw: inner.object)
        }
        writer.put("allow_direct", allowsDirect)
        writer.put("mirror_direct", false)
        writer.put("sealed", isSealed)
        writer.put("deny_delete", deniesDelete)
        writer.put("deny_purge", deniesPurge)
        writer.put("allow_rollup_hdrs", false)
        writer.put("consumer_limits", raw: "{}")
        writer.put("allow_msg_ttl", false)
        var all = metadata
        all["_nats.req.level"] = "0"
        if !isListed { all.merge(["_nats.level": "5", "_nats.ver": "2.15.1"]) { $1 } }
        var inner = JSONWriter()
        for (name, value) in all.sorted(by: { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }) {
            inner.put(name, value)
        }
        writer.put("metadata", raw: inner.object)
        return writer.object
    }
}

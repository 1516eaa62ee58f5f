// StreamConfiguration: the configuration of a stream to create.

/// A stream that is stored in files, drops its oldest messages at its limits, and answers direct gets.
public struct StreamConfiguration: Equatable, Sendable {
    /// Publishes each stored message again, to a subject to which clients subscribe.
    public struct Republish: Equatable, Sendable {
        public var source: String
        public var destination: String

        public init(source: String, destination: String) {
            self.source = source
            self.destination = destination
        }
    }

    public var name: String
    public var subjects: [String]
    public var republish: Republish?
    /// 1 to 5.
    public var replicas = 1
    /// Messages, bytes and nanoseconds; nil for no limit.
    public var maxMessages: Int?
    public var maxBytes: Int?
    public var maxAge: UInt64?
    /// How long the server remembers message ids, in nanoseconds; nil for the server's default, two minutes.
    public var duplicateWindow: UInt64?
    public var metadata: [String: String] = [:]

    public init(name: String, subjects: [String]) {
        self.name = name
        self.subjects = subjects
    }

    var json: JSONObjectWriter {
        var json = JSONObjectWriter()
        json.add("name", name)
        json.add("subjects", subjects)
        json.add("retention", "limits")
        json.add("storage", "file")
        json.add("discard", "old")
        json.add("num_replicas", replicas)
        json.add("max_msgs", maxMessages ?? -1)
        json.add("max_bytes", maxBytes ?? -1)
        json.add("max_age", maxAge ?? 0)
        if let duplicateWindow { json.add("duplicate_window", duplicateWindow) }
        json.add("allow_direct", true)
        if let republish {
            var both = JSONObjectWriter()
            both.add("src", republish.source)
            both.add("dest", republish.destination)
            json.add("republish", both)
        }
        if !metadata.isEmpty {
            var all = JSONObjectWriter()
            for (key, value) in metadata.sorted(by: { $0.key < $1.key }) { all.add(key, value) }
            json.add("metadata", all)
        }
        return json
    }
}

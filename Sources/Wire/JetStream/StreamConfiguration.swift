// StreamConfiguration: how a stream is created. Its messages are in files, and the oldest give way to new ones.

import Bytes

/// The configuration of a stream whose messages any of its servers can deliver (`allow_direct`).
public struct StreamConfiguration: Sendable {
    /// Where the server publishes the messages that it has stored, with the headers that `JetStreamMessage` reads.
    public struct Republish: Equatable, Sendable {
        /// Which subjects; may contain wildcards.
        public var source: String
        /// May refer to the wildcards of `source`.
        public var destination: String

        public init(source: String, destination: String) {
            self.source = source
            self.destination = destination
        }
    }

    /// One token of a subject.
    public var name: String
    /// May contain wildcards. No other stream may have a subject that overlaps.
    public var subjects: [String]
    public var republish: Republish?
    /// The number of servers that store each message, 1 to 5.
    public var replicas = 1
    /// How many messages the stream keeps; -1 for any number.
    public var maxMessages = -1
    /// How many bytes the stream keeps; -1 for any number.
    public var maxBytes = -1
    /// How long the stream keeps a message, in nanoseconds; 0 for ever.
    public var maxAge: Int64 = 0
    /// How long the stream ignores a message with an id that it has stored, in nanoseconds, at least 100 ms. No longer
    /// than `maxAge`, whatever is set.
    public var duplicateWindow: Int64 = 120_000_000_000
    public var metadata: [String: String] = [:]

    public init(name: String, subjects: [String]) {
        self.name = name
        self.subjects = subjects
    }

    var json: String {
        var members = [
            ("name", JSONText.quoted(name)),
            ("subjects", "[\(subjects.map(JSONText.quoted).joined(separator: ","))]"),
            ("retention", "\"limits\""),
            ("storage", "\"file\""),
            ("discard", "\"old\""),
            ("num_replicas", "\(replicas)"),
            ("max_msgs", "\(maxMessages)"),
            ("max_bytes", "\(maxBytes)"),
            ("max_age", "\(maxAge)"),
            ("duplicate_window", "\(maxAge > 0 ? min(duplicateWindow, maxAge) : duplicateWindow)"),
            ("allow_direct", "true"),
        ]
        if let republish {
            members.append(
                (
                    "republish",
                    JSONText.object([
                        ("src", JSONText.quoted(republish.source)), ("dest", JSONText.quoted(republish.destination)),
                    ])
                ))
        }
        if !metadata.isEmpty {
            members.append(("metadata", JSONText.object(metadata)))
        }
        return JSONText.object(members)
    }
}

extension JSONText {
    static func object(_ members: [(name: String, json: String)]) -> String {
        "{\(members.map { "\(quoted($0.name)):\($0.json)" }.joined(separator: ","))}"
    }

    /// An object of strings, sorted by name.
    static func object(_ members: [String: String]) -> String {
        object(members.sorted { $0.key < $1.key }.map { ($0.key, quoted($0.value)) })
    }
}

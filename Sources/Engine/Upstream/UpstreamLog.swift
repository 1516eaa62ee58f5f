// UpstreamLog: what the upstream writes to the log. What happens again and again is written once.

import Core
import NATS

struct UpstreamLog {
    private var records: [LogRecord] = []
    /// What was written since the last connection.
    private var known: Set<String> = []
    private static let mostKnown = 64

    /// Empties it.
    mutating func take() -> [LogRecord] {
        defer { records.removeAll(keepingCapacity: true) }
        return records
    }

    mutating func connected(to server: NATSServerAddress, version: String) {
        known.removeAll()
        records.append(
            LogRecord(
                level: .info, message: "connected to NATS", fields: [("server", "\(server)"), ("version", version)]))
    }

    /// - Parameters:
    ///   - hasServer: whether there is a connection to a server, on which JetStream does not work.
    ///   - isNew: whether it has worked before.
    mutating func lost(_ cause: String, hasServer: Bool, isNew: Bool) {
        let isUnknown = note(cause)
        let message = hasServer ? "NATS JetStream is not available" : "not connected to NATS"
        if isNew || isUnknown { warn(message, [("cause", cause)]) }
    }

    /// NATS refuses what a topic needs, or what the node does.
    /// - Parameter topic: nil if it is not known which topic is concerned.
    mutating func refused(_ cause: String, topic: String?) {
        if note(cause) { warn("refused by NATS", (topic.map { [("topic", $0)] } ?? []) + [("cause", cause)]) }
    }

    /// Returns whether a text is to be written: it was not yet, and there are not too many.
    private mutating func note(_ text: String) -> Bool {
        known.count < UpstreamLog.mostKnown && known.insert(text).inserted
    }

    /// Subscriptions to patterns that begin with what topics retain are refused.
    mutating func unlisted() {
        if note("unlisted") {
            warn("NATS JetStream has not listed all shared topics", [("effect", "patterns with history are refused")])
        }
    }

    /// A topic's stream was deleted.
    mutating func gone(_ topic: String, stream: String) {
        warn("the stream of a shared topic was deleted", [("topic", topic), ("stream", stream)])
    }

    /// JetStream has lost messages of a topic.
    mutating func lost(_ topic: String) {
        records.append(
            LogRecord(
                level: .error, message: "NATS JetStream has lost acknowledged messages; the topic begins again",
                fields: [("topic", topic)]))
    }

    private mutating func warn(_ message: String, _ fields: [LogField]) {
        records.append(LogRecord(level: .warning, message: message, fields: fields, isFrequent: false))
    }
}

// UpstreamLog: what the upstream writes to the log. What happens again and again is written once.

import Core
import NATS

struct UpstreamLog {
    private var records: [LogRecord] = []
    /// The causes that were written since the last connection.
    private var causes: Set<String> = []
    private static let mostCauses = 64
    private var lastRefusal = ""

    /// Empties it.
    mutating func take() -> [LogRecord] {
        defer { records.removeAll(keepingCapacity: true) }
        return records
    }

    mutating func connected(to server: NATSServerAddress, version: String) {
        causes.removeAll()
        records.append(
            LogRecord(
                level: .info, message: "connected to NATS", fields: [("server", "\(server)"), ("version", version)]))
    }

    /// - Parameter isNew: whether there was a connection before.
    mutating func lost(_ cause: String, isNew: Bool) {
        let isKnown = !causes.insert(cause).inserted || causes.count > UpstreamLog.mostCauses
        if isNew || !isKnown { warn("not connected to NATS", [("cause", cause)]) }
    }

    /// NATS refuses what a topic needs, or what the node does.
    /// - Parameter topic: nil if it is not known which topic is concerned.
    mutating func refused(_ cause: String, topic: String?) {
        guard cause != lastRefusal else { return }
        lastRefusal = cause
        warn("refused by NATS", (topic.map { [("topic", $0)] } ?? []) + [("cause", cause)])
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

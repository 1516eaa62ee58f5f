// TopUpstream: the broker's connection to NATS, in one line.

struct TopUpstream {
    let isConnected: Bool
    /// "NATS: connected to nats://10.0.0.5:4222 for 5 min 02 s, 3 publishes waiting for up to 1.2 s, 12 topics"
    let words: String

    init(_ row: JSON) {
        func number(_ field: String) -> UInt64 { row[field]?.unsigned ?? 0 }
        func text(_ field: String) -> String { SafeText.name(row[field]?.text ?? "") }
        isConnected = row["connected"] == .bool(true)
        let time = Units.duration(milliseconds: number("since_ms"))
        guard isConnected else {
            let effect = row["unavailable"] == .bool(true) ? "; shared topics are unavailable" : ""
            let cause = text("cause")
            words = "NATS: not connected for \(time)" + effect + (cause.isEmpty ? "" : ": \(cause)")
            return
        }
        func counted(_ count: UInt64, _ one: String, _ many: String) -> String {
            "\(Units.grouped(count)) \(count == 1 ? one : many)"
        }
        // The end of the line may not fit on the screen.
        var parts = ["connected to \(text("server")) for \(time)"]
        if number("publishes_waiting") > 0 {
            let wait = Units.duration(milliseconds: number("publish_wait_ms"))
            let many = counted(number("publishes_waiting"), "publish waiting", "publishes waiting")
            parts.append("\(many) for up to \(wait)")
        }
        if number("unread") > 0 { parts.append(counted(number("unread"), "message to read", "messages to read")) }
        if number("lost") > 0 { parts.append(counted(number("lost"), "message lost", "messages lost")) }
        parts.append(counted(number("topics"), "topic", "topics"))
        if number("topics_joining") > 0 { parts.append("\(Units.grouped(number("topics_joining"))) joining") }
        if number("topics_absent") > 0 { parts.append("\(Units.grouped(number("topics_absent"))) absent") }
        words = "NATS: " + parts.joined(separator: ", ")
    }
}

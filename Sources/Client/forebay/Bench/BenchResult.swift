// BenchResult: what `bench` measured, as text and as JSON, and whether it meets expectations.

import Bytes
import Client
import Measure

struct BenchResult {
    let settings: BenchSettings
    /// The messages of all publishers.
    let published: UInt64
    let publications: BenchPublications
    let deliveries: BenchDeliveries
    /// Why subscriptions ended, if the overflow policy ended them.
    let failures: [ClientError]
    let began: BenchMoment
    /// The moment when everything published had been acknowledged.
    let publishing: BenchMoment
    let isInterrupted: Bool
    /// Whether the run waited for all deliveries.
    let isWhole: Bool

    /// Above this fraction of a CPU, the client is considered a possible bottleneck.
    private static let busy = 0.85

    /// Seconds from the start until everything published was acknowledged, and until the last delivery.
    var publishSeconds: Double { seconds(until: publishing.time) }
    var deliverySeconds: Double { seconds(until: deliveries.last) }

    private func seconds(until time: UInt64) -> Double { time > began.time ? Double(time - began.time) / 1e9 : 0 }

    /// The fraction of one CPU that this process used while it published.
    var clientCPU: Double {
        Double(publishing.cpu - began.cpu) / max(Double(publishing.time - began.time), 1)
    }

    /// The fraction of the time in which this process was ready to run while others had the CPUs.
    var clientWaited: Double {
        let waited = publishing.waited > began.waited ? publishing.waited - began.waited : 0
        return Double(waited) / max(Double(publishing.time - began.time), 1)
    }

    /// The fraction of the publishers' time spent waiting for credit.
    var stalledPart: Double {
        Double(publications.stalled) / 1e9 / max(publishSeconds * Double(settings.publishers), 1e-9)
    }

    private var messagesPerRead: Double { Double(deliveries.messages) / Double(max(deliveries.reads, 1)) }

    private func perSecond(_ count: UInt64, _ seconds: Double) -> Double {
        seconds > 0 ? Double(count) / seconds : 0
    }

    /// With a rate: messages that were due and not sent.
    private var unsent: UInt64 {
        guard settings.rate != nil, !isInterrupted, failures.isEmpty else { return 0 }
        return (0..<settings.publishers).reduce(0) { $0 + settings.quota(of: $1) } - published
    }

    // MARK: Verdict

    /// What does not meet expectations; empty if everything does.
    var complaints: [String] {
        var out: [String] = []
        if deliveries.misplaced > 0 {
            out.append("\(counted(deliveries.misplaced, "message")) arrived twice or out of order.")
        }
        if deliveries.lost > 0, settings.overflow == .block, isWhole {
            let lost = counted(deliveries.lost, "delivery was", "deliveries were")
            out.append("\(lost) lost, although 'block' must not lose any.")
        }
        if unsent > 0 {
            let messages = counted(unsent, "message was", "messages were")
            out.append("\(messages) due but not sent; the broker does not accept that rate.")
        }
        if let first = failures.first {
            out.append("\(failures.count) of \(settings.subscribers) subscriptions failed: \(first.message)")
        }
        if !isWhole {
            out.append(
                isInterrupted
                    ? "Interrupted again: messages in flight were not awaited and may count as lost."
                    : "Not every subscriber reached the end: messages in flight may count as lost.")
        }
        return out
    }

    // MARK: For people

    func text() -> String {
        var rows = [["", "per second", "MB/s", "total", ""]]
        rows.append(row("published", published, publishSeconds, ""))
        if settings.ack {
            let perSecond = perSecond(publications.acknowledged, publishSeconds)
            rows.append(["acknowledged", plain(perSecond), "", Units.grouped(publications.acknowledged), ""])
        }
        if settings.subscribers > 0 {
            rows.append(
                row(
                    "delivered", deliveries.messages, deliverySeconds,
                    "\(Units.fixed(messagesPerRead, 1)) messages per read"))
            rows.append(["lost", "", "", Units.grouped(deliveries.lost), lostNote])
        }
        if !settings.ack {
            let part = "without credit \(Units.fixed(stalledPart * 100, 1)) % of the time"
            rows.append(["credit stalls", "", "", Units.grouped(publications.stalls), part])
        }
        var out = heading + "\n\n" + Self.grid(rows)
        if deliveries.latency.count > 0 || publications.late.count > 0 { out += "\n" + latencies() }
        if deliveries.foreign > 0 {
            out +=
                "\n\(Units.counted(deliveries.foreign, "message")) of other publishers arrived and were not counted.\n"
        }
        return out + "\n" + advice + "\n"
    }

    private var heading: String {
        func plural(_ count: Int, _ noun: String) -> String { Units.counted(UInt64(count), noun) }
        var parts = [
            SafeText.line(settings.topic), plural(settings.publishers, "publisher"),
            plural(settings.subscribers, "subscriber"), plural(settings.size, "byte"),
        ]
        if let rate = settings.rate { parts.append("\(Units.rate(rate)) scheduled") }
        parts.append(settings.overflow.name)
        if let buffer = settings.buffer { parts.append("buffer \(Units.grouped(UInt64(buffer)))") }
        parts.append(settings.request.map { "\(Units.grouped(UInt64($0))) requested at a time" } ?? "demand unbounded")
        return parts.joined(separator: " · ")
    }

    private func row(_ name: String, _ count: UInt64, _ seconds: Double, _ note: String) -> [String] {
        let perSecond = perSecond(count, seconds)
        let megabytes = Units.fixed(perSecond * Double(settings.size) / 1e6, 1)
        return [name, plain(perSecond), megabytes, Units.grouped(count), note]
    }

    private func plain(_ number: Double) -> String {
        number < 100 ? Units.fixed(number, 1) : Units.grouped(UInt64(min(number.rounded(), 1e15)))
    }

    private var lostNote: String {
        guard settings.isNumbered else {
            return "by count: payloads below \(BenchMessage.headerSize) bytes are not numbered"
        }
        let all = Double(deliveries.lost) + Double(deliveries.messages)
        return deliveries.lost > 0 ? "\(Units.fixed(Double(deliveries.lost) / all * 100, 2)) % of all deliveries" : ""
    }

    private func latencies() -> String {
        var rows = [["milliseconds"] + Self.quantiles.map(\.name) + ["max", ""]]
        func add(_ name: String, _ histogram: Histogram, _ note: String) {
            let values = Self.quantiles.map { histogram.value(at: $0.part) } + [histogram.maximum]
            rows.append([name] + values.map { Units.fixed(Double($0) / 1e6, 3) } + [note])
        }
        if deliveries.latency.count > 0 { add("latency", deliveries.latency, "from the scheduled time") }
        if publications.late.count > 0 { add("sent late", publications.late, "by this client; included above") }
        return Self.grid(rows)
    }

    private static let quantiles: [(name: String, key: String, part: Double)] = [
        ("p50", "p50", 0.5), ("p99", "p99", 0.99), ("p99.9", "p99_9", 0.999), ("p99.99", "p99_99", 0.9999),
    ]

    /// Describes how far the client itself may have limited the results.
    private var advice: String {
        func percent(_ part: Double) -> String { "\(Units.fixed(part * 100, 0)) %" }
        var text = "The client used \(percent(clientCPU)) of a CPU"
        if clientWaited >= 0.01 { text += " and waited for a CPU \(percent(clientWaited)) of the time" }
        if settings.rate != nil {
            text += "; it does not sleep while messages are due. Late messages are caused by the client."
        } else if clientCPU + clientWaited >= Self.busy {
            text += ". Its only thread may be the bottleneck, rather than the broker."
        } else {
            text += "; it is probably not the bottleneck."
        }
        return Help.wrap(text, width: Help.width, indent: 0)
    }

    /// Rows of equal length: the first and last columns are left-aligned, the others right-aligned.
    static func grid(_ rows: [[String]]) -> String {
        guard let last = rows.first.map({ $0.count - 1 }) else { return "" }
        let widths = (0...last).map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            var line = ""
            for (column, text) in row.enumerated() {
                let pad = String(repeating: " ", count: widths[column] - text.count)
                line += column == 0 ? text + pad : "  " + (column == last ? text : pad + text)
            }
            while line.last == " " { line.removeLast() }
            return line + "\n"
        }.joined()
    }

    // MARK: For programs

    func json() -> String {
        var fields: [(String, String)] = [
            ("topic", JSONText.quoted(settings.topic)), ("publishers", "\(settings.publishers)"),
            ("subscribers", "\(settings.subscribers)"), ("size", "\(settings.size)"),
            ("overflow", JSONText.quoted(settings.overflow.name)), ("interrupted", "\(isInterrupted)"),
            ("published", "\(published)"), ("publish_seconds", Units.fixed(publishSeconds, 6)),
            ("published_per_second", decimal(perSecond(published, publishSeconds))),
            ("delivered", "\(deliveries.messages)"), ("delivery_seconds", Units.fixed(deliverySeconds, 6)),
            ("delivered_per_second", decimal(perSecond(deliveries.messages, deliverySeconds))),
            (
                "delivered_bytes_per_second",
                decimal(perSecond(deliveries.messages, deliverySeconds) * Double(settings.size))
            ),
            ("messages_per_read", decimal(messagesPerRead)), ("lost", "\(deliveries.lost)"),
            ("misplaced", "\(deliveries.misplaced)"), ("foreign", "\(deliveries.foreign)"),
            ("failed_subscriptions", "\(failures.count)"),
        ]
        if settings.ack {
            fields.append(("acknowledged", "\(publications.acknowledged)"))
            fields.append(
                ("acknowledged_per_second", decimal(perSecond(publications.acknowledged, publishSeconds))))
        } else {
            fields.append(("credit_stalls", "\(publications.stalls)"))
            fields.append(("credit_stalled_part", Units.fixed(stalledPart, 4)))
        }
        if deliveries.latency.count > 0 { fields.append(("latency_ns", json(deliveries.latency))) }
        if publications.late.count > 0 { fields.append(("sent_late_ns", json(publications.late))) }
        fields.append(("client_cpu", Units.fixed(clientCPU, 4)))
        fields.append(("client_waited_for_cpu", Units.fixed(clientWaited, 4)))
        return "{" + fields.map { "\"\($0)\":\($1)" }.joined(separator: ",") + "}\n"
    }

    private func decimal(_ number: Double) -> String { Units.fixed(number, 1) }

    private func json(_ histogram: Histogram) -> String {
        let quantiles = Self.quantiles.map { "\"\($0.key)\":\(histogram.value(at: $0.part))" }
        return "{\"count\":\(histogram.count)," + quantiles.joined(separator: ",") + ",\"max\":\(histogram.maximum)}"
    }
}

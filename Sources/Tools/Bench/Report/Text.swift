// Text: numbers formatted for human readers.

import Glibc

enum Text {
    /// Pads `text` to at least `width` columns.
    static func pad(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }

    static func padLeft(_ text: String, _ width: Int) -> String {
        String(repeating: " ", count: max(0, width - text.count)) + text
    }

    /// `value` with this many decimals, and commas between thousands.
    static func number(_ value: Double, decimals: Int) -> String {
        guard value.isFinite else { return "-" }
        var scale = 1.0
        for _ in 0..<decimals { scale *= 10 }
        let whole = Int64((abs(value) * scale).rounded())
        let digits = String(whole / Int64(scale))
        var text = ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index) % 3 == 0 { text.append(",") }
            text.append(digit)
        }
        if decimals > 0 {
            let fraction = String(whole % Int64(scale))
            text += "." + String(repeating: "0", count: decimals - fraction.count) + fraction
        }
        return (value < 0 && whole > 0 ? "-" : "") + text
    }

    /// Three significant digits.
    static func short(_ value: Double) -> String {
        number(value, decimals: abs(value) < 10 ? 2 : abs(value) < 100 ? 1 : 0)
    }

    /// In the metric's unit: nanoseconds of CPU, microseconds of latency, MiB or KiB of memory.
    static func value(_ value: Double, _ metric: Metric) -> String {
        switch metric {
        case .p50, .p99, .p99Alone, .p999, .p9999, .maximum: return short(value / 1000) + " µs"
        case .resident, .peak, .growth, .anonymousGrowth: return short(value / 1_048_576) + " MiB"
        case .perSubscriber: return short(value / 1024) + " KiB"
        case .perTopic: return number(value, decimals: 0) + " B"
        case .cpuPerDelivery, .cpuPerAcknowledgement, .cpuPerRequest, .perMessage: return short(value) + " ns"
        case .utilisation, .generator, .brokerWaited, .generatorWaited: return number(value * 100, decimals: 0) + " %"
        case .rest: return number(value * 100, decimals: 2) + " %"
        case .seconds: return short(value) + " s"
        case .deliveriesPerSecond, .acknowledgementsPerSecond, .acknowledgementsPerCPUSecond, .requestsPerCPUSecond,
            .requestsPerSecond, .rate, .pairs:
            return number(value, decimals: 0) + "/s"
        case .batch, .slowdown: return short(value)
        case .lost, .dropped, .disconnected, .connections: return number(value, decimals: 0)
        }
    }

    static func complain(_ line: String) {
        var line = line + "\n"
        line.withUTF8 { _ = write(2, $0.baseAddress, $0.count) }
    }
}

// LogFormat: formats a record as a line of text or JSON. Pure, so a table can test it.

import Bytes
import Core
import Glibc

/// The format of log lines.
public enum LogFormat: String, Sendable, CaseIterable {
    /// `2026-10-05T12:34:56.789012Z info listening protocol=rsocket address=127.0.0.1:7690`
    case text
    /// The same as an object: `{"time":"…","level":"info","message":"listening","protocol":"rsocket",…}`
    case json

    /// The line for a record, with its line feed. The line contains no other control characters, whatever the fields
    /// hold.
    /// - Parameter wall: nanoseconds since 1970.
    func line(
        wall: Int64, level: LogRecord.Level, message: String, fields: [LogField]
    ) -> String {
        var line = ""
        switch self {
        case .text:
            line += "\(timestamp(wall)) \(level.name) "
            line += JSONText.escaped(message)
            for (key, value) in fields {
                let value = "\(value)"
                line += " \(key)="
                line += needsQuotes(value) ? JSONText.quoted(value) : value
            }
        case .json:
            line +=
                "{\"time\":\"\(timestamp(wall))\",\"level\":\"\(level.name)\",\"message\":\(JSONText.quoted(message))"
            for (key, value) in fields {
                // A field must not replace one that every line has.
                line += "," + JSONText.quoted(["time", "level", "message"].contains(key) ? key + "_" : key)
                line += ":" + ((value as? String).map(JSONText.quoted) ?? "\(value)")
            }
            line += "}"
        }
        return line + "\n"
    }
}

extension LogRecord.Level {
    /// The name in log lines and for `--log-level`.
    public var name: String {
        switch self {
        case .debug: "debug"
        case .info: "info"
        case .warning: "warn"
        case .error: "error"
        }
    }

    public init?(name: String) {
        guard let level = [.debug, .info, .warning, .error].first(where: { (level: Self) in level.name == name })
        else { return nil }
        self = level
    }
}

/// RFC 3339 in UTC, to the microsecond.
func timestamp(_ wall: Int64) -> String {
    var microseconds = floorDivide(wall, 1000)
    var seconds = time_t(floorDivide(microseconds, 1_000_000))
    microseconds -= Int64(seconds) * 1_000_000
    var parts = tm()
    gmtime_r(&seconds, &parts)
    let date = "\(padded(parts.tm_year + 1900, 4))-\(padded(parts.tm_mon + 1, 2))-\(padded(parts.tm_mday, 2))"
    let time = "\(padded(parts.tm_hour, 2)):\(padded(parts.tm_min, 2)):\(padded(parts.tm_sec, 2))"
    return "\(date)T\(time).\(padded(microseconds, 6))Z"
}

private func floorDivide(_ value: Int64, _ divisor: Int64) -> Int64 {
    let (quotient, rest) = value.quotientAndRemainder(dividingBy: divisor)
    return rest < 0 ? quotient - 1 : quotient
}

private func padded(_ value: some BinaryInteger, _ width: Int) -> String {
    let digits = String(value)
    return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
}

private func needsQuotes(_ value: String) -> Bool {
    let special: (Unicode.Scalar) -> Bool = {
        $0 == " " || $0 == "\"" || $0 == "=" || $0 == "\\" || TextScan.isControl($0.value)
    }
    return value.isEmpty || value.unicodeScalars.contains(where: special)
}

// LogFormat: one record as one line of text or JSON. Pure, so that its tests are a table.

import Core
import Glibc

/// How log lines look.
public enum LogFormat: String, Sendable, CaseIterable {
    /// `2026-10-05T12:34:56.789012Z info listening protocol=rsocket address=127.0.0.1:7690`
    case text
    /// The same as an object: `{"time":"…","level":"info","message":"listening","protocol":"rsocket",…}`
    case json

    /// The line for a record, with its line feed. It has no other control character in it, whatever the fields hold.
    /// - Parameter wall: nanoseconds since 1970.
    func line(
        wall: Int64, level: LogRecord.Level, message: String, fields: [LogField]
    ) -> String {
        var line = ""
        switch self {
        case .text:
            line += "\(timestamp(wall)) \(level.name) "
            escape(message, into: &line)
            for (key, value) in fields {
                let value = "\(value)"
                line += " \(key)="
                if needsQuotes(value) {
                    appendQuoted(value, to: &line)
                } else {
                    line += value
                }
            }
        case .json:
            line += "{\"time\":\"\(timestamp(wall))\",\"level\":\"\(level.name)\",\"message\":"
            appendQuoted(message, to: &line)
            for (key, value) in fields {
                line += ","
                // A field cannot stand in for what every line has.
                appendQuoted(["time", "level", "message"].contains(key) ? key + "_" : key, to: &line)
                line += ":"
                if let text = value as? String {
                    appendQuoted(text, to: &line)
                } else {
                    line += "\(value)"
                }
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
private func timestamp(_ wall: Int64) -> String {
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
    let special: (Unicode.Scalar) -> Bool = { $0 == " " || $0 == "\"" || $0 == "=" || $0 == "\\" || isUnsafe($0) }
    return value.isEmpty || value.unicodeScalars.contains(where: special)
}

/// What could end a line, steer a terminal, or turn round what is read there.
private func isUnsafe(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0..<0x20, 0x7F..<0xA0, 0x2028...0x202E, 0x2066...0x2069: true
    default: false
    }
}

private func appendQuoted(_ value: String, to line: inout String) {
    line += "\""
    for scalar in value.unicodeScalars {
        if scalar == "\"" || scalar == "\\" { line += "\\" }
        append(scalar, to: &line)
    }
    line += "\""
}

private func escape(_ message: String, into line: inout String) {
    for scalar in message.unicodeScalars { append(scalar, to: &line) }
}

/// Appends `scalar`, an unsafe one in JSON's escapes, which the text format shares.
private func append(_ scalar: Unicode.Scalar, to line: inout String) {
    guard isUnsafe(scalar) else {
        line.unicodeScalars.append(scalar)
        return
    }
    switch scalar {
    case "\n": line += "\\n"
    case "\r": line += "\\r"
    case "\t": line += "\\t"
    default:
        let digits = String(scalar.value, radix: 16)
        line += "\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
    }
}

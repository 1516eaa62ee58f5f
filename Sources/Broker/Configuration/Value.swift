// Value: converts text to the values of settings and back. The file, the environment and the command line share it, so
// all three accept the same syntax.

/// Why a text is not a valid value, phrased to follow the text in a sentence: "is not a number from 1 to 256".
public struct ValueFault: Error, Equatable, Sendable {
    public var words: String

    public init(_ words: String) { self.words = words }
}

public enum Value {
    public static func number(_ text: String, in range: ClosedRange<Int>) throws(ValueFault) -> Int {
        let isDecimal = !text.isEmpty && text.utf8.allSatisfy { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }
        guard isDecimal, let number = Int(text), range.contains(number) else {
            throw ValueFault("is not a number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// Bytes: a number, optionally with K, M or G (or KiB, MiB, GiB; powers of 1,024) in either case.
    public static func size(_ text: String, in range: ClosedRange<Int>) throws(ValueFault) -> Int {
        guard let size = parseByteSize(text), range.contains(size) else {
            let bounds = "\(formatByteSize(range.lowerBound)) to \(formatByteSize(range.upperBound))"
            let examples = [("4K", 4 << 10), ("64K", 64 << 10), ("64M", 64 << 20), ("1G", 1 << 30)]
            throw ValueFault(
                "is not a size from \(bounds)" + described(examples.filter { range.contains($0.1) }.map(\.0)))
        }
        return size
    }

    /// Nanoseconds: a number with ms, s, m, h or d.
    public static func time(_ text: String, in range: ClosedRange<UInt64>) throws(ValueFault) -> UInt64 {
        guard let time = parseTime(text), range.contains(time) else {
            let bounds = "\(formatTime(range.lowerBound)) to \(formatTime(range.upperBound))"
            let examples = ["500ms", "30s", "5m"].filter { parseTime($0).map(range.contains) == true }
            throw ValueFault("is not a time from \(bounds)" + described(examples))
        }
        return time
    }

    /// ", for example 30s or 5m"; empty if there are no examples.
    private static func described(_ examples: [String]) -> String {
        guard let last = examples.last else { return "" }
        let others = examples.dropLast().joined(separator: ", ")
        return ", for example " + (others.isEmpty ? last : "\(others) or \(last)")
    }

    public static func truth(_ text: String) throws(ValueFault) -> Bool {
        switch text.lowercased() {
        case "true", "yes", "on": return true
        case "false", "no", "off": return false
        default: throw ValueFault("is neither true nor false")
        }
    }
}

/// Parses a number of bytes with an optional K, M or G (or KiB, MiB, GiB; powers of 1,024) in either case. Nil if it
/// is invalid or overflows.
public func parseByteSize(_ text: String) -> Int? {
    let (number, unit) = split(text)
    guard let number = Int(number) else { return nil }
    let shift: Int
    switch unit.lowercased() {
    case "", "b": shift = 0
    case "k", "kib": shift = 10
    case "m", "mib": shift = 20
    case "g", "gib": shift = 30
    default: return nil
    }
    let (bytes, overflow) = number.multipliedReportingOverflow(by: 1 << shift)
    return overflow ? nil : bytes
}

/// The size in the largest unit that divides it: "16M".
public func formatByteSize(_ bytes: Int) -> String {
    let unit = bytes > 0 ? min(bytes.trailingZeroBitCount / 10, 3) : 0
    return String(bytes >> (10 * unit)) + ["", "K", "M", "G"][unit]
}

private let units: [(name: String, nanoseconds: UInt64)] = [
    ("d", 86_400_000_000_000), ("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000),
    ("ms", 1_000_000),
]

/// Parses a time such as "500ms", "30s", "5m", "2h" or "7d" into nanoseconds. Nil if it is invalid or overflows. A
/// number without a unit is invalid because it is ambiguous.
public func parseTime(_ text: String) -> UInt64? {
    let (number, unit) = split(text)
    guard let number = UInt64(number), let unit = units.first(where: { $0.name == unit }) else { return nil }
    let (time, overflow) = number.multipliedReportingOverflow(by: unit.nanoseconds)
    return overflow ? nil : time
}

/// The time in the largest unit that divides it: "5m". Fractions of a millisecond are dropped.
public func formatTime(_ time: UInt64) -> String {
    for (name, nanoseconds) in units where time > 0 && time % nanoseconds == 0 { return "\(time / nanoseconds)\(name)" }
    return "\(time / 1_000_000)ms"
}

/// Splits the leading digits from the rest.
private func split(_ text: String) -> (number: Substring, unit: Substring) {
    let digits = text.prefix { $0.isASCII && $0.isNumber }
    return (digits, text.dropFirst(digits.count))
}

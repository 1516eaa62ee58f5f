// ByteSize: sizes as people write them, "64M" or "1GiB".

/// Reads a number of bytes with an optional K, M or G (or KiB, MiB, GiB; of 1,024) in either case. Nil when it is no
/// such thing or too large to count.
func parseByteSize(_ text: String) -> Int? {
    let digits = text.prefix { $0.isASCII && $0.isNumber }
    guard let number = Int(digits) else { return nil }
    let shift: Int
    switch text.dropFirst(digits.count).lowercased() {
    case "", "b": shift = 0
    case "k", "kib": shift = 10
    case "m", "mib": shift = 20
    case "g", "gib": shift = 30
    default: return nil
    }
    let (bytes, overflow) = number.multipliedReportingOverflow(by: 1 << shift)
    return overflow ? nil : bytes
}

/// The size in the largest unit that leaves no rest: "16M".
func formatByteSize(_ bytes: Int) -> String {
    for (shift, unit) in [(30, "G"), (20, "M"), (10, "K")] where bytes > 0 && bytes & ((1 << shift) - 1) == 0 {
        return "\(bytes >> shift)\(unit)"
    }
    return String(bytes)
}

// JetStreamTime: the times that NATS servers write, such as 2026-11-27T15:53:27.21923688Z: RFC 3339 in UTC, with a
// fraction of up to nine digits without trailing zeros.

enum JetStreamTime {
    static func parse(_ text: String) -> Int64? {
        var text = text
        return text.withUTF8 { parse(UnsafeRawBufferPointer($0)) }
    }

    /// The time in ns since 1970; nil if it has another form or is not between 1970 and 2262.
    static func parse(_ text: UnsafeRawBufferPointer) -> Int64? {
        guard text.count >= 20, text.count <= 30, text[text.count - 1] == UInt8(ascii: "Z"),
            let year = number(text, 0, 4, "-"), let month = number(text, 5, 2, "-"), let day = number(text, 8, 2, "T"),
            let hour = number(text, 11, 2, ":"), let minute = number(text, 14, 2, ":"),
            let second = number(text, 17, 2, nil),
            (1970...2261).contains(year), (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60,
            second <= 60
        else { return nil }
        var fraction: Int64 = 0
        if text.count > 20 {
            let digits = text.count - 21
            guard text[19] == UInt8(ascii: "."), digits > 0, let value = number(text, 20, digits, nil) else {
                return nil
            }
            fraction = (digits..<9).reduce(value) { product, _ in 10 * product }
        }
        // Years begin in March, so that a leap day is the last day of its year.
        let shifted = month > 2 ? year : year - 1
        let beforeMonth = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5
        let days = 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + beforeMonth + day - 1 - 719_468
        return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000_000 + fraction
    }

    /// The value of `count` digits, which `separator` follows.
    private static func number(
        _ text: UnsafeRawBufferPointer, _ start: Int, _ count: Int, _ separator: Unicode.Scalar?
    ) -> Int64? {
        var value: Int64 = 0
        for index in start..<start + count {
            let digit = text[index] &- UInt8(ascii: "0")
            guard digit < 10 else { return nil }
            value = 10 * value + Int64(digit)
        }
        if let separator, UInt32(text[start + count]) != separator.value { return nil }
        return value
    }
}

// ServerTime: a time as NATS servers write it: RFC 3339 in UTC, with up to nine digits of a fraction. It is read in
// place; `StartTime` allocates.

import Bytes
import ForebayWire

enum ServerTime {
    /// The time in ns since 1970; nil if the text has another form or the time is not between 1970 and 2262.
    static func parse(_ text: UnsafeRawBufferPointer) -> Int64? {
        // 2026-11-27T15:54:24, perhaps a fraction, Z.
        guard text.count >= 20, text.count <= 30, text[text.count - 1] == UInt8(ascii: "Z"),
            text[4] == UInt8(ascii: "-"), text[7] == UInt8(ascii: "-"), text[10] == UInt8(ascii: "T"),
            text[13] == UInt8(ascii: ":"), text[16] == UInt8(ascii: ":"),
            let year = number(text, 0..<4), let month = number(text, 5..<7), let day = number(text, 8..<10),
            let hour = number(text, 11..<13), let minute = number(text, 14..<16), let second = number(text, 17..<19),
            (1...12).contains(month), (1...StartTime.days(month, of: year)).contains(day),
            hour < 24, minute < 60, second < 60
        else { return nil }
        let days = StartTime.daysSince1970(year, month, day)
        let seconds = Int64(((days * 24 + hour) * 60 + minute) * 60 + second)
        let (whole, isFar) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        guard let fraction = fraction(text.slice(19..<text.count - 1)) else { return nil }
        let (time, isFarther) = whole.addingReportingOverflow(fraction)
        return !isFar && !isFarther && time >= 0 ? time : nil
    }

    /// `.` and 1 to 9 digits, in nanoseconds.
    private static func fraction(_ text: UnsafeRawBufferPointer) -> Int64? {
        if text.isEmpty { return 0 }
        guard text.count >= 2, text.count <= 10, text[0] == UInt8(ascii: "."),
            var value = number(text, 1..<text.count)
        else { return nil }
        for _ in text.count..<10 { value *= 10 }
        return Int64(value)
    }

    /// The digits in `range`, at most nine.
    private static func number(_ text: UnsafeRawBufferPointer, _ range: Range<Int>) -> Int? {
        var value = 0
        for index in range {
            let digit = text[index] &- UInt8(ascii: "0")
            guard digit < 10 else { return nil }
            value = value * 10 + Int(digit)
        }
        return value
    }
}

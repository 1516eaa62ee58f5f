// HTTPDate: a date in the format of HTTP's headers. RFC 9110, section 5.6.7.
//
//     Sat, 21 Nov 2026 08:01:14 GMT

public enum HTTPDate {
    private static let length = 29

    /// - Parameter nanoseconds: nanoseconds since 1970 UTC; earlier times are treated as 1970.
    public static func text(_ nanoseconds: Int64) -> String {
        let seconds = Int(max(nanoseconds, 0) / 1_000_000_000)
        let days = seconds / 86_400
        let time = seconds % 86_400
        let date = civil(days)
        return String(unsafeUninitializedCapacity: length) { text in
            // 1970 began on a Thursday.
            write("Thu, Fri, Sat, Sun, Mon, Tue, Wed, ", 5 * (days % 7), 5, to: text, at: 0)
            write(date.day, to: text, at: 5)
            write(" Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec ", 4 * date.month, 5, to: text, at: 7)
            write(date.year / 100, to: text, at: 12)
            write(date.year % 100, to: text, at: 14)
            write(" 00:00:00 GMT", 0, 13, to: text, at: 16)
            write(time / 3600, to: text, at: 17)
            write(time / 60 % 60, to: text, at: 20)
            write(time % 60, to: text, at: 23)
            return length
        }
    }

    /// Writes part of an ASCII text.
    private static func write(
        _ source: StaticString, _ start: Int, _ count: Int, to text: UnsafeMutableBufferPointer<UInt8>, at place: Int
    ) {
        for index in 0..<count { text[place + index] = source.utf8Start[start + index] }
    }

    /// Writes a number below 100 with two digits.
    private static func write(_ number: Int, to text: UnsafeMutableBufferPointer<UInt8>, at place: Int) {
        text[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number / 10)
        text[place + 1] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number % 10)
    }

    /// The date `days` days after 1970-01-01; months count from 0.
    ///
    /// Years are counted from March 1 of year 0, so that a leap day is the last day of its year.
    private static func civil(_ days: Int) -> (year: Int, month: Int, day: Int) {
        let daysOf400Years = 146_097
        let since = days + 719_468
        let cycle = since / daysOf400Years
        let day = since % daysOf400Years
        // Subtract the leap days so far: one every 4 years, none every 100, one every 400.
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365
        let dayOfYear = day - (365 * year + year / 4 - year / 100)
        // From March on, months have 31, 30, 31, 30, 31 days, twice; then the remaining two.
        let month = (5 * dayOfYear + 2) / 153
        let isNextYear = month >= 10
        return (
            year + 400 * cycle + (isNextYear ? 1 : 0), isNextYear ? month - 10 : month + 2,
            dayOfYear - (153 * month + 2) / 5 + 1
        )
    }
}

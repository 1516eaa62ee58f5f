// Timestamp: times as Go's time.RFC3339Nano writes them, in UTC.

enum Timestamp {
    /// What Go writes for no time.
    static let none = "0001-01-01T00:00:00Z"

    /// - Parameter nanoseconds: since 1970.
    static func text(_ nanoseconds: Int64) -> String {
        let second: Int64 = 1_000_000_000
        let seconds = nanoseconds.floored(by: second)
        let days = seconds.floored(by: 86_400)
        let (year, month, day) = date(days)
        let clock = seconds - days * 86_400
        var text = "\(padded(year, 4))-\(padded(month, 2))-\(padded(day, 2))T"
        text += "\(padded(clock / 3_600, 2)):\(padded(clock / 60 % 60, 2)):\(padded(clock % 60, 2))"
        var fraction = padded(nanoseconds - seconds * second, 9)
        while fraction.last == "0" { fraction.removeLast() }
        return text + (fraction.isEmpty ? "" : ".\(fraction)") + "Z"
    }

    /// The date that is `days` after 1970-01-01, in the Gregorian calendar. Years begin on March 1 here, so that a leap
    /// day is the last day of a year.
    private static func date(_ days: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let shifted = days + 719_468
        let era = shifted.floored(by: 146_097)
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
    }

    private static func padded(_ number: Int64, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
}

extension Int64 {
    /// The quotient, rounded down. `divisor` is positive.
    fileprivate func floored(by divisor: Int64) -> Int64 { self / divisor - (self % divisor < 0 ? 1 : 0) }
}

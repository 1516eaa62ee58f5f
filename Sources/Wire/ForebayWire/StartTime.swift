// StartTime: the time at which a subscription begins, the value of its option `since`: a time in ISO 8601, or a
// duration before the present. No Foundation, and no clock: the broker resolves durations by its own.

/// A time from which a subscription wants messages.
public enum StartTime: Equatable, Sendable {
    /// This time, in ns since 1970 UTC.
    case at(Int64)
    /// This many ns before the broker reads the request, 0 or more.
    case ago(Int64)

    /// Why a text is not a time. `description` is a sentence that says what to write.
    public struct Fault: Error, Equatable, CustomStringConvertible {
        public let description: String
    }

    /// Parses `2026-11-22T09:30:00Z`, with up to nine digits of a fraction and with `Z` or an offset such as `+01:00`,
    /// or a duration such as `-5m`, with one of the units ms, s, m, h and d.
    ///
    /// - Throws: `Fault` if the text has another form, is not a date of the calendar, or is not between 1970 and 2262.
    public init(_ text: String) throws(Fault) {
        let bytes = Array(text.utf8)
        if bytes.first == UInt8(ascii: "-") {
            self = .ago(try StartTime.duration(bytes.dropFirst(), text))
        } else {
            self = .at(try StartTime.time(bytes, text))
        }
    }

    /// The time in ns since 1970 UTC.
    /// - Parameter now: the present, likewise.
    public func resolved(now: Int64) -> Int64 {
        switch self {
        case .at(let time): return time
        case .ago(let duration):
            let (time, overflow) = now.subtractingReportingOverflow(duration)
            return overflow ? .min : time
        }
    }

    // Parsing

    private static let units: [(name: String, nanoseconds: Int64)] = [
        ("d", 86_400_000_000_000), ("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000),
        ("ms", 1_000_000),
    ]
    private static let second: Int64 = 1_000_000_000
    private static let longestFraction = 9

    private static func duration(_ bytes: ArraySlice<UInt8>, _ text: String) throws(Fault) -> Int64 {
        let digits = bytes.prefix(while: isDigit)
        let unit = bytes.dropFirst(digits.count)
        guard !digits.isEmpty, let unit = units.first(where: { $0.name.utf8.elementsEqual(unit) }) else {
            throw unknown(text)
        }
        var number: Int64 = 0
        for digit in digits {
            let (tens, isLarge) = number.multipliedReportingOverflow(by: 10)
            let (sum, isLarger) = tens.addingReportingOverflow(Int64(digit - UInt8(ascii: "0")))
            guard !isLarge, !isLarger else { throw tooLong(text) }
            number = sum
        }
        let (duration, isTooLong) = number.multipliedReportingOverflow(by: unit.nanoseconds)
        guard !isTooLong else { throw tooLong(text) }
        return duration
    }

    private static func time(_ bytes: [UInt8], _ text: String) throws(Fault) -> Int64 {
        var rest = bytes[...]
        guard let year = rest.number(4), rest.skip("-"), let month = rest.number(2), rest.skip("-"),
            let day = rest.number(2), rest.skip("T"), let hour = rest.number(2), rest.skip(":"),
            let minute = rest.number(2), rest.skip(":"), let second = rest.number(2)
        else { throw unknown(text) }
        var fraction: Int64 = 0
        if rest.skip(".") {
            let digits = rest.prefix(while: isDigit)
            guard (1...longestFraction).contains(digits.count), let value = rest.number(digits.count) else {
                throw Fault(description: "since=\(text) has a fraction without 1 to \(longestFraction) digits.")
            }
            fraction = (digits.count..<longestFraction).reduce(Int64(value)) { product, _ in 10 * product }
        }
        guard !rest.isEmpty else {
            throw Fault(
                description: "since=\(text) has no time zone; append Z for UTC, or an offset such as +01:00.")
        }
        guard let offset = rest.offset(), rest.isEmpty else { throw unknown(text) }
        guard (1...12).contains(month), (1...days(month, of: year)).contains(day) else {
            throw Fault(description: "since=\(text) has a date that is not in the calendar.")
        }
        guard hour < 24, minute < 60, second < 60 else {
            throw Fault(description: "since=\(text) has a time of day that is not from 00:00:00 to 23:59:59.")
        }
        let minutes = (daysSince1970(year, month, day) * 24 + hour) * 60 + minute - offset
        let (whole, isFar) = Int64(minutes * 60 + second).multipliedReportingOverflow(by: StartTime.second)
        let (time, isFarther) = whole.addingReportingOverflow(fraction)
        guard !isFar, !isFarther, time >= 0 else {
            throw Fault(
                description: "since=\(text) is not between 1970-01-01T00:00:00Z and 2262-04-11T23:47:16Z.")
        }
        return time
    }

    private static func unknown(_ text: String) -> Fault {
        Fault(
            description: "since=\(text) is neither a time such as 2026-11-22T09:30:00Z nor a duration such as -5m "
                + "(with ms, s, m, h or d).")
    }

    private static func tooLong(_ text: String) -> Fault {
        Fault(description: "since=\(text) is too long; at most -\(Int64.max / units[0].nanoseconds)d is allowed.")
    }

    // The Gregorian calendar

    package static func days(_ month: Int, of year: Int) -> Int {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    /// Counts in years that begin in March, so that a leap day is the last day of its year.
    package static func daysSince1970(_ year: Int, _ month: Int, _ day: Int) -> Int {
        let year = month > 2 ? year : year - 1
        let beforeMonth = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5
        let leapDays = year / 4 - year / 100 + year / 400
        // From 1 March of year 0 to 1 January 1970.
        return 365 * year + leapDays + beforeMonth + day - 1 - 719_468
    }

    /// The year, month and day of a day since 1970.
    private static func date(_ day: Int) -> (year: Int, month: Int, day: Int) {
        // Approximately, and then to the day. No year is longer than 366 days.
        var year = 1970 + day / 366
        while daysSince1970(year + 1, 1, 1) <= day { year += 1 }
        var left = day - daysSince1970(year, 1, 1)
        var month = 1
        while left >= days(month, of: year) {
            left -= days(month, of: year)
            month += 1
        }
        return (year, month, left + 1)
    }
}

extension StartTime: CustomStringConvertible {
    /// The value of the option `since`. A time before 1970 becomes 1970; a duration is rounded up to whole ms.
    public var description: String {
        switch self {
        case .at(let time): return StartTime.text(max(0, time))
        case .ago(let duration):
            let (whole, rest) = max(0, duration).quotientAndRemainder(dividingBy: 1_000_000)
            let milliseconds = rest > 0 && whole < Int64.max / 1_000_000 ? whole + 1 : whole
            for (name, nanoseconds) in StartTime.units where milliseconds > 0 {
                let unit = nanoseconds / 1_000_000
                if milliseconds % unit == 0 { return "-\(milliseconds / unit)\(name)" }
            }
            return "-\(milliseconds)ms"
        }
    }

    private static func text(_ time: Int64) -> String {
        let (seconds, fraction) = time.quotientAndRemainder(dividingBy: second)
        let (days, left) = Int(seconds).quotientAndRemainder(dividingBy: 86_400)
        let date = date(days)
        var text =
            "\(padded(date.year, 4))-\(padded(date.month, 2))-\(padded(date.day, 2))T\(padded(left / 3600, 2)):"
            + "\(padded(left / 60 % 60, 2)):\(padded(left % 60, 2))"
        if fraction > 0 {
            var digits = padded(Int(fraction), longestFraction)
            while digits.hasSuffix("0") { digits.removeLast() }
            text += "." + digits
        }
        return text + "Z"
    }

    private static func padded(_ number: Int, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
    }
}

private func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

extension ArraySlice<UInt8> {
    /// Takes a number of exactly `count` digits, at most nine.
    fileprivate mutating func number(_ count: Int) -> Int? {
        let digits = prefix(count)
        guard digits.count == count, digits.allSatisfy(isDigit) else { return nil }
        removeFirst(count)
        return digits.reduce(0) { 10 * $0 + Int($1 - UInt8(ascii: "0")) }
    }

    fileprivate mutating func skip(_ character: Unicode.Scalar) -> Bool {
        guard first == UInt8(ascii: character) else { return false }
        removeFirst()
        return true
    }

    /// Takes `Z`, or an offset such as `+01:00`, and returns it in minutes.
    fileprivate mutating func offset() -> Int? {
        if skip("Z") { return 0 }
        let isBehind = first == UInt8(ascii: "-")
        guard skip(isBehind ? "-" : "+"), let hours = number(2), skip(":"), let minutes = number(2), hours < 24,
            minutes < 60
        else { return nil }
        return (isBehind ? -1 : 1) * (60 * hours + minutes)
    }
}

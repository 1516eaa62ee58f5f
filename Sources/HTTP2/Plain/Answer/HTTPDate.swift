// HTTPDate: a moment as HTTP's headers have it. RFC 9110, section 5.6.7.
//
//     Sat, 21 Nov 2026 08:01:14 GMT

public enum HTTPDate {
    /// - Parameter nanoseconds: since 1970 UTC; what is before that is taken for it.
    public static func text(_ nanoseconds: Int64) -> String {
        let seconds = Int(max(nanoseconds, 0) / 1_000_000_000)
        let days = seconds / 86_400
        let time = seconds % 86_400
        let date = civil(days)
        // 1970 began on a Thursday.
        let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][days % 7]
        let clock = [time / 3600, time / 60 % 60, time % 60].map(two).joined(separator: ":")
        return "\(weekday), \(two(date.day)) \(months[date.month]) \(date.year) \(clock) GMT"
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    private static func two(_ number: Int) -> String { number < 10 ? "0\(number)" : String(number) }

    /// The day that comes `days` after 1970-01-01; months count from 0.
    private static func civil(_ days: Int) -> (year: Int, month: Int, day: Int) {
        var rest = days
        var year = 1970
        while rest >= length(year) {
            rest -= length(year)
            year += 1
        }
        for month in 0..<11 {
            let length = month == 1 ? length(year) - 337 : [3, 5, 8, 10].contains(month) ? 30 : 31
            if rest < length { return (year, month, rest + 1) }
            rest -= length
        }
        return (year, 11, rest + 1)
    }

    private static func length(_ year: Int) -> Int {
        year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 366 : 365
    }
}

// StartTime: times and durations, and texts that are neither.

import Testing

@testable import ForebayWire

@Suite struct StartTimeTests {
    private static let second: Int64 = 1_000_000_000

    /// Seconds are those of `date -u -d TEXT +%s`.
    @Test(
        arguments: [
            ("1970-01-01T00:00:00Z", 0, 0), ("2026-11-22T09:30:00Z", 1_795_339_800, 0),
            ("2000-02-29T00:00:00Z", 951_782_400, 0), ("2000-03-01T00:00:00Z", 951_868_800, 0),
            ("1999-12-31T23:59:59Z", 946_684_799, 0), ("2024-02-29T12:00:00Z", 1_709_208_000, 0),
            ("2100-02-28T23:59:59Z", 4_107_542_399, 0), ("2100-03-01T00:00:00Z", 4_107_542_400, 0),
            ("2026-11-22T09:30:00.5Z", 1_795_339_800, 500_000_000),
            ("2026-11-22T09:30:00.000000001Z", 1_795_339_800, 1),
            ("2026-11-22T09:30:00.123456Z", 1_795_339_800, 123_456_000),
            ("2026-11-22T10:30:00+01:00", 1_795_339_800, 0), ("2026-11-22T04:00:00-05:30", 1_795_339_800, 0),
            ("2026-11-23T09:29:00.25+23:59", 1_795_339_800, 250_000_000),
            ("2026-11-22T09:30:00-00:00", 1_795_339_800, 0),
            ("1969-12-31T23:00:00-01:00", 0, 0), ("1970-01-01T14:00:00+14:00", 0, 0),
            ("2262-04-11T23:47:16.854775807Z", 9_223_372_036, 854_775_807),
        ] as [(String, Int64, Int64)])
    func times(_ text: String, _ seconds: Int64, _ nanoseconds: Int64) throws {
        let time = try StartTime(text)
        #expect(time == .at(seconds * Self.second + nanoseconds))
        #expect(try StartTime(time.description) == time)
    }

    @Test(
        arguments: [
            ("-5m", 300 * second), ("-500ms", second / 2), ("-30s", 30 * second), ("-2h", 7200 * second),
            ("-7d", 604_800 * second), ("-0s", 0), ("-0ms", 0), ("-0005m", 300 * second), ("-1500ms", 3 * second / 2),
            ("-106751d", 106_751 * 86_400 * second), ("-9223372036854ms", 9_223_372_036_854_000_000),
        ] as [(String, Int64)])
    func durations(_ text: String, _ nanoseconds: Int64) throws {
        let time = try StartTime(text)
        #expect(time == .ago(nanoseconds))
        #expect(try StartTime(time.description) == time)
        #expect(time.resolved(now: 1_795_339_800 * Self.second) == 1_795_339_800 * Self.second - nanoseconds)
    }

    private func fault(_ text: String) -> String {
        do throws(StartTime.Fault) { return "\(try StartTime(text))" } catch { return error.description }
    }

    @Test(arguments: [
        "", "-", "5m", "-5", "-m", "-5x", "-5M", "-5 m", "- 5m", "-5m ", "--5m", "-+5m", "-5.5m", "-5mm", "-5ns",
        "-1h30m",
        "+5m", "-٥m", "now", "yesterday", "1795339800", "2026", "2026-11-22", "2026-11-22 09:30:00Z",
        "2026-11-22t09:30:00Z", "2026-11-22T09:30:00z", "2026-11-22T09:30Z", "2026-11-22T0930:00Z",
        "20261122T093000Z", "26-11-22T09:30:00Z", "02026-11-22T09:30:00Z", "2026-1-22T09:30:00Z",
        "2026-11-22T9:30:00Z", "2026-11-22T09:30:00,5Z", "2026-11-22T09:30:00ZZ", "2026-11-22T09:30:00Z ",
        " 2026-11-22T09:30:00Z", "2026-11-22T09:30:00+1:00", "2026-11-22T09:30:00+0100", "2026-11-22T09:30:00+01",
        "2026-11-22T09:30:00+24:00", "2026-11-22T09:30:00+01:60", "2026-11-22T09:30:00+01:00Z",
        "2026-11-22T09:30:00 01:00", "2026-W47-7T09:30:00Z", "2026-326T09:30:00Z", "٢٠٢٦-11-22T09:30:00Z",
        "2026-11-22T09:30:00\u{0}", "−5m",
    ])
    func otherForms(_ text: String) {
        #expect(fault(text).hasPrefix("since=\(text) is neither a time such as 2026-11-22T09:30:00Z nor a duration"))
    }

    @Test(arguments: [
        ("2026-00-22T09:30:00Z", "not in the calendar"), ("2026-13-22T09:30:00Z", "not in the calendar"),
        ("2026-11-00T09:30:00Z", "not in the calendar"), ("2026-11-31T09:30:00Z", "not in the calendar"),
        ("2026-12-32T09:30:00Z", "not in the calendar"), ("2026-02-29T09:30:00Z", "not in the calendar"),
        ("2100-02-29T09:30:00Z", "not in the calendar"), ("2000-02-30T09:30:00Z", "not in the calendar"),
        ("2026-11-22T24:00:00Z", "from 00:00:00 to 23:59:59"), ("2026-11-22T09:60:00Z", "from 00:00:00 to 23:59:59"),
        ("2016-12-31T23:59:60Z", "from 00:00:00 to 23:59:59"), ("2026-11-22T09:30:00", "append Z for UTC"),
        ("2026-11-22T09:30:00.5", "append Z for UTC"), ("2026-11-22T09:30:00.Z", "without 1 to 9 digits"),
        ("2026-11-22T09:30:00.1234567890Z", "without 1 to 9 digits"),
        ("1969-12-31T23:59:59Z", "not between 1970"), ("1970-01-01T00:00:00+00:01", "not between 1970"),
        ("0000-01-01T00:00:00Z", "not between 1970"), ("2262-04-11T23:47:16.854775808Z", "not between 1970"),
        ("2262-04-11T23:47:17Z", "not between 1970"), ("9999-12-31T23:59:59Z", "not between 1970"),
        ("-106752d", "at most -106751d"), ("-9223372036855ms", "at most -106751d"),
        ("-99999999999999999999ms", "at most -106751d"), ("-9223372036854775808d", "at most -106751d"),
    ])
    func valuesOutOfRange(_ text: String, _ part: String) {
        #expect(fault(text).hasPrefix("since=\(text) ") && fault(text).contains(part), "\(fault(text))")
    }

    /// Every day from 1970 to 2262, against counting day by day.
    @Test func everyDayOfTheCalendar() throws {
        var (year, month, day) = (1970, 1, 1)
        func padded(_ number: Int) -> String { (number < 10 ? "0" : "") + String(number) }
        for count in 0..<106_751 {
            let time = StartTime.at(Int64(count) * 86_400 * Self.second)
            let text = "\(year)-\(padded(month))-\(padded(day))T00:00:00Z"
            try #require(time.description == text)
            try #require(try StartTime(text) == time)
            let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
            day += 1
            if day > [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] {
                (month, day) = (month + 1, 1)
            }
            if month > 12 { (year, month) = (year + 1, 1) }
        }
    }

    @Test func whatIsWrittenIsReadAgain() throws {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<10_000 {
            let number = Int64.random(in: 0 ... .max, using: &random) >> Int64.random(in: 0...62, using: &random)
            #expect(try StartTime(StartTime.at(number).description) == .at(number))
            // Durations are rounded up, so that nothing of what was asked for is left out.
            guard case .ago(let again) = try StartTime(StartTime.ago(number).description) else {
                Issue.record("a duration became a time")
                continue
            }
            #expect(again - number < 1_000_000 && (again >= number || again > .max - 1_000_000))
        }
        #expect(StartTime.ago(1).description == "-1ms" && StartTime.ago(-1).description == "-0ms")
        #expect(StartTime.at(-1).description == "1970-01-01T00:00:00Z")
        #expect(StartTime.ago(.max).resolved(now: -9) == .min && StartTime.at(7).resolved(now: 9) == 7)
    }
}

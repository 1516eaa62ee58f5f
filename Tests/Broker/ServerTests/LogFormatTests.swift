// Log lines in both formats: a table of values and their output.

import Core
import Testing

@testable import Server

/// 2026-10-05T12:34:56.000789Z
private let moment: Int64 = 1_791_203_696_000_789_999

struct LogFormatTests {
    @Test(arguments: [
        ("plain", "plain"), ("127.0.0.1:7690", "127.0.0.1:7690"), ("", "\"\""), ("two words", "\"two words\""),
        ("a=b", "\"a=b\""), ("say \"hi\"", "\"say \\\"hi\\\"\""), ("back\\slash", "\"back\\\\slash\""),
        ("line\nfeed", "\"line\\nfeed\""), ("cr\rtab\t", "\"cr\\rtab\\t\""), ("nul\0", "\"nul\\u0000\""),
        ("\u{1B}[31m", "\"\\u001b[31m\""), ("\u{7F}", "\"\\u007f\""), ("\u{9B}", "\"\\u009b\""),
        ("a\u{2028}b", "\"a\\u2028b\""), ("a\u{202E}b", "\"a\\u202eb\""), ("grün", "grün"), ("🌊", "🌊"),
        ("crlf\r\n", "\"crlf\\r\\n\""),
    ])
    func textQuotesAndEscapesValues(value: String, written: String) {
        let line = LogFormat.text.line(wall: moment, level: .info, message: "event", fields: [("key", value)])
        #expect(line == "2026-10-05T12:34:56.000789Z info event key=\(written)\n")
    }

    @Test(arguments: [
        ("plain", "plain"), ("", ""), ("two words", "two words"), ("say \"hi\"", "say \\\"hi\\\""),
        ("back\\slash", "back\\\\slash"), ("line\nfeed", "line\\nfeed"), ("\u{1B}", "\\u001b"),
        ("grün 🌊", "grün 🌊"),
        ("crlf\r\n", "crlf\\r\\n"), ("a\u{2029}b", "a\\u2029b"),
    ])
    func jsonEscapesValues(value: String, written: String) {
        let line = LogFormat.json.line(wall: moment, level: .warning, message: "event", fields: [("key", value)])
        let head = "{\"time\":\"2026-10-05T12:34:56.000789Z\",\"level\":\"warn\",\"message\":\"event\""
        #expect(line == head + ",\"key\":\"\(written)\"}\n")
    }

    @Test func numbersAreNumbersInJSON() {
        let fields: [LogField] = [("count", 5), ("bytes", UInt64.max), ("by", Int64(-3)), ("name", "42")]
        let json = LogFormat.json.line(wall: 0, level: .info, message: "m", fields: fields)
        #expect(json.hasSuffix(",\"count\":5,\"bytes\":18446744073709551615,\"by\":-3,\"name\":\"42\"}\n"))
        let text = LogFormat.text.line(wall: 0, level: .info, message: "m", fields: fields)
        #expect(text.hasSuffix(" info m count=5 bytes=18446744073709551615 by=-3 name=42\n"))
    }

    @Test func aMessageIsOneLineInBothFormats() {
        let text = LogFormat.text.line(wall: 0, level: .error, message: "two\nlines", fields: [])
        #expect(text == "1970-01-01T00:00:00.000000Z error two\\nlines\n")
        let json = LogFormat.json.line(wall: 0, level: .debug, message: "two\n\"lines\"", fields: [])
        let head = "{\"time\":\"1970-01-01T00:00:00.000000Z\",\"level\":\"debug\","
        #expect(json == head + "\"message\":\"two\\n\\\"lines\\\"\"}\n")
    }

    @Test func aFieldCannotPassForWhatEveryLineHas() {
        let json = LogFormat.json.line(
            wall: 0, level: .info, message: "m", fields: [("level", "error"), ("a\"b", "c")])
        #expect(json.hasSuffix(",\"message\":\"m\",\"level_\":\"error\",\"a\\\"b\":\"c\"}\n"))
    }

    @Test(arguments: [
        (-1, "1969-12-31T23:59:59.999999Z"), (951_782_400_000_000_000, "2000-02-29T00:00:00.000000Z"),
        (Int64.max, "2262-04-11T23:47:16.854775Z"), (Int64.min, "1677-09-21T00:12:43.145224Z"),
    ])
    func tellsTheTimeInUTC(wall: Int64, written: String) {
        let line = LogFormat.text.line(wall: wall, level: .info, message: "m", fields: [])
        #expect(line == "\(written) info m\n")
    }
}

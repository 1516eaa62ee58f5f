// How texts are parsed into values, and how values are printed.

import Testing

@testable import Configuration

@Suite struct ValueTests {
    @Test(
        arguments: [
            ("0", 0), ("17", 17), ("17B", 17), ("1K", 1024), ("1k", 1024), ("3KiB", 3072), ("2m", 2 << 20),
            ("2MiB", 2 << 20), ("1G", 1 << 30), ("1gib", 1 << 30), ("", nil), ("K", nil), ("-1", nil), ("1.5K", nil),
            ("1KB", nil), ("1T", nil), ("1 K", nil), ("0x10", nil), ("9223372036854775807", Int.max),
            ("9223372036854775808", nil), ("9007199254740992K", nil), ("٣", nil),
        ] as [(String, Int?)])
    func readsSizes(text: String, bytes: Int?) {
        #expect(parseByteSize(text) == bytes)
    }

    @Test(arguments: [(0, "0"), (1, "1"), (1024, "1K"), (1536, "1536"), (16 << 20, "16M"), (3 << 30, "3G")])
    func writesSizes(bytes: Int, text: String) {
        #expect(formatByteSize(bytes) == text)
        #expect(parseByteSize(text) == bytes)
    }

    @Test(
        arguments: [
            ("0s", 0), ("500ms", 500_000_000), ("30s", 30_000_000_000), ("5m", 300_000_000_000),
            ("2h", 7_200_000_000_000), ("7d", 604_800_000_000_000), ("30", nil), ("s", nil), ("", nil), ("-1s", nil),
            ("1.5s", nil), ("5 m", nil), ("5M", nil), ("18446744073709551615ms", nil), ("213504d", nil), ("٣s", nil),
        ] as [(String, UInt64?)])
    func readsTimes(text: String, time: UInt64?) {
        #expect(parseTime(text) == time)
    }

    @Test(
        arguments: [
            (0, "0ms"), (1_000_000, "1ms"), (1_500_000_000, "1500ms"), (60_000_000_000, "1m"),
            (90_000_000_000, "90s"), (86_400_000_000_000, "1d"),
        ] as [(UInt64, String)])
    func writesTimes(time: UInt64, text: String) {
        #expect(formatTime(time) == text)
        #expect(parseTime(text) == time)
    }

    @Test(arguments: ["", "-1", "+1", "1_0", "0x1", "1e3", "257", "0", "99999999999999999999", " 1"])
    func refusesNumbers(text: String) {
        #expect(throws: ValueFault("is not a number from 1 to 256")) { try Value.number(text, in: 1...256) }
    }

    /// The suggested value would be accepted.
    @Test func examplesAreInRange() {
        let second: UInt64 = 1_000_000_000
        for (range, examples) in [
            (0...3600 * second, "500ms, 30s or 5m"), (second...3600 * second, "30s or 5m"),
            (second...60 * second, "30s"),
        ] {
            #expect {
                try Value.time("x", in: range)
            } throws: {
                ($0 as? ValueFault)?.words.hasSuffix(", for example \(examples)") == true
            }
        }
        #expect(throws: ValueFault("is not a time from 7s to 8s")) { try Value.time("x", in: 7 * second...8 * second) }
        #expect(throws: ValueFault("is not a size from 1K to 24K, for example 4K")) {
            try Value.size("x", in: 1 << 10...24 << 10)
        }
    }

    @Test(arguments: [("true", true), ("Yes", true), ("on", true), ("false", false), ("no", false), ("OFF", false)])
    func readsSwitches(text: String, value: Bool) throws {
        #expect(try Value.truth(text) == value)
        #expect(throws: ValueFault("is neither true nor false")) { try Value.truth(text + "?") }
    }

    @Test(
        arguments: [
            ("retian", "retain"), ("retain-byts", "retain-bytes"), ("log_level", "log-level"), ("RETAIN", "retain"),
            ("listne", "listen"), ("password", nil), ("x", nil), ("", nil),
            (String(repeating: "a", count: 10_000), nil),
        ] as [(String, String?)])
    func knowsWhatWasMeant(word: String, meant: String?) {
        #expect(nearest(to: word, among: ["listen", "retain", "retain-bytes", "log-level"]) == meant)
    }

    @Test func messagesShowNothingThatSteersATerminal() {
        #expect(shown("a\u{1B}[2J\n\u{202E}b") == "a\u{FFFD}[2J\u{FFFD}\u{FFFD}b")
        #expect(shown(String(repeating: "x", count: 81)).count == 81)
    }
}

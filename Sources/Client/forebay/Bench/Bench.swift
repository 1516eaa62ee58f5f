// Bench: `forebay bench`, from its settings to its output and exit code.

import Bytes
import Client
import Glibc

enum Bench {
    static func run(_ settings: BenchSettings, _ address: BrokerAddress) throws -> Int32 {
        guard let result = try measure(settings, address) else {
            notify("Interrupted before the measurement began.")
            return ExitCode.done
        }
        var output = Output()
        output.buffer.append(settings.json ? result.json() : result.text())
        let code = output.finish()
        for complaint in result.complaints { notify(complaint) }
        return result.complaints.isEmpty ? code : ExitCode.failure
    }

    /// Nil if it was interrupted before anything was measured.
    private static func measure(_ settings: BenchSettings, _ address: BrokerAddress) throws -> BenchResult? {
        let isWatched = isatty(2) == 1
        defer { if isWatched { writeError("\r\u{1b}[K") } }
        var run = try BenchRun(settings, address)
        if isWatched { writeError("\(announcement(settings)) ^C stops early.") }
        return try run.run()
    }

    private static func announcement(_ settings: BenchSettings) -> String {
        if let count = settings.count { return "Publishing \(Units.counted(count, "message")) …" }
        return "Publishing for \(Units.duration(milliseconds: settings.duration / 1_000_000)) …"
    }
}

// Progress: one line on stderr that shows the progress of a long run, if stderr is a terminal.

import Bytes
import Client
import Glibc
import Synchronization

/// Whether the line is on the screen. Any other output removes it first.
private let isProgressShown: Atomic<Bool> = Atomic(false)

struct Progress {
    private let isShown: Bool
    private let start: UInt64
    private var last: (time: UInt64, sent: UInt64)
    private var wasShown = false

    /// Nanoseconds between two updates, and before the first.
    private static let interval: UInt64 = 1_000_000_000
    private static let delay: UInt64 = 1_000_000_000

    /// - Parameter isTerminal: whether stderr is a terminal; nil to check.
    init(now: UInt64, isTerminal: Bool? = nil) {
        isShown = isTerminal ?? (isatty(2) == 1)
        start = now
        last = (now, 0)
    }

    /// When `show` has something new to show, in nanoseconds.
    var nextUpdate: UInt64? {
        isShown ? max(last.time + Self.interval, start + Self.delay) : nil
    }

    mutating func show(sent: UInt64, credit: UInt32, ending: Bool, now: UInt64) {
        guard let nextUpdate, now >= nextUpdate else { return }
        let rate = Double(sent - last.sent) * 1e9 / Double(max(now - last.time, 1))
        last = (now, sent)
        isProgressShown.store(true, ordering: .relaxed)
        wasShown = true
        writeError("\r\u{1b}[K" + Self.line(sent: sent, rate: rate, credit: credit, ending: ending))
    }

    static func line(sent: UInt64, rate: Double, credit: UInt32, ending: Bool) -> String {
        let state =
            ending
            ? "waiting for the acknowledgement"
            : credit == 0
                ? "waiting for credit"
                : credit == CreditWindow.unbounded ? "credit unbounded" : "credit \(Units.grouped(UInt64(credit)))"
        return "\(Units.counted(sent, "message")) · \(Units.rate(rate)) · \(state)"
    }

    /// Removes the line.
    static func clear() {
        if isProgressShown.exchange(false, ordering: .relaxed) { writeError("\r\u{1b}[K") }
    }

    /// Prints the summary of a run that was long enough to show the line.
    mutating func finish(sent: UInt64, now: UInt64) {
        Self.clear()
        guard wasShown else { return }
        let seconds = Double(now - start) / 1e9
        let rate = Units.rate(Double(sent) / max(seconds, 1e-9))
        writeError("\(Units.counted(sent, "message")) in \(Units.fixed(seconds, 1)) s, \(rate)\n")
    }
}

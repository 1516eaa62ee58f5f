// Picture: when to redraw a terminal screen.

import Glibc

/// Redraws after a change, at most every 50 ms, and only for a terminal that keeps up.
struct Picture {
    /// Whether the screen no longer shows the current state.
    var isDirty = true
    private var earliest: UInt64 = 0

    private static let interval: UInt64 = 50_000_000

    /// When to draw next, on the monotonic clock; `UInt64.max` while nothing has changed.
    var due: UInt64 { isDirty ? earliest : .max }

    /// - Parameter render: makes the lines for a number of columns and rows.
    mutating func draw(_ now: UInt64, to output: inout Output, _ render: (Int, Int) -> [ViewLine]) {
        output.flush()
        // A terminal that lags behind gets no new picture until it has accepted the last one.
        guard isDirty, now >= earliest, output.isEmpty else { return }
        let size = Terminal.size()
        output.buffer.append(Terminal.drawing(render(size.width, size.height)))
        output.flush()
        isDirty = false
        earliest = now + Self.interval
    }

    /// Suspends the program, or redraws after it was suspended or the terminal was resized.
    mutating func obey(_ signal: Int32, _ terminal: inout Terminal) {
        if signal == SIGTSTP {
            terminal.giveBack()
            raise(SIGSTOP)
        }
        if signal != SIGWINCH { terminal.take() }
        isDirty = true
    }
}

// Picture: when a terminal that a person looks at is drawn anew.

import Glibc

/// Drawn when something has changed, at most every 50 ms, and only for a terminal that keeps up.
struct Picture {
    /// What is shown is not what there is any more.
    var isDirty = true
    private var earliest: UInt64 = 0

    private static let interval: UInt64 = 50_000_000

    /// When it is to be drawn next, on the monotonic clock; `UInt64.max` while nothing has changed.
    var due: UInt64 { isDirty ? earliest : .max }

    /// - Parameter render: makes lines of so many columns, and so many of them.
    mutating func draw(_ now: UInt64, to output: inout Output, _ render: (Int, Int) -> [ViewLine]) {
        output.flush()
        // A terminal that is behind gets no further picture until it has taken the last one.
        guard isDirty, now >= earliest, output.isEmpty else { return }
        let size = Terminal.size()
        output.buffer.append(Terminal.drawing(render(size.width, size.height)))
        output.flush()
        isDirty = false
        earliest = now + Self.interval
    }

    /// Suspends the program, or goes on after it was suspended, or in another size.
    mutating func obey(_ signal: Int32, _ terminal: inout Terminal) {
        if signal == SIGTSTP {
            terminal.giveBack()
            raise(SIGSTOP)
        }
        if signal != SIGWINCH { terminal.take() }
        isDirty = true
    }
}

// Terminal: raw key input and the alternate screen, restored in all cases.

import Glibc

/// Controls the terminal during its lifetime.
struct Terminal: ~Copyable {
    private var isTaken = false

    /// - Parameter what: the feature that needs a terminal.
    /// - Throws: an error message if there is no interactive terminal.
    static func check(for what: String = "--interactive") throws(UsageError) {
        guard isatty(0) == 1, isatty(1) == 1 else {
            throw UsageError("\(what) needs a terminal for both input and output.")
        }
        let term = getenv("TERM").map { String(cString: $0) } ?? ""
        if term.isEmpty || term == "dumb" {
            throw UsageError("\(what) needs a terminal that can move its cursor; TERM is '\(term)'.")
        }
    }

    init() {
        guard tcgetattr(0, &savedTerminal) == 0 else { return }
        // Even a crash restores the terminal.
        for number in [SIGILL, SIGTRAP, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGQUIT] { signal(number, restoreAndRaise) }
        take()
    }

    deinit { if isTaken { restoreTerminal() } }

    mutating func take() {
        guard !isTaken else { return }
        isTaken = true
        var raw = savedTerminal
        raw.c_lflag &= ~tcflag_t(ICANON | ECHO)
        raw.c_iflag &= ~tcflag_t(IXON | ICRNL)
        isTerminalTaken = true
        tcsetattr(0, TCSADRAIN, &raw)
        writeAll("\u{1b}[?1049h\u{1b}[?25l\u{1b}[?7l")
    }

    mutating func giveBack() {
        guard isTaken else { return }
        isTaken = false
        restoreTerminal()
    }

    /// Columns and rows; 80 × 24 if the terminal does not report its size.
    static func size() -> (width: Int, height: Int) {
        var size = winsize()
        guard ioctl(1, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return (80, 24) }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    /// The bytes that draw `lines` over the previous screen.
    static func drawing(_ lines: [ViewLine]) -> String {
        var out = "\u{1b}[H"
        for (row, line) in lines.enumerated() {
            if row > 0 { out += "\r\n" }
            let style =
                switch line.style {
                case .plain: ""
                case .title: "\u{1b}[7m"
                case .strong: "\u{1b}[1m"
                case .faint: "\u{1b}[2m"
                case .warning: "\u{1b}[33m"
                }
            out += style + line.text + (style.isEmpty ? "" : "\u{1b}[0m") + "\u{1b}[K"
        }
        return out + "\u{1b}[J"
    }
}

// A signal handler can reach only globals; this is set before the handlers are installed.
nonisolated(unsafe) private var savedTerminal = termios()
nonisolated(unsafe) private var isTerminalTaken = false
private let leaving: StaticString = "\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l"

/// Restores the terminal, with only async-signal-safe calls.
private func restoreTerminal() {
    guard isTerminalTaken else { return }
    isTerminalTaken = false
    _ = write(1, leaving.utf8Start, leaving.utf8CodeUnitCount)
    tcsetattr(0, TCSANOW, &savedTerminal)
}

@Sendable private func restoreAndRaise(_ number: Int32) {
    restoreTerminal()
    signal(number, SIG_DFL)
    raise(number)
}

private func writeAll(_ text: String) {
    var text = text
    text.withUTF8 { bytes in _ = write(1, bytes.baseAddress, bytes.count) }
}

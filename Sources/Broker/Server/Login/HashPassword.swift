// HashPassword: `forebayd --hash-password`, which reads a password from standard input and prints its hash for the
// configuration.

import Access
import Glibc

enum HashPassword {
    /// Reads a line and prints its hash. Returns the exit code.
    static func run() -> Int32 {
        guard let password = readPassword() else {
            report("forebayd: no password on standard input\n")
            return 2
        }
        guard let hash = PasswordHash.make(of: password) else {
            report("forebayd: a password must have 1 to \(PasswordHash.longestPassword) bytes and no NUL\n")
            return 2
        }
        return Broker.show(hash + "\n")
    }

    /// The first line, without its line ending. On a terminal, echo is turned off.
    private static func readPassword() -> [UInt8]? {
        var settings = termios()
        let isTerminal = tcgetattr(0, &settings) == 0
        if isTerminal {
            report("Password: ")
            var silent = settings
            silent.c_lflag &= ~tcflag_t(ECHO)
            tcsetattr(0, TCSAFLUSH, &silent)
        }
        defer {
            if isTerminal {
                tcsetattr(0, TCSAFLUSH, &settings)
                report("\n")
            }
        }
        var line: [UInt8] = []
        var byte: UInt8 = 0
        while line.count <= 4096 {
            let count = read(0, &byte, 1)
            if count <= 0 || byte == UInt8(ascii: "\n") { break }
            line.append(byte)
        }
        if line.last == UInt8(ascii: "\r") { line.removeLast() }
        return line.isEmpty ? nil : line
    }

    private static func report(_ text: String) {
        var text = text
        text.withUTF8 { _ = write(2, $0.baseAddress, $0.count) }
    }
}

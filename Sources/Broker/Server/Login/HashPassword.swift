// HashPassword: `forebayd --hash-password`, which turns a password from the standard input into a hash for the
// configuration.

import Access
import Glibc

enum HashPassword {
    /// Reads one line, prints its hash. Returns the exit code.
    static func run() -> Int32 {
        guard let password = readPassword() else {
            tell("forebayd: there is no password on the standard input\n")
            return 2
        }
        guard let hash = PasswordHash.make(of: password) else {
            tell("forebayd: a password has 1 to \(PasswordHash.longestPassword) bytes, none of them 0\n")
            return 2
        }
        return Broker.show(hash + "\n")
    }

    /// The first line, without what ends it. At a terminal nothing of it is shown.
    private static func readPassword() -> [UInt8]? {
        var settings = termios()
        let isTerminal = tcgetattr(0, &settings) == 0
        if isTerminal {
            tell("Password: ")
            var silent = settings
            silent.c_lflag &= ~tcflag_t(ECHO)
            tcsetattr(0, TCSAFLUSH, &silent)
        }
        defer {
            if isTerminal {
                tcsetattr(0, TCSAFLUSH, &settings)
                tell("\n")
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

    private static func tell(_ text: String) {
        var text = text
        text.withUTF8 { _ = write(2, $0.baseAddress, $0.count) }
    }
}

// Output: writes to standard output without ever blocking, so that keepalives are answered while a reader is slow.

import Bytes
import Glibc
import Synchronization

/// Pending output, and the descriptor that it goes to.
struct Output: ~Copyable {
    private enum Way {
        /// A regular file or the like: writes do not block for long.
        case blocking
        /// A pipe or terminal, reopened as non-blocking: others that share it must not inherit that setting.
        case reopened(Int32)
        case socket
        /// A pipe or terminal that cannot be reopened: written in small steps when poll reports room.
        case careful
    }

    /// Pending bytes above which no more messages should be taken.
    static let enough = 64 << 10

    var buffer = ByteBuffer()
    let isTerminal: Bool
    private let way: Way
    /// Whether the reader is gone, so nothing more can be written.
    private(set) var isGone = false
    /// A write failed for another reason, such as a full disk.
    private(set) var failure: String?

    init() {
        isTerminal = isatty(1) == 1
        var status = stat()
        guard fstat(1, &status) == 0 else {
            way = .blocking
            return
        }
        switch status.st_mode & mode_t(S_IFMT) {
        case mode_t(S_IFSOCK): way = .socket
        case mode_t(S_IFIFO), mode_t(S_IFCHR):
            let fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
            way = fd >= 0 ? .reopened(fd) : .careful
        default: way = .blocking
        }
    }

    deinit { if case .reopened(let fd) = way { close(fd) } }

    var isFull: Bool { buffer.count >= Self.enough }
    var isEmpty: Bool { buffer.isEmpty }
    var isUsable: Bool { !isGone && failure == nil }

    /// Writes what the reader accepts.
    mutating func flush() {
        while !buffer.isEmpty, isUsable {
            let count = write(buffer.readable)
            if count > 0 {
                buffer.consume(count)
            } else if errno == EAGAIN {
                return
            } else if errno != EINTR {
                if errno == EPIPE || errno == ECONNRESET {
                    isGone = true
                } else {
                    failure = String(cString: strerror(errno))
                }
            }
        }
        if !isUsable { buffer.removeAll() }
        buffer.shrink(above: 1 << 20)
    }

    private func write(_ bytes: UnsafeRawBufferPointer) -> Int {
        switch way {
        case .blocking: return Glibc.write(1, bytes.baseAddress, bytes.count)
        case .reopened(let fd): return Glibc.write(fd, bytes.baseAddress, bytes.count)
        case .socket:
            return send(1, bytes.baseAddress, bytes.count, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL))
        case .careful:
            var descriptor = pollfd(fd: 1, events: Int16(POLLOUT), revents: 0)
            guard poll(&descriptor, 1, 0) > 0 else {
                errno = EAGAIN
                return -1
            }
            // poll promises room for PIPE_BUF bytes in a pipe.
            return Glibc.write(1, bytes.baseAddress, min(bytes.count, 512))
        }
    }

    /// Waits until everything is written or the reader is gone. Reports a failure to write, and returns an exit code.
    mutating func finish() -> Int32 {
        drain()
        guard let failure else { return ExitCode.done }
        reportError("output", "The output cannot be written: \(failure).")
        return ExitCode.failure
    }

    /// Waits until everything is written or the reader is gone.
    mutating func drain() {
        flush()
        while !buffer.isEmpty, isUsable {
            var descriptor = pollfd(fd: 1, events: Int16(POLLOUT), revents: 0)
            poll(&descriptor, 1, 1000)
            flush()
        }
    }
}

/// Writes `text` to stderr unchanged. Text that cannot be written there is lost.
func writeError(_ text: String) {
    var text = text
    text.withUTF8 { bytes in
        var rest = UnsafeRawBufferPointer(bytes)
        while !rest.isEmpty {
            let count = write(2, rest.baseAddress, rest.count)
            if count < 0, errno != EINTR { return }
            rest = rest.slice(max(count, 0)..<rest.count)
        }
    }
}

/// With --json, reports on stderr are objects, too. Set once, before the first report.
let reportsJSON: Atomic<Bool> = Atomic(false)

/// Reports a sentence to the user, on stderr.
/// - Parameter counts: the numbers in it, for programs.
func notify(_ sentence: String, _ counts: KeyValuePairs<String, UInt64> = [:]) {
    Progress.clear()
    guard reportsJSON.load(ordering: .relaxed) else { return writeError("forebay: \(SafeText.line(sentence))\n") }
    let members = counts.map { ($0.key, JSON.number("\($0.value)")) }
    writeError(JSON.object([("note", .string(sentence))] + members).encoded + "\n")
}

/// Reports the program's failure, on stderr.
/// - Parameter word: names the kind of failure, for programs.
func reportError(_ word: String, _ sentence: String) {
    Progress.clear()
    guard reportsJSON.load(ordering: .relaxed) else { return notify(sentence) }
    writeError(JSON.object([("error", .string(word)), ("message", .string(sentence))]).encoded + "\n")
}

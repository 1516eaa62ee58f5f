// ChildProcess: a program, usually of this package, that a test runs as a separate process and can kill.

import Foundation
import Glibc

/// A running program. The program is killed when the last reference to it goes away, if it has not ended by itself.
final class ChildProcess: @unchecked Sendable {
    struct CannotStart: Error {
        var path: String
        var code: Int32
    }

    let pid: pid_t
    /// The program's standard error.
    private let output: Int32
    private let status = Guarded<Int32?>(nil)

    /// Where the programs are: next to the tests, or in FOREBAY_BIN.
    private static let folder: String = {
        if let folder = getenv("FOREBAY_BIN") { return String(cString: folder) }
        let tests = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        return tests.deletingLastPathComponent().path
    }()

    /// - Parameter name: the name of a program of this package, or a path.
    init(_ name: String, _ arguments: [String]) throws {
        let path = name.hasPrefix("/") ? name : Self.folder + "/" + name
        // Close-on-exec, like all descriptors of this package, so that other tests' processes do not inherit them.
        var ends: [Int32] = [-1, -1]
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw CannotStart(path: path, code: errno) }
        defer { close(ends[1]) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, ends[1], 2)
        var argv: [UnsafeMutablePointer<CChar>?] = ([path] + arguments).map { strdup($0) }
        argv.append(nil)
        defer { for argument in argv { free(argument) } }
        var pid: pid_t = 0
        let code = posix_spawn(&pid, path, &actions, nil, argv, environ)
        guard code == 0 else {
            close(ends[0])
            throw CannotStart(path: path, code: code)
        }
        self.pid = pid
        output = ends[0]
    }

    deinit {
        if poll() == nil {
            kill(SIGKILL)
            wait()
        }
        close(output)
    }

    func kill(_ signal: Int32) { _ = Glibc.kill(pid, signal) }

    /// The next output on the program's standard error; nil at the end.
    func read() -> String? {
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = Glibc.read(output, &buffer, buffer.count)
        return count > 0 ? String(decoding: buffer[..<count], as: UTF8.self) : nil
    }

    /// The exit code, or minus the signal that killed the program; nil while it runs.
    func poll() -> Int32? { reap(WNOHANG) }

    /// Waits for the program's end, on this thread.
    @discardableResult
    func wait() -> Int32 { reap(0) ?? -1 }

    /// Waits for the program's end.
    func end() async throws -> Int32 {
        while true {
            if let code = poll() { return code }
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    private func reap(_ flags: Int32) -> Int32? {
        status.withLock { status in
            if let status { return status }
            var raw: Int32 = 0
            guard waitpid(pid, &raw, flags) == pid else { return nil }
            status = raw & 0x7f == 0 ? (raw >> 8) & 0xff : -(raw & 0x7f)
            return status
        }
    }

    /// The program's resident memory in bytes; nil when it has ended.
    var residentBytes: Int? {
        guard let text = try? String(contentsOfFile: "/proc/\(pid)/statm", encoding: .utf8) else { return nil }
        let figures = text.split(separator: " ")
        return figures.count > 1 ? Int(figures[1]).map { $0 * 4096 } : nil
    }
}

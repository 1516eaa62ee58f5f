// Files: a scratch directory for each measurement, and writing complete files.

import CBench
import EventLoop
import Glibc

enum Files {
    static func write(_ text: String, to path: String) throws(BenchError) {
        let fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        guard fd >= 0 else { throw BenchError("cannot write \(path): \(SystemError.text(of: errno))") }
        defer { close(fd) }
        let bytes = Array(text.utf8)
        var written = 0
        while written < bytes.count {
            let count = bytes[written...].withUnsafeBytes { Glibc.write(fd, $0.baseAddress, $0.count) }
            guard count > 0 else { throw BenchError("cannot write \(path): \(SystemError.text(of: errno))") }
            written += count
        }
    }

    /// A new directory in `parent`.
    static func scratch(in parent: String) throws(BenchError) -> String {
        var name = Array("\(parent)/forebay-bench.XXXXXX".utf8CString)
        guard mkdtemp(&name) != nil else {
            throw BenchError("cannot create a directory in \(parent): \(SystemError.text(of: errno))")
        }
        return String(decoding: name.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Whether a directory's file system, tmpfs or ramfs, keeps files in memory.
    static func isInMemory(_ directory: String) -> Bool { cb_is_in_memory(directory) == 1 }

    /// Makes a path absolute, because brokers run in their own directories. Symbolic links, such as a virtual
    /// environment's Python, are not resolved.
    static func absolute(_ path: String) -> String {
        guard !path.hasPrefix("/"), let directory = getcwd(nil, 0) else { return path }
        defer { free(directory) }
        return String(cString: directory) + "/" + path
    }

    /// Removes a directory with all its contents.
    static func remove(_ directory: String) {
        for name in ProcessStatistics.entries(of: directory) {
            let path = directory + "/" + name
            if unlink(path) < 0 { remove(path) }
        }
        rmdir(directory)
    }
}

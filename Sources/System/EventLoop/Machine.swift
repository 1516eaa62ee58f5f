// Machine: what the host provides to this process.

import CLinux
import Glibc

public enum Machine {
    /// The number of CPUs that this process may run on, at least 1.
    public static var cpuCount: Int {
        max(1, Int(fb_cpu_count()))
    }

    /// 64 random bits from the kernel.
    public static func random() throws(SystemError) -> UInt64 {
        var value: UInt64 = 0
        let count = fb_random(&value, MemoryLayout<UInt64>.size)
        if count < 0 { throw SystemError("cannot get random bits", code: -count) }
        precondition(count == MemoryLayout<UInt64>.size, "getrandom returned fewer bytes than requested")
        return value
    }

    /// Whether the kernel can encrypt what is written to a socket (its module `tls`).
    public static var kernelSpeaksTLS: Bool {
        let fd = fb_socket(AF_INET)
        if fd < 0 { return false }
        defer { close(fd) }
        // If the module is loaded, an unconnected socket is rejected with ENOTCONN; otherwise the name is unknown.
        return setsockopt(fd, Int32(IPPROTO_TCP), TCP_ULP, "tls", 3) == 0 || errno == ENOTCONN
    }

    /// Bytes of main memory.
    public static var memory: UInt64 {
        UInt64(max(0, sysconf(Int32(_SC_PHYS_PAGES)))) * UInt64(max(0, sysconf(Int32(_SC_PAGESIZE))))
    }

    /// Bytes of memory that this process uses now; 0 if unknown.
    public static var residentMemory: Int {
        let fields = text(ofFile: "/proc/self/statm")?.split(separator: " ") ?? []
        guard fields.count > 1, let pages = Int(fields[1]) else { return 0 }
        return pages * sysconf(Int32(_SC_PAGESIZE))
    }

    /// Returns to the system freed memory that the C library would otherwise keep. Allocations of all threads wait in
    /// the meantime.
    public static func returnFreeMemory() { fb_return_memory() }

    /// Opens /dev/null for each standard stream that is closed. Otherwise the next opened descriptor takes its number,
    /// and output for the stream, such as a log, goes to a client's socket. Must be called before anything is opened.
    public static func fillStandardStreams() {
        for stream in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] where fcntl(stream, F_GETFD) < 0 {
            // The new descriptor gets the lowest free number.
            _ = open("/dev/null", O_RDWR)
        }
    }

    /// Raises the limit on open files to the process's hard limit. Returns the new limit.
    public static func raiseOpenFiles() throws(SystemError) -> UInt64 {
        var limit = rlimit()
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        if getrlimit(resource, &limit) < 0 { throw SystemError("cannot read the limit on open files", code: errno) }
        if limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max
            if setrlimit(resource, &limit) < 0 {
                throw SystemError("cannot raise the limit on open files", code: errno)
            }
        }
        return UInt64(limit.rlim_cur)
    }

    /// The environment variables whose names begin with `prefix`.
    public static func environment(prefix: String) -> [(name: String, value: String)] {
        var variables: [(name: String, value: String)] = []
        guard var next = fb_environment() else { return [] }
        while let entry = next.pointee {
            let text = String(cString: entry)
            if text.hasPrefix(prefix), let equals = text.firstIndex(of: "=") {
                variables.append((String(text[..<equals]), String(text[text.index(after: equals)...])))
            }
            next += 1
        }
        return variables
    }

    /// The first `limit` bytes of a small text file such as one in /proc; nil if it cannot be read.
    public static func text(ofFile path: String, limit: Int = 64 << 10) -> String? {
        bytes(ofFile: path, limit: limit).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The first `limit` bytes of a file; nil if it cannot be read.
    public static func bytes(ofFile path: String, limit: Int) -> [UInt8]? {
        let fd = open(path, O_RDONLY | O_CLOEXEC)
        if fd < 0 { return nil }
        defer { close(fd) }
        var bytes: [UInt8] = []
        let isRead = withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 1) { buffer in
            while bytes.count < limit {
                switch Socket.read(fd, into: buffer) {
                case .bytes(let count): bytes.append(contentsOf: buffer[..<count])
                case .end: return true
                case .blocked, .failed: return false
                }
            }
            return true
        }
        return isRead ? Array(bytes.prefix(limit)) : nil
    }
}

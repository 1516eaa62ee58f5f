// ProcessResources: the kernel's statistics of this process, under the names that Prometheus' own clients use.

import EventLoop
import Glibc

struct ProcessResources: Sendable {
    /// CPU time in seconds, user and system.
    let processor: Double
    /// Bytes.
    let resident: Int
    let virtual: Int
    let threads: Int
    let openFiles: Int
    let mostFiles: UInt64
    /// Start time in seconds since 1970.
    let started: Double

    init() {
        let ticks = Double(sysconf(Int32(_SC_CLK_TCK)))
        // The fields from the state on; the command name ahead of it may contain spaces: proc(5).
        let stat = Machine.text(ofFile: "/proc/self/stat") ?? ""
        let fields = stat.split(separator: ")").last?.split(separator: " ") ?? []
        func field(_ number: Int) -> Double { number - 3 < fields.count ? Double(fields[number - 3]) ?? 0 : 0 }
        processor = (field(14) + field(15)) / ticks
        threads = Int(field(20))
        virtual = Int(field(23))
        resident = Int(field(24)) * Int(sysconf(Int32(_SC_PAGESIZE)))
        let boot = Machine.text(ofFile: "/proc/stat", limit: 1 << 20)?
            .split(separator: "\n").first { $0.hasPrefix("btime ") }
        started = field(22) / ticks + (boot.flatMap { Double($0.dropFirst(6)) } ?? 0)
        var limit = rlimit()
        mostFiles = getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 ? UInt64(limit.rlim_cur) : 0
        openFiles = ProcessResources.countFiles()
    }

    private static func countFiles() -> Int {
        guard let directory = opendir("/proc/self/fd") else { return 0 }
        defer { closedir(directory) }
        var count = 0
        while readdir(directory) != nil { count += 1 }
        // ".", ".." and the directory itself.
        return max(0, count - 3)
    }

    func add(to out: inout Exposition) {
        out.family("process_cpu_seconds_total", .counter, "Total user and system CPU time in seconds.")
        out.sample(number: processor)
        out.single("process_resident_memory_bytes", .gauge, "Resident memory in bytes.", resident)
        out.single("process_virtual_memory_bytes", .gauge, "Virtual memory in bytes.", virtual)
        out.single("process_open_fds", .gauge, "Number of open file descriptors.", openFiles)
        out.single("process_max_fds", .gauge, "Maximum number of open file descriptors.", mostFiles)
        out.family("process_start_time_seconds", .gauge, "Start time of the process, in seconds since 1970.")
        out.sample(number: started)
    }
}

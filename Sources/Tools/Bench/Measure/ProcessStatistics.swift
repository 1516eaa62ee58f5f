// ProcessStatistics: statistics of another process from /proc: CPU time in nanoseconds, memory, open connections.

import EventLoop
import Glibc

/// Nanoseconds on a CPU, and nanoseconds ready to run while something else had the CPU.
struct CPUTime: Equatable {
    var used: UInt64 = 0
    var waited: UInt64 = 0
}

/// Resident bytes of a process.
struct ProcessMemory {
    var resident: Int
    var peak: Int
    /// Without mapped files, such as a store's.
    var anonymous: Int

    /// - Parameter status: the text of /proc/PID/status.
    init(status: String) {
        resident = ProcessStatistics.kilobytes("VmRSS", in: status) << 10
        peak = ProcessStatistics.kilobytes("VmHWM", in: status) << 10
        anonymous = ProcessStatistics.kilobytes("RssAnon", in: status) << 10
    }
}

enum ProcessStatistics {
    /// CPU time of all threads of a process, to the precision of a scheduler tick.
    static func time(of process: Int32) -> CPUTime {
        var sum = CPUTime()
        let directory = "/proc/\(process)/task"
        for thread in entries(of: directory) {
            guard let text = Machine.text(ofFile: "\(directory)/\(thread)/schedstat"),
                let time = schedstat(text)
            else { continue }
            sum.used += time.used
            sum.waited += time.waited
        }
        return sum
    }

    static func memory(of process: Int32) -> ProcessMemory {
        ProcessMemory(status: Machine.text(ofFile: "/proc/\(process)/status") ?? "")
    }

    /// The first two of the three values in schedstat.
    static func schedstat(_ text: String) -> CPUTime? {
        let words = text.split(whereSeparator: { $0 == " " || $0 == "\n" }).map { UInt64($0) }
        guard words.count == 3, let used = words[0], let waited = words[1] else { return nil }
        return CPUTime(used: used, waited: waited)
    }

    /// The value of a line `Name:   1234 kB` in /proc/PID/status; 0 if there is no such line.
    static func kilobytes(_ name: String, in status: String) -> Int {
        for line in status.split(separator: "\n") where line.hasPrefix(name + ":") {
            let words = line.split(whereSeparator: { $0 == " " || $0 == "\t" })
            return words.count > 1 ? Int(words[1]) ?? 0 : 0
        }
        return 0
    }

    static func entries(of directory: String) -> [String] {
        guard let stream = opendir(directory) else { return [] }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return names
    }
}

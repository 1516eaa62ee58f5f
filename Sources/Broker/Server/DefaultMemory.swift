// DefaultMemory: the default memory budget, from the control group's limit or the machine's memory.

import EventLoop

enum DefaultMemory {
    /// A quarter of the control group's limit, or else of the machine's memory, in bytes; at least 16 MiB.
    static func bytes() -> Int {
        let groups = Machine.text(ofFile: "/proc/self/cgroup") ?? ""
        let limit = limitFiles(groups: groups).compactMap { path in
            Machine.text(ofFile: path).flatMap(parseLimit)
        }.min()
        return quarter(machine: Machine.memory, limit: limit)
    }

    static func quarter(machine: UInt64, limit: UInt64?) -> Int {
        let whole = min(machine, limit ?? .max)
        return max(16 << 20, Int(clamping: whole / 4))
    }

    /// The files that may hold a limit for a process whose /proc/self/cgroup is `groups`: version 2 (`0::/path`) and
    /// version 1 (`7:memory:/path`), of the group and all its ancestors, because any of them may be the tightest. In a
    /// container, the path may be the host's while the files are at the root.
    static func limitFiles(groups: String) -> [String] {
        var files: [String] = []
        for line in groups.split(separator: "\n") {
            let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard fields.count == 3 else { continue }
            let base: (root: String, file: String)
            if fields[0] == "0", fields[1].isEmpty {
                base = ("/sys/fs/cgroup", "memory.max")
            } else if fields[1].split(separator: ",").contains("memory") {
                base = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            } else {
                continue
            }
            var names = fields[2].split(separator: "/").filter { $0 != ".." }
            while true {
                files.append(([Substring(base.root)] + names + [Substring(base.file)]).joined(separator: "/"))
                if names.popLast() == nil { break }
            }
        }
        return files
    }

    /// The limit in bytes; nil for "max" and for text that is not a number. Version 1 expresses "no limit" as a number
    /// far above any machine's memory, which needs no special case.
    static func parseLimit(_ text: String) -> UInt64? {
        let line = text.split(whereSeparator: \.isWhitespace).first
        return line.flatMap { UInt64($0) }
    }
}

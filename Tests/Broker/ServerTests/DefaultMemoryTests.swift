// The default memory: derived from the texts of /proc and of control groups.

import Testing

@testable import Server

struct DefaultMemoryTests {
    @Test func version2LooksAtTheGroupAndAllAboveIt() {
        #expect(
            DefaultMemory.limitFiles(groups: "0::/user.slice/session.scope\n") == [
                "/sys/fs/cgroup/user.slice/session.scope/memory.max", "/sys/fs/cgroup/user.slice/memory.max",
                "/sys/fs/cgroup/memory.max",
            ])
    }

    @Test func version1LooksAtTheMemoryController() {
        let groups = """
            12:cpu,cpuacct:/docker/abc
            7:hugetlb,memory:/docker/a:b
            1:name=systemd:/docker/abc

            """
        #expect(
            DefaultMemory.limitFiles(groups: groups) == [
                "/sys/fs/cgroup/memory/docker/a:b/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/docker/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            ])
    }

    @Test(arguments: ["", "\n", "nonsense", "0:", "5:cpu:/x", "0:memoryless:/x"])
    func nothingElseNamesAFile(groups: String) {
        #expect(DefaultMemory.limitFiles(groups: groups) == [])
    }

    @Test func aPathDoesNotLeadOutOfTheTree() {
        #expect(
            DefaultMemory.limitFiles(groups: "0::/../../etc") == [
                "/sys/fs/cgroup/etc/memory.max", "/sys/fs/cgroup/memory.max",
            ])
    }

    @Test(
        arguments: [
            ("max\n", nil), ("1073741824\n", 1 << 30), ("0", 0), ("", nil), ("-1\n", nil), ("1e9", nil),
            ("9223372036854771712\n", 9_223_372_036_854_771_712), ("99999999999999999999", nil),
        ] as [(String, UInt64?)])
    func readsALimit(text: String, limit: UInt64?) {
        #expect(DefaultMemory.parseLimit(text) == limit)
    }

    @Test(
        arguments: [
            (8 << 30, nil, 2 << 30), (8 << 30, 4 << 30, 1 << 30), (8 << 30, 9_223_372_036_854_771_712, 2 << 30),
            (8 << 30, 1 << 20, 16 << 20), (0, nil, 16 << 20), (UInt64.max, nil, 1 << 62),
        ] as [(UInt64, UInt64?, Int)])
    func aQuarterOfTheSmaller(machine: UInt64, limit: UInt64?, budget: Int) {
        let found = DefaultMemory.quarter(machine: machine, limit: limit)
        #expect(found == budget || machine == .max && found == budget - 1)
    }
}

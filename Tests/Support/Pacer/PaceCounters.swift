// PaceCounters: the progress of the two ends of a pipeline, in memory shared by their processes.

import Glibc
import Synchronization

/// A mapped file of zeroes. The file stays mapped as long as the process lives.
struct PaceCounters: @unchecked Sendable {
    private static let size = 4096

    private let figures: UnsafeMutablePointer<Atomic<Int>>

    /// - Returns: nil if the file cannot be mapped.
    init?(_ path: String) {
        let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0 else { return nil }
        defer { close(file) }
        guard ftruncate(file, off_t(Self.size)) == 0,
            let memory = mmap(nil, Self.size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), memory != MAP_FAILED
        else { return nil }
        figures = memory.assumingMemoryBound(to: Atomic<Int>.self)
    }

    /// Messages that the consumer has requested.
    var asked: Int { figures[0].load(ordering: .sequentiallyConsistent) }
    /// Messages that the producer has produced.
    var made: Int { figures[8].load(ordering: .sequentiallyConsistent) }
    /// The largest number of messages by which production was ahead of requests.
    var lead: Int { figures[16].load(ordering: .sequentiallyConsistent) }

    /// Call this before the consumer requests `count` more messages.
    func ask(_ count: Int) { figures[0].add(count, ordering: .sequentiallyConsistent) }

    /// Call this when the producer produces another message.
    func make() {
        let made = figures[8].add(1, ordering: .sequentiallyConsistent).newValue
        _ = figures[16].max(made - asked, ordering: .relaxed)
    }
}

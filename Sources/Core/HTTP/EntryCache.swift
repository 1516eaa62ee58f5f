// EntryCache: a topic's messages as gRPC has them, made once for all gRPC subscribers of a shard's view. A run holds
// the entries of consecutive messages one behind the other, so that what a subscriber is to get next is a range of it.
//
//     run: first | entry entry entry …   free |      run: first | …

import Bytes
import HTTP2
import Replay

/// Entries of consecutive messages, in one region of memory that never moves.
final class EntryRun {
    /// Bytes of the first run of a topic, and of the largest that holds more than one message.
    static let smallest = 4 << 10
    static let largest = 64 << 10

    let first: SequenceNumber
    private let base: UnsafeMutableRawPointer
    private let capacity: Int
    private let budget: MemoryBudget
    /// Where each entry ends.
    private var ends: [Int] = []
    /// When it was last used, in the cache's count.
    var lastUse: UInt64 = 0

    init(first: SequenceNumber, capacity: Int, budget: MemoryBudget) {
        self.first = first
        self.capacity = capacity
        self.budget = budget
        base = .allocate(byteCount: capacity, alignment: 16)
        budget.add(capacity)
    }

    deinit {
        base.deallocate()
        budget.add(-capacity)
    }

    var end: SequenceNumber { first.advanced(by: ends.count) }
    var memory: Int { capacity }

    /// Bytes of the entry that a message of `log` will have.
    static func size(of sequence: SequenceNumber, in log: Log) -> Int {
        let piece = log.piece(of: sequence)
        let entry = piece.chunk.entry(sequence - piece.first)
        return MessageEntry(
            sequence: sequence.value, timestamp: entry.timestamp, payloadCount: Int(entry.payload),
            metadata: piece.chunk.metadata(entry)
        ).size
    }

    /// Where the entry of `sequence` begins.
    private func offset(_ position: Int) -> Int { position == 0 ? 0 : ends[position - 1] }

    /// Adds the message behind the last one; false if there is no room for it.
    func add(_ chunk: Chunk, _ entry: Chunk.Entry) -> Bool {
        let start = ends.last ?? 0
        let message = MessageEntry(
            sequence: end.value, timestamp: entry.timestamp, payloadCount: Int(entry.payload),
            metadata: chunk.metadata(entry))
        guard capacity - start >= message.size else { return false }
        var cursor = message.writeHead(to: base + start)
        chunk.forEachPayloadPart(entry) { part in
            cursor.copyMemory(from: part.baseAddress!, byteCount: part.count)
            cursor += part.count
        }
        message.writeTail(to: cursor)
        ends.append(start + message.size)
        return true
    }

    /// The entries from `sequence` on, at most `most` of them and at most `room` bytes, but one at least.
    func entries(from sequence: SequenceNumber, most: Int, room: Int) -> (count: Int, bytes: UnsafeRawBufferPointer) {
        let position = sequence - first
        let start = offset(position)
        var low = 1
        var high = Swift.min(most, ends.count - position)
        while low < high {
            let middle = (low + high + 1) / 2
            if ends[position + middle - 1] - start <= room { low = middle } else { high = middle - 1 }
        }
        let size = ends[position + low - 1] - start
        return (low, UnsafeRawBufferPointer(start: base + start, count: size))
    }
}

/// The runs of one view, sorted by their first message. They may leave messages out that nobody has asked for.
struct EntryCache {
    /// Bytes of all runs of a view, above which the one that was used longest ago goes.
    static let limit = 4 << 20

    private var runs: [EntryRun] = []
    private var uses: UInt64 = 0
    private(set) var memory = 0
    /// Bytes of the next run: a topic with few messages is to take little.
    private var nextCapacity = EntryRun.smallest

    func forEachRun(_ body: (EntryRun) -> Void) { runs.forEach(body) }

    /// The run that holds `sequence`, which `log` has.
    mutating func run(for sequence: SequenceNumber, in log: Log, budget: MemoryBudget) -> EntryRun {
        uses += 1
        let place = place(of: sequence)
        if place > 0 {
            let run = runs[place - 1]
            run.lastUse = uses
            if sequence < run.end { return run }
            if sequence == run.end {
                extend(run, place, log)
                if sequence < run.end { return run }
            }
        }
        return make(at: sequence, place, log, budget)
    }

    /// Messages before `sequence` have gone.
    mutating func evict(before sequence: SequenceNumber) {
        guard let first = runs.first, first.end <= sequence else { return }
        runs.removeAll {
            guard $0.end <= sequence else { return false }
            memory -= $0.memory
            return true
        }
    }

    mutating func removeAll() {
        runs.removeAll()
        memory = 0
        nextCapacity = EntryRun.smallest
    }

    /// How many runs begin at or before `sequence`.
    private func place(of sequence: SequenceNumber) -> Int {
        var low = 0
        var high = runs.count
        while low < high {
            let middle = (low + high) / 2
            if runs[middle].first <= sequence { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Adds what the log has behind a run, as far as the next run and its room allow.
    private func extend(_ run: EntryRun, _ place: Int, _ log: Log) {
        let stop = place < runs.count ? Swift.min(runs[place].first, log.end) : log.end
        while run.end < stop {
            let piece = log.piece(of: run.end)
            guard run.add(piece.chunk, piece.chunk.entry(run.end - piece.first)) else { return }
        }
    }

    private mutating func make(
        at sequence: SequenceNumber, _ place: Int, _ log: Log, _ budget: MemoryBudget
    ) -> EntryRun {
        let needed = EntryRun.size(of: sequence, in: log)
        let run = EntryRun(first: sequence, capacity: Swift.max(nextCapacity, needed), budget: budget)
        nextCapacity = Swift.min(nextCapacity * 2, EntryRun.largest)
        run.lastUse = uses
        runs.insert(run, at: place)
        memory += run.memory
        extend(run, place + 1, log)
        while memory > EntryCache.limit, runs.count > 1 { dropOldest() }
        return run
    }

    private mutating func dropOldest() {
        let index = runs.indices.min { runs[$0].lastUse < runs[$1].lastUse }!
        memory -= runs[index].memory
        runs.remove(at: index)
    }
}

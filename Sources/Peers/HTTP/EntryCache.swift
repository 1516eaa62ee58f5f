// EntryCache: a topic's messages in one of the formats in which they are sent over HTTP, encoded once for all
// subscribers of a shard's view that use this format. A run holds the contiguous entries of consecutive messages, so a
// subscriber's next messages are a range of a run.
//
//     run: first | entry entry entry …   free |      run: first | …

import Bytes
import HTTP2
import Replay

/// Entries of consecutive messages, in one region of memory that never moves.
final class EntryRun: Region, @unchecked Sendable {
    /// Bytes of a topic's first run, and of the largest run that holds more than one message.
    static let smallest = 4 << 10
    static let largest = 64 << 10
    /// The size from which a run requires memory to be available.
    static let large = 16 << 10

    let first: SequenceNumber
    private let form: EntryForm
    /// The topic's name in the forms that contain it; empty in others.
    private let topic: [UInt8]
    /// The budget that counts the run, if it is large.
    private let forms: MemoryBudget?
    /// The end offset of each entry.
    private var ends: [Int] = []
    /// When the run was last used, by the cache's counter.
    var lastUse: UInt64 = 0

    /// - Parameter topic: the topic's name.
    init(first: SequenceNumber, capacity: Int, form: EntryForm = .call, topic: String = "", budget: MemoryBudget) {
        self.first = first
        self.form = form
        self.topic = form.isNamed ? Array(topic.utf8) : []
        forms = capacity >= EntryRun.large ? budget : nil
        super.init(capacity: capacity, budget: budget)
        forms?.addForms(capacity)
    }

    deinit { forms?.addForms(-capacity) }

    var end: SequenceNumber { first.advanced(by: ends.count) }

    /// Bytes of the entry for a message of `log`.
    static func size(
        of sequence: SequenceNumber, in log: Log, of topic: String = "", as form: EntryForm = .call
    ) -> Int {
        let piece = log.piece(of: sequence)
        let entry = piece.chunk.entry(sequence - piece.first)
        var topic = form.isNamed ? topic : ""
        return topic.withUTF8 { topic in
            let topic = UnsafeRawBufferPointer(topic)
            switch form {
            case .call, .namedCall:
                return MessageEntry(
                    sequence: sequence.value, timestamp: entry.timestamp, payloadCount: Int(entry.payload),
                    metadata: piece.chunk.metadata(entry), topic: topic
                ).size
            case .record(let format, let epoch), .namedRecord(let format, let epoch):
                return EntryForm.withRecord(format, epoch, sequence, entry, of: piece.chunk, topic: topic) { $0.size }
            }
        }
    }

    /// Bytes of all entries.
    var size: Int { ends.last ?? 0 }

    /// The offset of the entry at `position`.
    private func offset(_ position: Int) -> Int { position == 0 ? 0 : ends[position - 1] }

    /// Appends a message. Returns false if there is no space for the message.
    func add(_ chunk: Chunk, _ entry: Chunk.Entry) -> Bool {
        let start = size
        return topic.withUnsafeBytes { topic in
            switch form {
            case .record(let format, let epoch), .namedRecord(let format, let epoch):
                return EntryForm.withRecord(format, epoch, end, entry, of: chunk, topic: topic) { record in
                    guard capacity - start >= record.size else { return false }
                    record.write(to: base + start)
                    ends.append(start + record.size)
                    return true
                }
            case .call, .namedCall: break
            }
            let message = MessageEntry(
                sequence: end.value, timestamp: entry.timestamp, payloadCount: Int(entry.payload),
                metadata: chunk.metadata(entry), topic: topic)
            let size = message.size
            guard capacity - start >= size else { return false }
            var cursor = message.writeHead(to: base + start)
            chunk.forEachPayloadPart(entry) { part in
                cursor.copyMemory(from: part.baseAddress!, byteCount: part.count)
                cursor += part.count
            }
            message.writeTail(to: cursor)
            ends.append(start + size)
            return true
        }
    }

    /// The entries from `sequence` on, at most `most` entries and at most `room` bytes, but at least one entry.
    func entries(from sequence: SequenceNumber, most: Int, room: Int) -> (count: Int, bytes: UnsafeRawBufferPointer) {
        let position = sequence - first
        let start = offset(position)
        var low = 1
        var high = Swift.min(most, ends.count - position)
        if ends[position + high - 1] - start <= room { low = high }
        while low < high {
            let middle = (low + high + 1) / 2
            if ends[position + middle - 1] - start <= room { low = middle } else { high = middle - 1 }
        }
        let size = ends[position + low - 1] - start
        return (low, UnsafeRawBufferPointer(start: base + start, count: size))
    }
}

/// The runs of one view in one form, sorted by their first message. Messages that no subscriber has needed may be
/// missing.
struct EntryCache {
    /// Bytes of all runs of a view. Above this, the least recently used of the runs that no connection refers to is
    /// removed. Removing others would free nothing, and their messages would be encoded again.
    static let limit = 4 << 20
    /// The limit while memory is short.
    static let shortLimit = 64 << 10
    static func limit(_ pool: BlockPool) -> Int {
        pool.isShort || pool.budget.used > pool.budget.limit ? shortLimit : limit
    }

    private var runs: [EntryRun] = []
    private var uses: UInt64 = 0
    private(set) var memory = 0
    /// Bytes of the next run: a topic with few messages should take little.
    private var nextCapacity = EntryRun.smallest
    /// Bytes of all entries ever made.
    private(set) var made = 0
    var sizes = EntrySizes()

    func forEachRun(_ body: (EntryRun) -> Void) { runs.forEach(body) }

    /// The run that already holds the message.
    mutating func find(_ sequence: SequenceNumber) -> EntryRun? {
        let place = place(of: sequence)
        guard place > 0, sequence < runs[place - 1].end else { return nil }
        uses += 1
        runs[place - 1].lastUse = uses
        return runs[place - 1]
    }

    /// The run that holds `sequence`, which must be in `log`.
    mutating func run(
        for sequence: SequenceNumber, in log: Log, of topic: String = "", as form: EntryForm = .call,
        limit: @autoclosure () -> Int = EntryCache.limit, budget: MemoryBudget
    ) -> EntryRun {
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
        return make(at: sequence, place, log, topic, form, limit, budget)
    }

    /// Removes runs of messages before `sequence`, which are no longer in the log.
    mutating func evict(before sequence: SequenceNumber) {
        guard let first = runs.first, first.end <= sequence else { return }
        runs.removeAll {
            guard $0.end <= sequence else { return false }
            memory -= $0.capacity
            $0.letGo()
            return true
        }
    }

    mutating func removeAll() {
        for run in runs { run.letGo() }
        runs.removeAll()
        memory = 0
        nextCapacity = EntryRun.smallest
    }

    mutating func removeUnused() {
        var kept: [EntryRun] = []
        for index in runs.indices {
            let isUnused = isKnownUniquelyReferenced(&runs[index])
            let run = runs[index]
            if isUnused {
                memory -= run.capacity
                run.letGo()
            } else {
                kept.append(run)
            }
        }
        runs = kept
        if runs.isEmpty { nextCapacity = EntryRun.smallest }
    }

    /// The number of runs that begin at or before `sequence`.
    private func place(of sequence: SequenceNumber) -> Int {
        var low = 0
        var high = runs.count
        // Most subscribers read the latest messages.
        if let last = runs.last, last.first <= sequence { low = high }
        while low < high {
            let middle = (low + high) / 2
            if runs[middle].first <= sequence { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Extends a run with the log's next messages, up to the next run or the end of its space.
    private mutating func extend(_ run: EntryRun, _ place: Int, _ log: Log) {
        let before = run.size
        defer { made += run.size - before }
        let stop = place < runs.count ? Swift.min(runs[place].first, log.end) : log.end
        while run.end < stop, log.holds(run.end) {
            let piece = log.piece(of: run.end)
            let end = Swift.min(stop, piece.end)
            while run.end < end {
                guard run.add(piece.chunk, piece.chunk.entry(run.end - piece.first)) else { return }
            }
        }
    }

    private mutating func make(
        at sequence: SequenceNumber, _ place: Int, _ log: Log, _ topic: String, _ form: EntryForm,
        _ limit: () -> Int, _ budget: MemoryBudget
    ) -> EntryRun {
        let needed = EntryRun.size(of: sequence, in: log, of: topic, as: form)
        // A large message has its own run: the space that it leaves would be too small for the next message.
        let capacity = needed > EntryRun.largest / 4 ? needed : Swift.max(nextCapacity, needed)
        let run = EntryRun(first: sequence, capacity: capacity, form: form, topic: topic, budget: budget)
        nextCapacity = Swift.min(nextCapacity * 2, EntryRun.largest)
        run.lastUse = uses
        runs.insert(run, at: place)
        memory += run.capacity
        extend(run, place + 1, log)
        // The new run also affects whether memory is short.
        let limit = limit()
        while memory > limit, dropOldest(but: run) {}
        return run
    }

    /// Removes the least recently used run except `new`. Returns false if connections refer to all other runs.
    private mutating func dropOldest(but new: EntryRun) -> Bool {
        var oldest: Int?
        for index in runs.indices where runs[index] !== new && isKnownUniquelyReferenced(&runs[index]) {
            if oldest.map({ runs[index].lastUse < runs[$0].lastUse }) ?? true { oldest = index }
        }
        guard let oldest else { return false }
        remove(oldest)
        return true
    }

    private mutating func remove(_ index: Int) {
        memory -= runs[index].capacity
        runs.remove(at: index).letGo()
    }
}

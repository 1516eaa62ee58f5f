// Log: one shard's view of a topic's messages, a sequence of chunks. The shard that owns the topic appends to it. Other
// shards hold a view of the same chunks, which advances when the owner notifies them.
//
//     head (oldest kept)                                   end (next message)
//       |  chunk: first, visible  |  chunk  |  …  | chunk ⋯ |

import Bytes
import Replay
import RSocket

final class Log {
    private(set) var head: SequenceNumber { didSet { noteUnbroken() } }
    private(set) var end: SequenceNumber
    /// From here on there is no hole: `head`, except in a log with holes.
    private(set) var unbroken: SequenceNumber
    /// The total charge of all messages before `end` since the topic began, in bytes.
    private(set) var charged: UInt64
    /// The timestamp of the last message appended here. Later ones are not lower, even if the clock is set back.
    private var latest = Int64.min
    private var pieces: [LogPiece] = []
    private var nextCapacity = Chunk.smallest
    private var largestCapacity = Chunk.largest
    /// Whether a message in the last chunk carries metadata.
    private var isCarrying = false
    /// Messages before `head` that a store has returned.
    private(set) var history = History()
    /// Whether this log created its chunks.
    private var isOwner = false
    /// Whether the last chunk takes no more messages, because it holds some that were removed or a hole follows it.
    private var isSealed = false
    /// The sequences from `head` on that have no message. Those from `end` on are held back: `end` moves beyond them
    /// only with the next message, so the last sequence of a log always has one.
    private(set) var holes = Holes()
    /// Whether there are any: false for topics in memory and in a store.
    private(set) var hasHoles = false

    /// An empty log, for a new topic.
    init() {
        head = .first
        end = .first
        unbroken = .first
        charged = 0
    }

    /// The log of a topic whose messages before `end`, with a total charge of `charged` bytes, are in a store.
    /// - Parameter latest: when the broker accepted the last of them, in ns since 1970.
    init(end: SequenceNumber, charged: UInt64, latest: Int64) {
        self.latest = latest
        head = end
        unbroken = end
        self.end = end
        self.charged = charged
    }

    /// Begins an empty log at `next`: earlier messages of its topic are not here.
    func begin(at next: SequenceNumber) {
        assert(pieces.isEmpty)
        head = next
        end = next
        unbroken = next
    }

    /// A view's log begins with the owner's state.
    func begin(_ snapshot: TopicSnapshot) {
        assert(pieces.isEmpty && !isOwner)
        head = snapshot.head
        end = snapshot.end
        charged = snapshot.charged
        pieces = snapshot.pieces
        append(snapshot.holes)
    }

    /// Releases all messages: this log, or this view of it, is no longer used.
    func removeAll() {
        letGo(0..<pieces.count)
        pieces = []
        head = end
        evictHoles()
        history.evict(before: end)
    }

    deinit {
        letGo(0..<pieces.count)
        history.evict(before: end)
    }

    var window: SequenceRange { SequenceRange(lower: head, upper: end) }

    /// Whether no message is in memory.
    var isEmpty: Bool { pieces.isEmpty }

    /// All pieces, to count their memory.
    var allPieces: [LogPiece] { pieces + history.pieces }

    /// Bytes of memory held by the chunks.
    var memory: Int { pieces.reduce(0) { $0 + $1.chunk.capacity } }

    static func charge(payload: Int, metadata: Int) -> Int { payload + metadata + Limits.messageOverhead }

    // Used by the owner

    /// Appends a message and returns its sequence.
    /// - Parameter timestamp: the time of day; the message gets that of the message before it if that is later.
    func append(
        metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer, timestamp: Int64,
        budget: MemoryBudget
    ) -> SequenceNumber {
        if hasHoles { passHoles() }
        let carried = metadata?.count ?? 0
        let framed = PayloadFraming.framed(payload.count)
        let last = place(for: carried + framed, carrying: carried > 0, budget: budget)
        if carried > 0 { isCarrying = true }
        pieces[last].chunk.append(
            metadata: metadata, payload: payload, framed: framed, timestamp: stamp(timestamp), chargedBefore: charged)
        pieces[last].visible += 1
        charged &+= UInt64(Log.charge(payload: payload.count, metadata: carried))
        let sequence = end
        end = end.advanced(by: 1)
        return sequence
    }

    /// Appends the messages of a run. Their frames are stored as received.
    func append(_ run: FramedRun, timestamp: Int64, budget: MemoryBudget) {
        if hasHoles { passHoles() }
        var rest = run.bytes
        let timestamp = stamp(timestamp)
        while !rest.isEmpty {
            let last = place(for: PayloadFraming.length(of: rest), carrying: false, budget: budget)
            let taken = pieces[last].chunk.append(
                frames: rest, of: run.stream, timestamp: timestamp, chargedBefore: charged)
            pieces[last].visible += taken.count
            charged &+= taken.charge
            end = end.advanced(by: taken.count)
            rest = rest.slice(taken.bytes..<rest.count)
        }
    }

    /// Makes a hole of the sequences before `sequence` that no message has been appended to and no earlier hole has.
    func skip(to sequence: SequenceNumber, isLost: Bool) {
        append([Hole(range: SequenceRange(lower: next, upper: sequence), isLost: isLost)])
    }

    /// Before a message is appended: moves the end beyond the holes that follow the last message. Pieces are
    /// contiguous, so the message begins a chunk. That chunk is small: many holes must not leave many large chunks that
    /// are mostly empty.
    private func passHoles() {
        guard next > end else { return }
        end = next
        isSealed = true
        nextCapacity = Chunk.smallest
    }

    private func append(_ new: [Hole]) {
        for hole in new { holes.append(hole) }
        hasHoles = !holes.isEmpty
        noteUnbroken()
    }

    private func noteUnbroken() { unbroken = hasHoles ? Swift.max(head, holes.end) : head }

    private func evictHoles() {
        guard hasHoles else { return }
        holes.evict(before: head)
        hasHoles = !holes.isEmpty
        noteUnbroken()
    }

    /// The timestamp of messages appended at this time of day.
    @inline(__always)
    private func stamp(_ clock: Int64) -> Int64 {
        latest = Swift.max(latest, clock)
        return latest
    }

    /// The index of the last piece, after making sure that it has room for a message of `needed` bytes.
    private func place(for needed: Int, carrying: Bool, budget: MemoryBudget) -> Int {
        let last = pieces.count - 1
        if last >= 0, !isSealed, pieces[last].chunk.fits(needed), !carrying || pieces[last].chunk.hasMetadata {
            return last
        }
        // Alternating messages with and without metadata must not start a new chunk each time.
        let hasMetadata = carrying || isCarrying
        // A chunk that is mostly empty must not exceed the limit by far.
        if budget.isFull { nextCapacity = Chunk.smallest }
        let capacity = capacity(for: needed + Chunk.entrySize)
        let chunk = Chunk(first: end, hasMetadata: hasMetadata, capacity: capacity, budget: budget)
        pieces.append(LogPiece(chunk: chunk, visible: 0))
        isCarrying = false
        isSealed = false
        isOwner = true
        return last + 1
    }

    /// The capacity of a chunk whose first message needs `needed` bytes. A large message gets a separate chunk: the
    /// space it would leave free in a shared one is too small for the next.
    private func capacity(for needed: Int) -> Int {
        if needed > Chunk.largest / 4 { return needed }
        let capacity = Swift.min(nextCapacity, largestCapacity)
        nextCapacity = Swift.min(nextCapacity * 2, Chunk.largest)
        return Swift.max(capacity, needed)
    }

    /// Limits new chunks for several messages to `bytes`, until all messages are gone.
    func limitChunks(to bytes: Int) { largestCapacity = Swift.max(Chunk.smallest, Swift.min(bytes, Chunk.largest)) }

    /// The charge of the messages in `head ..< end`, in bytes.
    var bytes: Int { Int(charged - chargedBefore(head)) }

    /// The charge of the messages from `sequence` on, in bytes.
    func bytes(from sequence: SequenceNumber) -> Int {
        Int(charged - chargedBefore(Swift.min(Swift.max(sequence, head), end)))
    }

    /// The first sequence from which on the charge is at most `limit` bytes.
    func firstWithin(_ limit: Int) -> SequenceNumber {
        guard bytes > limit else { return head }
        let target = charged - UInt64(limit)
        var low = head
        var high = end
        while low < high {
            let middle = low.advanced(by: (high - low) / 2)
            if chargedBefore(middle) >= target { high = middle } else { low = middle.advanced(by: 1) }
        }
        return low
    }

    /// The first sequence from which on whole chunks take at most `limit` bytes of memory; `end` if the last chunk
    /// alone takes more.
    func firstWithin(memory limit: Int) -> SequenceNumber {
        var sum = 0
        var first = end
        for piece in pieces.reversed() {
            sum += piece.chunk.capacity
            guard sum <= limit else { break }
            first = piece.first
        }
        return Swift.max(first, head)
    }

    /// The pieces with messages from `sequence` up to `limit` (exclusive), for a view that has all earlier messages.
    func pieces(from sequence: SequenceNumber, upTo limit: SequenceNumber) -> [LogPiece] {
        guard sequence < limit else { return [] }
        var found = Array(pieces[index(of: sequence)...index(of: limit.advanced(by: -1))])
        if hasHoles { found.removeAll { $0.end <= sequence || $0.first >= limit } }
        guard let last = found.last else { return [] }
        found[found.count - 1].visible = Swift.min(last.visible, limit - last.first)
        return found
    }

    /// The total charge of all messages before `sequence`, which must lie in `window`, since the topic began.
    func charged(before sequence: SequenceNumber) -> UInt64 { chargedBefore(sequence) }

    /// Removes the messages from `sequence` on, which no other shard knows of. Their memory stays in use until the
    /// chunks are released.
    func removeAll(from sequence: SequenceNumber) {
        assert(!hasHoles, "a topic in a store has no holes")
        guard sequence < end else { return }
        charged = chargedBefore(sequence)
        let last = index(of: sequence)
        letGo(last + 1..<pieces.count)
        pieces.removeLast(pieces.count - last - 1)
        pieces[last].visible = sequence - pieces[last].first
        if pieces[last].visible == 0 {
            letGo(last..<last + 1)
            pieces.removeLast()
        }
        // Also if the chunk is gone: the one before it may hold messages that were removed earlier. The next chunk is
        // small: a store that refuses again and again must not leave a large one each time.
        isSealed = true
        nextCapacity = Chunk.smallest
        end = sequence
        head = Swift.min(head, end)
    }

    // Used by every view

    /// Extends this view: `fresh` holds the pieces from its end on, and `new` the holes.
    func advance(to end: SequenceNumber, charged: UInt64, fresh: [LogPiece], holes new: [Hole] = []) {
        if !new.isEmpty { append(new) }
        for piece in fresh {
            if let last = pieces.last, last.chunk === piece.chunk {
                pieces[pieces.count - 1].visible = piece.visible
            } else {
                pieces.append(piece)
            }
        }
        self.end = end
        self.charged = charged
    }

    /// Drops messages before `sequence` and releases chunks without later ones.
    func evict(before sequence: SequenceNumber) {
        guard sequence > head else { return }
        head = Swift.min(sequence, end)
        evictHoles()
        // The last chunk stays, because the writer continues in it.
        var passed = 0
        while passed < pieces.count - 1, pieces[passed].end <= head { passed += 1 }
        guard passed > 0 else { return }
        letGo(0..<passed)
        pieces.removeFirst(passed)
    }

    /// Releases the last chunk too if it holds no message that is kept.
    func releaseLastChunk() {
        guard head == end else { return }
        letGo(0..<pieces.count)
        pieces.removeAll()
        nextCapacity = Chunk.smallest
        largestCapacity = Chunk.largest
    }

    /// Releases some chunks on behalf of the log.
    private func letGo(_ range: Range<Int>) {
        guard isOwner else { return }
        for piece in pieces[range] { piece.chunk.letGo() }
    }

    /// When the broker accepted the message at `sequence`, or the first one after it if there is a hole, in ns since
    /// 1970.
    func timestamp(_ sequence: SequenceNumber) -> Int64 { entry(from: sequence).timestamp }

    /// The first message whose timestamp is at or after `time`, in ns since 1970; `end` if all are earlier. Nil if no
    /// message in memory is earlier: messages that are no longer in memory may then be at or after it, too.
    func first(atOrAfter time: Int64) -> SequenceNumber? {
        // The number of pieces that begin with an earlier message.
        var low = 0
        var high = pieces.count
        while low < high {
            let middle = (low + high) / 2
            if pieces[middle].chunk.entry(0).timestamp < time { low = middle + 1 } else { high = middle }
        }
        guard low > 0 else { return nil }
        let piece = pieces[low - 1]
        var first = 1
        var last = piece.visible
        while first < last {
            let middle = (first + last) / 2
            if piece.chunk.entry(middle).timestamp < time { first = middle + 1 } else { last = middle }
        }
        let found = piece.first.advanced(by: first)
        return found > head ? found : nil
    }

    /// The piece that contains `sequence`, which must be in this log.
    @inline(__always)
    func piece(of sequence: SequenceNumber) -> LogPiece {
        if sequence < head, let piece = history.piece(of: sequence) { return piece }
        if let last = pieces.last, sequence >= last.first { return last }
        return pieces[index(of: sequence)]
    }

    /// Whether the message at `sequence`, which must be before `end`, is in memory. If not, it is in a store, or
    /// `sequence` is in a hole.
    func holds(_ sequence: SequenceNumber) -> Bool {
        if hasHoles, holes.hole(at: sequence) != nil { return false }
        return sequence >= head || history.piece(of: sequence) != nil
    }

    /// The oldest message in memory.
    var oldestHeld: SequenceNumber { history.first ?? head }

    /// Adds messages that a store has returned.
    func insert(_ piece: LogPiece, most: Int) { history.insert(piece, most: most) }

    /// Releases messages before `sequence` that a store had returned.
    func evictHistory(before sequence: SequenceNumber) { history.evict(before: sequence) }

    private func chargedBefore(_ sequence: SequenceNumber) -> UInt64 {
        guard sequence < end else { return charged }
        return entry(from: sequence).chargedBefore
    }

    /// The index entry of the first message from `sequence` on, which must be before `end`. There is one: the last
    /// sequence has a message.
    private func entry(from sequence: SequenceNumber) -> Chunk.Entry {
        let index = index(of: sequence)
        let piece = pieces[index]
        let position = sequence - piece.first
        if position < piece.visible { return piece.chunk.entry(Swift.max(0, position)) }
        return pieces[index + 1].chunk.entry(0)
    }

    /// The piece that contains `sequence`. In a hole: the one before it, or the first if there is none before it. Most
    /// readers are near the end, so the last pieces are tried first.
    private func index(of sequence: SequenceNumber) -> Int {
        var low = 0
        var high = pieces.count - 1
        if high >= 1, sequence >= pieces[high - 1].first { low = high - 1 }
        while low < high {
            let middle = (low + high + 1) / 2
            if pieces[middle].first <= sequence { low = middle } else { high = middle - 1 }
        }
        return low
    }
}

// Log: one shard's view of a topic's messages, a run of chunks. The shard that owns the topic appends to it; other
// shards hold a view of the same chunks, which advances when they are told.
//
//     head (oldest kept)                                   end (next to come)
//       |  chunk: first, visible  |  chunk  |  …  | chunk ⋯ |

import Bytes
import Replay
import RSocket

/// Part of a chunk that a shard has been told of.
struct LogPiece: Sendable {
    var chunk: Chunk
    /// Messages of the chunk that exist for this view.
    var visible: Int

    var first: SequenceNumber { chunk.first }
    var end: SequenceNumber { chunk.first.advanced(by: visible) }
}

final class Log {
    private(set) var head: SequenceNumber
    private(set) var end: SequenceNumber
    /// What all messages before `end` were charged since the topic began, in bytes.
    private(set) var charged: UInt64
    private var pieces: [LogPiece] = []
    private var nextCapacity = Chunk.smallest
    private var largestCapacity = Chunk.largest
    /// A message of the last chunk carries metadata.
    private var isCarrying = false
    /// What a store brought back from before `head`.
    private(set) var history = History()
    /// Its chunks were made here.
    private var isOwner = false

    /// An empty one, of a topic that begins.
    init() {
        head = .first
        end = .first
        charged = 0
    }

    /// A view's log begins with what the topic's owner has.
    func begin(_ snapshot: TopicSnapshot) {
        assert(pieces.isEmpty && !isOwner)
        head = snapshot.head
        end = snapshot.end
        charged = snapshot.charged
        pieces = snapshot.pieces
    }

    /// Gives up all messages: nobody looks at this log, or this view of it, any more.
    func removeAll() {
        letGo(pieces.count)
        pieces = []
        history.evict(before: end)
    }

    deinit {
        letGo(pieces.count)
        history.evict(before: end)
    }

    var window: SequenceRange { SequenceRange(lower: head, upper: end) }

    /// All pieces, for those who count memory.
    var allPieces: [LogPiece] { pieces + history.pieces }

    /// Bytes of memory that the chunks hold.
    var memory: Int { pieces.reduce(0) { $0 + $1.chunk.capacity } }

    static func charge(payload: Int, metadata: Int) -> Int { payload + metadata + Limits.messageOverhead }

    // The owner's side

    /// Appends a message and returns its sequence.
    func append(
        metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer, timestamp: Int64,
        budget: MemoryBudget
    ) -> SequenceNumber {
        let carried = metadata?.count ?? 0
        let framed = PayloadFraming.framed(payload.count)
        let last = place(for: carried + framed, carrying: carried > 0, budget: budget)
        if carried > 0 { isCarrying = true }
        pieces[last].chunk.append(
            metadata: metadata, payload: payload, framed: framed, timestamp: timestamp, chargedBefore: charged)
        pieces[last].visible += 1
        charged &+= UInt64(Log.charge(payload: payload.count, metadata: carried))
        let sequence = end
        end = end.advanced(by: 1)
        return sequence
    }

    /// Appends the messages of a run, whose frames stand in the log as they came.
    func append(_ run: FramedRun, timestamp: Int64, budget: MemoryBudget) {
        var rest = run.bytes
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

    /// The last piece, which has room for a message of `needed` bytes.
    private func place(for needed: Int, carrying: Bool, budget: MemoryBudget) -> Int {
        let last = pieces.count - 1
        if last >= 0, pieces[last].chunk.fits(needed), !carrying || pieces[last].chunk.hasMetadata { return last }
        // A topic whose publishers differ is not to begin a chunk for each of them.
        let hasMetadata = carrying || isCarrying
        let capacity = capacity(for: needed + Chunk.entrySize)
        let chunk = Chunk(first: end, hasMetadata: hasMetadata, capacity: capacity, budget: budget)
        pieces.append(LogPiece(chunk: chunk, visible: 0))
        isCarrying = false
        isOwner = true
        return last + 1
    }

    /// The size of a chunk whose first message needs `needed` bytes. A large message has one of its own: what it would
    /// leave free of a common one is too little for the next.
    private func capacity(for needed: Int) -> Int {
        if needed > Chunk.largest / 4 { return needed }
        let capacity = Swift.min(nextCapacity, largestCapacity)
        nextCapacity = Swift.min(nextCapacity * 2, Chunk.largest)
        return Swift.max(capacity, needed)
    }

    /// New chunks for several messages take at most `bytes`, until all messages are gone.
    func limitChunks(to bytes: Int) { largestCapacity = Swift.max(Chunk.smallest, Swift.min(bytes, Chunk.largest)) }

    /// What messages in `head ..< end` are charged, in bytes.
    var bytes: Int { Int(charged - chargedBefore(head)) }

    /// What the messages from `sequence` on are charged, in bytes.
    func bytes(from sequence: SequenceNumber) -> Int {
        Int(charged - chargedBefore(Swift.min(Swift.max(sequence, head), end)))
    }

    /// The first sequence from which at most `limit` bytes are charged.
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

    /// The first sequence from which on whole chunks take at most `limit` bytes of memory; the end if the last one
    /// takes more.
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

    /// The pieces with messages from `sequence` up to `limit` (exclusive), for who has all before it.
    func pieces(from sequence: SequenceNumber, upTo limit: SequenceNumber) -> [LogPiece] {
        guard sequence < limit else { return [] }
        var found = Array(pieces[index(of: sequence)...index(of: limit.advanced(by: -1))])
        found[found.count - 1].visible = limit - found[found.count - 1].first
        return found
    }

    /// What all messages before `sequence`, which lies in `window`, were charged since the topic began.
    func charged(before sequence: SequenceNumber) -> UInt64 { chargedBefore(sequence) }

    // Every view's side

    /// The log grew: `fresh` holds the pieces from this view's end on.
    func advance(to end: SequenceNumber, charged: UInt64, fresh: [LogPiece]) {
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

    /// Messages before `sequence` are given up; chunks without any other go.
    func evict(before sequence: SequenceNumber) {
        guard sequence > head else { return }
        head = Swift.min(sequence, end)
        // The last chunk stays: the writer goes on in it.
        var passed = 0
        while passed < pieces.count - 1, pieces[passed].end <= head { passed += 1 }
        guard passed > 0 else { return }
        letGo(passed)
        pieces.removeFirst(passed)
    }

    /// Gives back the last chunk too, if no message of it is kept.
    func releaseLastChunk() {
        guard head == end else { return }
        letGo(pieces.count)
        pieces.removeAll()
        nextCapacity = Chunk.smallest
        largestCapacity = Chunk.largest
    }

    /// The first `count` chunks go, as far as the log is concerned.
    private func letGo(_ count: Int) {
        guard isOwner else { return }
        for piece in pieces[..<count] { piece.chunk.letGo() }
    }

    /// When the message at `sequence` was taken, in ns since 1970.
    func timestamp(_ sequence: SequenceNumber) -> Int64 {
        let piece = pieces[index(of: sequence)]
        return piece.chunk.entry(sequence - piece.first).timestamp
    }

    /// The piece that holds `sequence`, which this log holds.
    @inline(__always)
    func piece(of sequence: SequenceNumber) -> LogPiece {
        if sequence < head, let piece = history.piece(of: sequence) { return piece }
        if let last = pieces.last, sequence >= last.first { return last }
        return pieces[index(of: sequence)]
    }

    /// Whether the message at `sequence`, which is before `end`, is here, or else in a store.
    func holds(_ sequence: SequenceNumber) -> Bool { sequence >= head || history.piece(of: sequence) != nil }

    /// The oldest message that is here.
    var oldestHeld: SequenceNumber { history.first ?? head }

    /// A store brought messages back.
    func insert(_ piece: LogPiece, most: Int) { history.insert(piece, most: most) }

    /// Nobody needs what a store brought back from before `sequence`.
    func evictHistory(before sequence: SequenceNumber) { history.evict(before: sequence) }

    private func chargedBefore(_ sequence: SequenceNumber) -> UInt64 {
        guard sequence < end else { return charged }
        let piece = pieces[index(of: sequence)]
        return piece.chunk.entry(sequence - piece.first).chargedBefore
    }

    /// Readers are mostly at the end, so the last pieces are looked at first.
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

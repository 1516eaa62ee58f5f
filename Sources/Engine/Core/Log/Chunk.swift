// Chunk: a piece of a topic's log: one region of memory that holds messages as RSocket PAYLOAD frames, ready to be sent
// from there. Frames grow from the front, the index from the end of the region downward.
//
//     base                                                            base + capacity
//      | frame 0 | frame 1 | … →       free       ← … | entry 1 | entry 0 |
//
// A publisher's metadata, if any, lies directly before its message's frames. Chunks that may contain metadata are
// marked (`hasMetadata`): only in a chunk without metadata is a range of messages a contiguous range of bytes.

import Bytes
import Replay

/// One region of a log. Only the shard that owns the topic writes it, and only past the part that other shards know of.
/// Every shard that received the chunk reads it. The published part is immutable, so no lock is needed.
final class Chunk: Region, @unchecked Sendable {
    /// The index entry of a message.
    struct Entry {
        /// Offset of the message's first frame.
        var offset: UInt32
        /// Bytes of its frames, including headers.
        var framed: UInt32
        /// Bytes of the publisher's metadata, which ends at `offset`.
        var metadata: UInt32
        /// Bytes of payload.
        var payload: UInt32
        /// When the broker accepted it, in ns since 1970.
        var timestamp: Int64
        /// The total charge of all earlier messages of the topic, in bytes.
        var chargedBefore: UInt64
    }

    static let smallest = 4 << 10
    static let largest = 256 << 10
    static let entrySize = MemoryLayout<Entry>.stride

    let first: SequenceNumber
    let hasMetadata: Bool

    // Private to the writer: never read by another shard.
    private var used = 0
    private(set) var count = 0

    init(first: SequenceNumber, hasMetadata: Bool, capacity: Int, budget: MemoryBudget) {
        self.first = first
        self.hasMetadata = hasMetadata
        super.init(capacity: (capacity + 15) & ~15, budget: budget)
    }

    /// Whether a message of `bytes` (frames and metadata) and its index entry fit.
    func fits(_ bytes: Int) -> Bool {
        capacity - used - (count + 1) * Chunk.entrySize >= bytes
    }

    /// Appends a message; the caller has checked `fits`.
    func append(
        metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer, framed: Int, timestamp: Int64,
        chargedBefore: UInt64
    ) {
        let carried = metadata?.count ?? 0
        precondition(fits(carried + framed) && (carried == 0 || hasMetadata))
        if let metadata, let source = metadata.baseAddress, carried > 0 {
            (base + used).copyMemory(from: source, byteCount: carried)
        }
        let start = used + carried
        PayloadFraming.write(payload, to: base + start)
        let entry = Entry(
            offset: UInt32(start), framed: UInt32(framed), metadata: UInt32(carried), payload: UInt32(payload.count),
            timestamp: timestamp, chargedBefore: chargedBefore)
        (base + capacity - (count + 1) * Chunk.entrySize).storeBytes(of: entry, as: Entry.self)
        used = start + framed
        count += 1
    }

    /// Appends as many whole frames of `stream` as fit, one message each; the caller has checked that one fits.
    func append(
        frames: UnsafeRawBufferPointer, of stream: UInt32, timestamp: Int64, chargedBefore: UInt64
    ) -> (bytes: Int, count: Int, charge: UInt64) {
        let start = used
        var offset = 0
        var position = count
        var charged = chargedBefore
        // The space left between the frames and the index.
        var free = capacity - used - count * Chunk.entrySize
        var place = base + capacity - count * Chunk.entrySize
        while offset < frames.count {
            let framed = PayloadFraming.length(of: frames, at: offset)
            free &-= framed &+ Chunk.entrySize
            guard free >= 0 else { break }
            let payload = framed &- PayloadFraming.header
            place -= Chunk.entrySize
            place.storeBytes(
                of: Entry(
                    offset: UInt32(truncatingIfNeeded: start &+ offset), framed: UInt32(truncatingIfNeeded: framed),
                    metadata: 0, payload: UInt32(truncatingIfNeeded: payload), timestamp: timestamp,
                    chargedBefore: charged),
                as: Entry.self)
            charged &+= UInt64(truncatingIfNeeded: Log.charge(payload: payload, metadata: 0))
            offset &+= framed
            position &+= 1
        }
        let target = UnsafeMutableRawBufferPointer(start: base + used, count: offset)
        target.copyMemory(from: frames.slice(0..<offset))
        if stream != PayloadFraming.commonStream { PayloadFraming.patch(target, stream: PayloadFraming.commonStream) }
        defer {
            used += offset
            count = position
        }
        return (offset, position - count, charged &- chargedBefore)
    }

    /// Appends messages with their index entries, whose offsets are within `frames`. They must fit.
    func append(frames: UnsafeRawBufferPointer, _ entries: some Collection<Entry>) {
        precondition(capacity - used - (count + entries.count) * Chunk.entrySize >= frames.count)
        UnsafeMutableRawBufferPointer(start: base + used, count: frames.count).copyMemory(from: frames)
        for var entry in entries {
            entry.offset += UInt32(used)
            count += 1
            (base + capacity - count * Chunk.entrySize).storeBytes(of: entry, as: Entry.self)
        }
        used += frames.count
    }

    /// The index entry of the message at `position` in this chunk, which must be visible to the reader.
    @inline(__always)
    func entry(_ position: Int) -> Entry {
        (base + capacity - (position + 1) * Chunk.entrySize).load(as: Entry.self)
    }

    /// The bytes from `offset` on. They are valid as long as the chunk exists.
    @inline(__always)
    func bytes(_ offset: Int, _ count: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: base + offset, count: count)
    }
}

/// The part of a chunk that a shard knows of.
struct LogPiece: Sendable {
    var chunk: Chunk
    /// Messages of the chunk that are visible in this view.
    var visible: Int

    var first: SequenceNumber { chunk.first }
    var end: SequenceNumber { chunk.first.advanced(by: visible) }
}

// Parts of a single message, for readers.
extension Chunk {
    /// The publisher's metadata; empty if there is none.
    func metadata(_ entry: Entry) -> UnsafeRawBufferPointer {
        bytes(Int(entry.offset) - Int(entry.metadata), Int(entry.metadata))
    }

    /// Calls `body` with the payload, in the parts that its frames hold.
    func forEachPayloadPart(_ entry: Entry, _ body: (UnsafeRawBufferPointer) -> Void) {
        let frames = bytes(Int(entry.offset), Int(entry.framed))
        var offset = 0
        while offset < frames.count {
            let end = offset + PayloadFraming.length(of: frames, at: offset)
            if end > offset + PayloadFraming.header { body(frames.slice(offset + PayloadFraming.header..<end)) }
            offset = end
        }
    }
}

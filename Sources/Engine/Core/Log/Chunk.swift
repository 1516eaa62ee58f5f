// Chunk: a piece of a topic's log, one region of memory in which messages stand as RSocket PAYLOAD frames, ready to be
// sent as they lie. Frames grow from the front; behind them, from the end of the region downward, grows the index.
//
//     base                                                            base + capacity
//      | frame 0 | frame 1 | … →       free       ← … | entry 1 | entry 0 |
//
// A publisher's metadata, where there is any, lies right before its message's frames. Such chunks are marked: only in
// a chunk without metadata is a range of messages one contiguous range of bytes.

import Bytes
import Replay

/// One region of a log. Written by the shard that owns the topic, and only behind what others were told of; read by
/// every shard that was handed it. What was told is immutable, so no lock is needed.
final class Chunk: Region, @unchecked Sendable {
    /// What the index holds for a message.
    struct Entry {
        /// Where the message's first frame begins.
        var offset: UInt32
        /// Bytes of its frames, headers included.
        var framed: UInt32
        /// Bytes of the publisher's metadata, which end at `offset`.
        var metadata: UInt32
        /// Bytes of payload.
        var payload: UInt32
        /// When the broker took it, in ns since 1970.
        var timestamp: Int64
        /// What all messages of the topic before this one were charged, in bytes.
        var chargedBefore: UInt64
    }

    static let smallest = 4 << 10
    static let largest = 256 << 10
    static let entrySize = MemoryLayout<Entry>.stride

    let first: SequenceNumber
    let hasMetadata: Bool

    // The writer's own: never read by another shard.
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

    /// Appends as many whole frames of `stream` as fit, a message each; the caller has checked that one does.
    func append(
        frames: UnsafeRawBufferPointer, of stream: UInt32, timestamp: Int64, chargedBefore: UInt64
    ) -> (bytes: Int, count: Int, charge: UInt64) {
        let start = used
        var offset = 0
        var position = count
        var charged = chargedBefore
        // What is left between the frames and the index.
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

    /// The index entry of the message at `position` in this chunk, which the reader was told of.
    @inline(__always)
    func entry(_ position: Int) -> Entry {
        (base + capacity - (position + 1) * Chunk.entrySize).load(as: Entry.self)
    }

    /// The bytes from `offset` on. They stay as long as the chunk does.
    @inline(__always)
    func bytes(_ offset: Int, _ count: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: base + offset, count: count)
    }
}

// What readers take of a message by itself.
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

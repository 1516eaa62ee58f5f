// StoredFormat: the form of messages in a store. It is the form that they have in a chunk, so that reading them back
// yields one: first the frames, each after its publisher's metadata, then the index, backward.
//
//     | frame 0 | frame 1 | … | padding to 16 bytes | entry n-1 | … | entry 0 |

import Bytes
import Replay

/// Messages of one topic that a store keeps together.
public struct MessageBody: Sendable {
    private struct Slice: Sendable {
        var chunk: Chunk
        var positions: Range<Int>

        var start: Int { Int(first.offset) - Int(first.metadata) }
        var end: Int { Int(last.offset) + Int(last.framed) }
        var first: Chunk.Entry { chunk.entry(positions.lowerBound) }
        var last: Chunk.Entry { chunk.entry(positions.upperBound - 1) }
    }

    public let first: SequenceNumber
    private var slices: [Slice] = []
    public private(set) var count = 0
    /// Bytes of frames and metadata.
    private var framed = 0

    fileprivate init(first: SequenceNumber) { self.first = first }

    /// Bytes that `write` writes.
    public var size: Int { MessageBody.size(framed: framed, count: count) }

    fileprivate static func size(framed: Int, count: Int) -> Int { (framed + 15) & ~15 + count * Chunk.entrySize }

    /// When the broker accepted the first message and the last, in ns since 1970.
    public var timestamps: (first: Int64, last: Int64) {
        (slices[0].first.timestamp, slices[slices.count - 1].last.timestamp)
    }
    /// The topic's charge before these messages, and after them, in bytes.
    public var charged: (before: UInt64, after: UInt64) {
        let last = slices[slices.count - 1].last
        let charge = Log.charge(payload: Int(last.payload), metadata: Int(last.metadata))
        return (slices[0].first.chargedBefore, last.chargedBefore &+ UInt64(charge))
    }

    /// Adds the next messages. Returns whether they fit into `most` bytes; the first messages always do.
    fileprivate mutating func add(_ chunk: Chunk, _ positions: Range<Int>, most: Int) -> Bool {
        let slice = Slice(chunk: chunk, positions: positions)
        let bytes = framed + slice.end - slice.start
        guard count == 0 || MessageBody.size(framed: bytes, count: count + positions.count) <= most else {
            return false
        }
        if let last = slices.last, last.chunk === chunk, last.positions.upperBound == positions.lowerBound {
            slices[slices.count - 1].positions = last.positions.lowerBound..<positions.upperBound
        } else {
            slices.append(slice)
        }
        framed = bytes
        count += positions.count
        return true
    }

    /// The messages of both, if `next` follows and they take at most `most` bytes together.
    public func joined(with next: MessageBody, most: Int) -> MessageBody? {
        guard first.advanced(by: count) == next.first else { return nil }
        var joined = self
        for slice in next.slices {
            guard joined.add(slice.chunk, slice.positions, most: most) else { return nil }
        }
        return joined
    }

    /// Writes `size` bytes. May be called on any thread.
    public func write(to target: UnsafeMutableRawBufferPointer) {
        precondition(target.count == size)
        var offset = 0
        var entryEnd = target.count
        for slice in slices {
            let start = slice.start
            let bytes = slice.chunk.bytes(start, slice.end - start)
            UnsafeMutableRawBufferPointer(rebasing: target[offset...]).copyMemory(from: bytes)
            for position in slice.positions {
                var entry = slice.chunk.entry(position)
                entry.offset = UInt32(Int(entry.offset) - start + offset)
                entryEnd -= Chunk.entrySize
                target.storeBytes(of: entry, toByteOffset: entryEnd, as: Chunk.Entry.self)
            }
            offset += bytes.count
        }
        for gap in offset..<entryEnd { target[gap] = 0 }
    }
}

extension AppendedMessages {
    /// The messages, in parts of at most `most` bytes, or of one message if that has more.
    public func bodies(most: Int) -> [MessageBody] {
        var bodies: [MessageBody] = []
        for piece in pieces {
            let first = Swift.max(first, piece.first)
            for position in first - piece.first..<piece.visible {
                let isAdded =
                    bodies.last != nil
                    && bodies[bodies.count - 1].add(piece.chunk, position..<position + 1, most: most)
                guard !isAdded else { continue }
                bodies.append(MessageBody(first: piece.first.advanced(by: position)))
                _ = bodies[bodies.count - 1].add(piece.chunk, position..<position + 1, most: most)
            }
        }
        return bodies
    }
}

extension StoredMessages {
    /// Messages from a store, in consecutive bodies as `MessageBody` writes them. Nil if one is not well-formed.
    /// - Parameter first: the sequence of the first message of the first body.
    public init?(
        first: SequenceNumber, _ bodies: [(count: Int, bytes: UnsafeRawBufferPointer)], budget: MemoryBudget
    ) {
        let count = bodies.reduce(0) { $0 + $1.count }
        guard count > 0 else { return nil }
        var framed = 0
        var hasMetadata = false
        for body in bodies {
            guard let part = StoredMessages.framed(body.bytes, body.count) else { return nil }
            framed += part.bytes
            hasMetadata = hasMetadata || part.hasMetadata
        }
        let chunk = Chunk(
            first: first, hasMetadata: hasMetadata, capacity: framed + count * Chunk.entrySize, budget: budget)
        for body in bodies { chunk.append(body.bytes, count: body.count) }
        self.init(LogPiece(chunk: chunk, visible: count))
    }

    /// Bytes of a body's frames and metadata; nil if its index is not well-formed.
    private static func framed(_ body: UnsafeRawBufferPointer, _ count: Int) -> (bytes: Int, hasMetadata: Bool)? {
        let index = count * Chunk.entrySize
        guard count > 0, index <= body.count else { return nil }
        var end = 0
        var hasMetadata = false
        for position in 0..<count {
            let entry = body.entry(position)
            guard Int(entry.offset) == end + Int(entry.metadata),
                Int(entry.framed) >= PayloadFraming.framed(Int(entry.payload))
            else { return nil }
            end = Int(entry.offset) + Int(entry.framed)
            hasMetadata = hasMetadata || entry.metadata > 0
        }
        return end <= body.count - index ? (end, hasMetadata) : nil
    }
}

extension UnsafeRawBufferPointer {
    fileprivate func entry(_ position: Int) -> Chunk.Entry {
        loadUnaligned(fromByteOffset: count - (position + 1) * Chunk.entrySize, as: Chunk.Entry.self)
    }
}

extension Chunk {
    /// Appends the messages of a body; the caller has checked that they are well-formed and fit.
    fileprivate func append(_ body: UnsafeRawBufferPointer, count: Int) {
        let last = body.entry(count - 1)
        let frames = UnsafeRawBufferPointer(rebasing: body[..<(Int(last.offset) + Int(last.framed))])
        append(frames: frames, (0..<count).lazy.map { body.entry($0) })
    }
}

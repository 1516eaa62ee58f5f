// BodyQueue: what one HTTP stream is still to send of its body. Messages that are framed once for many streams are
// named where they lie; what is this stream's alone is kept here.
//
//     [shared range] [own bytes] [shared range] …

import Bytes

/// The bytes of a response's body that have not gone to the connection's output yet.
struct BodyQueue: ~Copyable {
    private struct Piece {
        /// Keeps the memory that `start` points into; nil for bytes at the front of `own`.
        var owner: Region?
        var start: UnsafeRawPointer?
        var count: Int
    }

    /// None while all bytes are in `own`.
    private var pieces: [Piece] = []
    private var first = 0
    private var own = ByteBuffer()
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }
    /// None of the bytes lie in shared memory.
    var isOwn: Bool { pieces.isEmpty }
    /// Bytes of memory held for this stream alone.
    var memory: Int { own.capacity }

    /// Calls `body` with whose shared memory is named here, some of it more than once, and how many bytes of it.
    func forEachShared(_ body: (Region, Int) -> Void) {
        for piece in pieces[first...] {
            if let owner = piece.owner { body(owner, piece.count) }
        }
    }

    /// Bytes that stay where they are as long as `owner` does.
    mutating func append(_ bytes: UnsafeRawBufferPointer, of owner: Region) {
        guard let start = bytes.baseAddress, bytes.count > 0 else { return }
        if pieces.isEmpty, count > 0 { pieces.append(Piece(owner: nil, start: nil, count: count)) }
        count += bytes.count
        if pieces.count > first, let last = pieces.last, last.owner === owner, last.start! + last.count == start {
            pieces[pieces.count - 1].count += bytes.count
        } else {
            pieces.append(Piece(owner: owner, start: start, count: bytes.count))
        }
    }

    /// Bytes that `write` appends to the buffer that it is given.
    mutating func append(_ write: (inout ByteBuffer) -> Void) {
        let before = own.count
        write(&own)
        let added = own.count - before
        guard added > 0 else { return }
        count += added
        guard !pieces.isEmpty else { return }
        if pieces[pieces.count - 1].owner == nil {
            pieces[pieces.count - 1].count += added
        } else {
            pieces.append(Piece(owner: nil, start: nil, count: added))
        }
    }

    /// Takes the first `wanted` bytes, or all, piece by piece: those that lie in shared memory with their owner.
    mutating func take(_ wanted: Int, _ body: (UnsafeRawBufferPointer, _ owner: Region?) -> Void) {
        var rest = min(wanted, count)
        count -= rest
        if pieces.isEmpty {
            if rest > 0 { body(own.readable.slice(0..<rest), nil) }
            own.consume(rest)
            return own.shrink(above: 256)
        }
        while rest > 0 {
            let part = min(rest, pieces[first].count)
            if let owner = pieces[first].owner {
                body(UnsafeRawBufferPointer(start: pieces[first].start, count: part), owner)
                pieces[first].start! += part
            } else {
                body(own.readable.slice(0..<part), nil)
                own.consume(part)
            }
            pieces[first].count -= part
            rest -= part
            if pieces[first].count == 0 {
                pieces[first].owner = nil
                first += 1
            }
        }
        if first == pieces.count {
            // One by one, as they are few, which takes less than `removeAll`.
            if pieces.capacity <= 16 { while pieces.popLast() != nil {} } else { pieces = [] }
            first = 0
        } else if first > 16, first * 2 > pieces.count {
            pieces.removeFirst(first)
            first = 0
        }
        own.shrink(above: 256)
    }

    /// Bytes of a shared range from which on it is not worth a copy: it is a good part of what it keeps alive, and
    /// others may be waiting with the same.
    static let worthSharing = 16 << 10

    /// Copies the small ranges of shared memory, if `mayOwn` lets it have so many bytes for itself: a stream that does
    /// not move is to keep no memory alive for a few bytes.
    mutating func detach(_ mayOwn: (Int) -> Bool) {
        var small = 0
        for piece in pieces[first...] where piece.owner != nil && piece.count < BodyQueue.worthSharing {
            small += piece.count
        }
        if small > 0, mayOwn(small) { copy { $1 < BodyQueue.worthSharing } }
    }

    /// Copies those ranges of shared memory that `isCopied` names, of which it is told where they lie and their length.
    mutating func copy(where isCopied: (Region, Int) -> Bool) {
        func stays(_ piece: Piece) -> Bool { piece.owner.map { !isCopied($0, piece.count) } ?? false }
        let all = pieces[first...].reduce(0) { stays($1) ? $0 : $0 + $1.count }
        guard all > own.count else { return }
        var copy = ByteBuffer(minimumCapacity: all)
        var kept: [Piece] = []
        for piece in pieces[first...] {
            if stays(piece) {
                kept.append(piece)
                continue
            }
            if let start = piece.start {
                copy.append(UnsafeRawBufferPointer(start: start, count: piece.count))
            } else {
                copy.append(own.readable.slice(0..<piece.count))
                own.consume(piece.count)
            }
            if let last = kept.last, last.owner == nil {
                kept[kept.count - 1].count += piece.count
            } else {
                kept.append(Piece(owner: nil, start: nil, count: piece.count))
            }
        }
        own = copy
        pieces = kept
        first = 0
    }

    mutating func removeAll() {
        pieces.removeAll()
        first = 0
        own.removeAll()
        own.shrink()
        count = 0
    }
}

// BodyQueue: the unsent part of one HTTP stream's body. Messages framed once for many streams are referenced; bytes
// made only for this stream are kept here.
//
//     [shared range] [own bytes] [shared range] …

import Bytes

/// The bytes of a response's body that have not been moved to the connection's output yet.
struct BodyQueue: ~Copyable {
    private struct Piece {
        /// Keeps the memory alive that `start` points into; nil for bytes at the front of `own`.
        var owner: Region?
        var start: UnsafeRawPointer?
        var count: Int
    }

    /// Empty while all bytes are in `own`.
    private var pieces: [Piece] = []
    private var first = 0
    private var own = ByteBuffer()
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }
    /// Whether none of the bytes are in shared memory.
    var isOwn: Bool { pieces.isEmpty }
    /// Bytes of memory that only this stream holds.
    var memory: Int { own.capacity }

    /// Calls `body` with each shared region referenced here and its bytes in use, possibly several times.
    func forEachShared(_ body: (Region, Int) -> Void) {
        for piece in pieces[first...] {
            if let owner = piece.owner { body(owner, piece.count) }
        }
    }

    /// Appends bytes that stay in place as long as `owner` exists.
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

    /// Appends the bytes that `write` adds to its buffer.
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

    /// Takes the first `wanted` bytes, or all, piece by piece. Pieces in shared memory come with their owner.
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
            // Popping the few elements one by one is cheaper than `removeAll`.
            if pieces.capacity <= 16 { while pieces.popLast() != nil {} } else { pieces = [] }
            first = 0
        } else if first > 16, first * 2 > pieces.count {
            pieces.removeFirst(first)
            first = 0
        }
        own.shrink(above: 256)
    }

    /// The length from which a shared range is not worth copying: such a range is a good part of the memory that it
    /// keeps alive, and other streams may be waiting with the same range.
    static let worthSharing = 16 << 10

    /// Copies small shared ranges if `mayOwn` allows their size, so that a stalled stream does not keep memory alive
    /// for a few bytes.
    mutating func detach(_ mayOwn: (Int) -> Bool) {
        var small = 0
        for piece in pieces[first...] where piece.owner != nil && piece.count < BodyQueue.worthSharing {
            small += piece.count
        }
        if small > 0, mayOwn(small) { copy { $1 < BodyQueue.worthSharing } }
    }

    /// Copies the shared ranges for which `isCopied` returns true, given their region and length.
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

// PieceCursor: cuts the pieces to be written into records.

/// Walks over pieces record by record. A large piece is used in place; small ones are joined.
struct PieceCursor {
    private let pieces: UnsafeBufferPointer<UnsafeRawBufferPointer>
    private var index = 0
    private var offset = 0

    init(_ pieces: UnsafeBufferPointer<UnsafeRawBufferPointer>) { self.pieces = pieces }

    /// The next bytes, without moving past them; nil at the end.
    mutating func next(atMost limit: Int, scratch: UnsafeMutableRawBufferPointer) -> UnsafeRawBufferPointer? {
        while index < pieces.count, pieces[index].count == offset {
            index += 1
            offset = 0
        }
        guard index < pieces.count else { return nil }
        let first = UnsafeRawBufferPointer(rebasing: pieces[index][offset...])
        if first.count >= limit { return UnsafeRawBufferPointer(rebasing: first[..<limit]) }
        if index == pieces.count - 1 { return first }
        var count = 0
        var place = index
        var start = offset
        while place < pieces.count, count < limit {
            let part = UnsafeRawBufferPointer(rebasing: pieces[place][start...].prefix(limit - count))
            UnsafeMutableRawBufferPointer(rebasing: scratch[count...]).copyMemory(from: part)
            count += part.count
            place += 1
            start = 0
        }
        return UnsafeRawBufferPointer(rebasing: scratch[..<count])
    }

    mutating func skip(_ count: Int) {
        var rest = count
        while rest > 0 {
            let part = min(rest, pieces[index].count - offset)
            offset += part
            rest -= part
            if offset == pieces[index].count {
                index += 1
                offset = 0
            }
        }
    }
}

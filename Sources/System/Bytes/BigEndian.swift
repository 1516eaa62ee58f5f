// Unaligned big-endian reads from raw memory, checked against the buffer's bounds.

extension UnsafeRawBufferPointer {
    /// The integer in network byte order at `offset`, which must be in bounds.
    @inlinable
    public func bigEndian<T: FixedWidthInteger>(at offset: Int, as type: T.Type = T.self) -> T {
        precondition(offset >= 0 && offset + MemoryLayout<T>.size <= count)
        return T(bigEndian: loadUnaligned(fromByteOffset: offset, as: T.self))
    }

    /// The 24-bit integer in network byte order at `offset`.
    @inlinable
    public func u24(at offset: Int) -> Int {
        precondition(offset >= 0 && offset + 3 <= count)
        return Int(self[offset]) << 16 | Int(self[offset + 1]) << 8 | Int(self[offset + 2])
    }

    /// The part of this buffer in `range`.
    @inlinable
    public func slice(_ range: Range<Int>) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: self[range])
    }
}

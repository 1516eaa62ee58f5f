// Comparing raw memory with text.

import Glibc

extension UnsafeRawBufferPointer {
    /// Whether the bytes are those of `text`.
    public func isEqual(to text: StaticString) -> Bool {
        guard count == text.utf8CodeUnitCount else { return false }
        return count == 0 || memcmp(baseAddress!, text.utf8Start, count) == 0
    }

    /// Whether the bytes are those of `text`.
    public func isEqual(to text: [UInt8]) -> Bool {
        guard count == text.count else { return false }
        return count == 0 || memcmp(baseAddress!, text, count) == 0
    }
}

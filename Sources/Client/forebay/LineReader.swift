// LineReader: the lines of a byte stream, read in place, with a maximum length.

import Bytes

/// Bytes that were read, and the lines in them. Empty lines count, and so does a last line without a line end.
struct LineReader: ~Copyable {
    enum Line {
        /// The line without its end; valid until the reader is used again.
        case line(UnsafeRawBufferPointer)
        /// There is no complete line yet.
        case none
        /// The stream has ended, and every line has been taken.
        case end
        /// A line is longer than the limit.
        case tooLong
    }

    let limit: Int
    private var buffer = ByteBuffer()
    /// The length of the part of the buffer that is known to contain no line end.
    private var searched = 0
    /// The length of the last line returned, with its end.
    private var taken = 0
    private var hasEnded = false

    init(limit: Int) { self.limit = limit }

    /// Where to read the next bytes to; follow it with `commit`.
    mutating func reserve(_ count: Int) -> UnsafeMutableRawPointer {
        drop()
        return buffer.reserve(count)
    }

    mutating func commit(_ count: Int) { buffer.commit(count) }

    mutating func end() { hasEnded = true }

    mutating func next() -> Line {
        drop()
        let bytes = buffer.readable
        if let place = bytes[searched...].firstIndex(of: UInt8(ascii: "\n")) {
            if place > limit { return .tooLong }
            taken = place + 1
            return .line(bytes.slice(0..<place))
        }
        searched = bytes.count
        if bytes.count > limit { return .tooLong }
        guard hasEnded else { return .none }
        if bytes.isEmpty { return .end }
        taken = bytes.count
        return .line(bytes)
    }

    private mutating func drop() {
        guard taken > 0 else { return }
        buffer.consume(taken)
        taken = 0
        searched = 0
    }
}

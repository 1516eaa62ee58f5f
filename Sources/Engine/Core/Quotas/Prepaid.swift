// Prepaid: messages of a publisher that its user's rate has paid for before they come.

struct Prepaid {
    /// Bytes that a message is expected to have before any is known.
    static let unknownSize = 1024

    private(set) var count = 0
    /// Bytes that they were expected to have.
    private(set) var bytes = 0
    /// Bytes of a recent message, smoothed; what the next ones are expected to have.
    private(set) var typical = Prepaid.unknownSize

    /// `count` messages of `bytes` bytes are paid for.
    mutating func add(_ count: Int, bytes: Int) {
        self.count += count
        self.bytes += bytes
    }

    /// A first message of unknown size is paid for.
    mutating func addFirst() { add(1, bytes: Prepaid.unknownSize) }

    /// `count` messages of `bytes` bytes came.
    /// - Returns: what was paid for them.
    mutating func use(_ count: Int, bytes: Int) -> (count: Int, bytes: Int) {
        let used = Swift.min(count, self.count)
        let usedBytes = used > 0 ? self.bytes * used / self.count : 0
        self.count -= used
        self.bytes -= usedBytes
        // Larger messages count at once, smaller ones slowly.
        let size = bytes / Swift.max(1, count)
        typical = size > typical ? size : Swift.max(1, typical - (typical - size) / 8)
        return (used, usedBytes)
    }

    /// The rest will not come.
    /// - Returns: what was paid for it.
    mutating func takeAll() -> (count: Int, bytes: Int) {
        defer { (count, bytes) = (0, 0) }
        return (count, bytes)
    }
}

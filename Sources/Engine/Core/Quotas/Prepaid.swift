// Prepaid: a publisher's messages that its user's rate has paid for before they arrive.

struct Prepaid {
    /// Assumed size of a message before any is known.
    static let unknownSize = 1024

    private(set) var count = 0
    /// Bytes that the prepaid messages were assumed to have.
    private(set) var bytes = 0
    /// The smoothed size of recent messages, assumed for the next ones.
    private(set) var typical = Prepaid.unknownSize

    /// Adds `count` prepaid messages of `bytes` bytes.
    mutating func add(_ count: Int, bytes: Int) {
        self.count += count
        self.bytes += bytes
    }

    /// Adds a first message of unknown size.
    mutating func addFirst() { add(1, bytes: Prepaid.unknownSize) }

    /// Takes `count` messages of `bytes` bytes, which have arrived, from the prepaid ones.
    /// - Returns: the amount paid for them.
    mutating func use(_ count: Int, bytes: Int) -> (count: Int, bytes: Int) {
        let used = Swift.min(count, self.count)
        let usedBytes = used > 0 ? self.bytes * used / self.count : 0
        self.count -= used
        self.bytes -= usedBytes
        // Larger messages count at once, smaller ones gradually.
        let size = bytes / Swift.max(1, count)
        typical = size > typical ? size : Swift.max(1, typical - (typical - size) / 8)
        return (used, usedBytes)
    }

    /// Takes all remaining messages, which will not arrive.
    /// - Returns: the amount paid for them.
    mutating func takeAll() -> (count: Int, bytes: Int) {
        defer { (count, bytes) = (0, 0) }
        return (count, bytes)
    }
}

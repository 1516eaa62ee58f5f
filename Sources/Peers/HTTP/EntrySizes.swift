// EntrySizes: the sizes of messages in another format. Measuring a message takes nearly as long as encoding it, and the
// size is needed for every subscriber whose window is too small for the message.

import Replay

/// The known sizes of a view's messages in one form.
struct EntrySizes {
    /// The latest size: members reach the same message one after another.
    private var last: (sequence: SequenceNumber, bytes: Int)?
    /// Sizes of large messages, which are measured once however many members are at different positions.
    private var large: [SequenceNumber: Int] = [:]
    /// The number of sizes in `large` at which the sizes of removed messages are pruned.
    private var most = EntrySizes.fewest
    private static let fewest = 64

    func size(of sequence: SequenceNumber) -> Int? {
        if let last, last.sequence == sequence { return last.bytes }
        return large[sequence]
    }

    /// - Parameter head: the log's first message; earlier ones are gone.
    mutating func note(_ sequence: SequenceNumber, _ bytes: Int, isLarge: Bool, head: SequenceNumber) {
        last = (sequence, bytes)
        guard isLarge else { return }
        if large.count >= most {
            large = large.filter { $0.key >= head }
            most = Swift.max(EntrySizes.fewest, 2 * large.count)
        }
        large[sequence] = bytes
    }
}

// EntrySizes: how long messages are in another form. To find that out takes nearly as long as to make the form, and all
// whose windows are too small for a message ask for it.

import Replay

/// The sizes of a view's messages in one form, as far as they were asked for.
struct EntrySizes {
    /// The last one: members are brought to the same message one after the other.
    private var last: (sequence: SequenceNumber, bytes: Int)?
    /// Those of large messages, which are measured once however many members are at however many places.
    private var large: [SequenceNumber: Int] = [:]
    /// How many of these there may be before those of messages that have gone are removed.
    private var most = EntrySizes.fewest
    private static let fewest = 64

    func size(of sequence: SequenceNumber) -> Int? {
        if let last, last.sequence == sequence { return last.bytes }
        return large[sequence]
    }

    /// - Parameter head: messages before it have gone.
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

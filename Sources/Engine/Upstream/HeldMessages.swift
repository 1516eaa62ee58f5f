// HeldMessages: live messages of a topic that arrived before earlier ones did, until these have been read.

import Core
import Replay

/// A run of consecutive messages of bounded size.
struct HeldMessages {
    /// Bytes held for one topic.
    private static let most = 4 << 20

    private(set) var first: SequenceNumber?
    private(set) var end = SequenceNumber.first
    private var batch = FeedBatch()
    /// The sequence after the newest message that was not kept.
    private(set) var missed = SequenceNumber.first

    var isEmpty: Bool { first == nil }

    /// Keeps a message if it follows those that are held.
    mutating func append(
        _ item: FeedBatch.Item, metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer
    ) {
        if first != nil, item.sequence < end { return }
        if first != nil, item.sequence > end || batch.size > HeldMessages.most {
            missed = Swift.max(missed, end)
            removeAll()
        }
        if first == nil { first = item.sequence }
        batch.append(item, metadata: metadata, payload: payload)
        end = item.sequence.advanced(by: 1)
    }

    mutating func removeAll() {
        first = nil
        batch = FeedBatch()
    }

    /// Empties it.
    mutating func take() -> FeedBatch {
        defer { removeAll() }
        return batch
    }
}

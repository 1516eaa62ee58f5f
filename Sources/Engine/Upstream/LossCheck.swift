// LossCheck: whether JetStream has lost messages that this node has reported. That is certain only if the stream's
// leader has another message at a sequence that was reported, or gives such a sequence to a new message. What a leader
// says about its last sequence proves nothing: it may be a former leader that does not know yet.

import Core
import JetStream
import Replay

struct LossCheck {
    /// The last message that was reported or skipped, and when JetStream stored it.
    private var last: (sequence: SequenceNumber, time: Int64)?
    private var isDue = false

    /// The message to ask the leader for; nil if there is no reason.
    var question: SequenceNumber? { isDue ? last?.sequence : nil }

    mutating func note(_ message: JetStreamMessage) { last = (SequenceNumber(message.sequence), message.time) }

    mutating func note(_ item: FeedBatch.Item) { last = (item.sequence, item.timestamp) }

    /// The next occasion is used to ask the leader.
    mutating func suspect() { isDue = true }

    /// A message with a sequence that is known. Returns whether it is a reason to ask the leader.
    mutating func heardAgain(_ message: JetStreamMessage) -> Bool {
        guard let last, message.time > last.time else { return false }
        isDue = true
        return true
    }

    /// The leader's message at `question`; nil if it does not have it, perhaps because of its limits. Returns whether
    /// messages are lost.
    mutating func answered(_ message: JetStream.StoredMessage?) -> Bool {
        isDue = false
        return message.map { $0.time != last?.time } ?? false
    }
}

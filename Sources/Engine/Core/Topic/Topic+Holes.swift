// Holes in the log of a topic whose messages, and their sequences, come from elsewhere.

import Replay

extension Topic {
    /// Messages lost between the last one and the end of the topic; 0 while it has not ended.
    var lostAtEnd: Int { log.hasHoles && isOver ? log.lostAtEnd : 0 }

    /// Notes that the sequences before `sequence` that the log does not have yet have no message. Subscribers learn of
    /// them with the next message, or with the end of the topic. The topic must not be in a store.
    /// - Parameter isLost: whether they had messages, which are lost: these count as dropped for subscribers that were
    ///   to receive them. Others are passed without notice.
    func skip(to sequence: SequenceNumber, isLost: Bool) {
        precondition(!isStored, "a topic in a store has no holes")
        guard state.isLive else { return }
        log.skip(to: sequence, isLost: isLost)
    }
}

// TopicFeed+End: the end and the deletion of a topic.

import Core
import JetStream
import Replay

extension TopicFeed {
    /// Records the end in the stream, so that it outlives the control message; or deletes the stream.
    func record(_ end: StreamEnd, in stream: StreamInfo, now: UInt64) {
        if end.end == .deleted { return delete(now: now) }
        state = .recording
        call(.seal(stream, metadata: end.metadata), .record, now: now)
    }

    func delete(now: UInt64) {
        guard let stream else { return }
        state = .recording
        call(.delete(stream), .record, now: now)
    }

    /// The stream is sealed or deleted.
    func recorded(now: UInt64) {
        // A deletion of a topic that has ended is not in the stream.
        if isOver { deleted() } else { conclude(now: now) }
    }

    func conclude(now: UInt64) {
        guard let end else { return }
        if end.end == .deleted { return deleted(by: upstream.ticket(of: end), isInOrder: true) }
        becomeCurrent()
        state = .ended
        wakeAt = now + TopicFeed.probeTimes.upperBound
        if !isOver {
            isOver = true
            publishing.ended(end.end, isInOrder: true)
            upstream.report(.ended(use, end.end, by: upstream.ticket(of: end)), to: shard)
        }
        publishing.send(now: now)
    }

    /// - Parameters:
    ///   - ticket: this node's request, if it was that one.
    ///   - isInOrder: whether the messages before the deletion were read.
    func deleted(by ticket: PublishTicket? = nil, isInOrder: Bool = false) {
        upstream.flush(self)
        publishing.ended(.deleted, isInOrder: isInOrder)
        upstream.report(.ended(use, .deleted, by: ticket), to: shard)
        upstream.remove(self)
    }
}

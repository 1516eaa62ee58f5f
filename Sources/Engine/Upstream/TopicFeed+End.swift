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
        if isOver { deleted(nil) } else { conclude(now: now) }
    }

    func conclude(now: UInt64) {
        guard let end else { return }
        if end.end == .deleted { return deleted(upstream.ticket(of: end)) }
        becomeCurrent()
        state = .ended
        wakeAt = now + TopicFeed.probeTimes.upperBound
        if !isOver {
            isOver = true
            publishing.ended(end.end)
            upstream.report(.ended(use, end.end, by: upstream.ticket(of: end)), to: shard)
        }
        publishing.send(now: now)
    }

    /// - Parameter ticket: this node's request, if it was that one.
    func deleted(_ ticket: PublishTicket?) {
        upstream.flush(self)
        publishing.ended(.deleted)
        upstream.report(.ended(use, .deleted, by: ticket), to: shard)
        upstream.remove(self)
    }
}

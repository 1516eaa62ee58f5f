// Upstream+Status: what operators see of the upstream. Counts are kept as things happen; the rest is computed when it
// is asked for, in one pass over the feeds.

import Core
import Replay

/// What the upstream notes for its status.
struct UpstreamNotes {
    var counts = UpstreamCounts()
    /// Whether there ever was a connection, and when the latest one was made.
    var wasConnected = false
    var connectedSince: UInt64 = 0
    /// Why there is no connection.
    var cause = ""

    mutating func connected(now: UInt64) {
        wasConnected = true
        connectedSince = now
        cause = ""
    }

    mutating func note(_ report: UpstreamReport) {
        switch report {
        case .messages(_, let batch): counts.read += UInt64(batch.items.count)
        case .refused: counts.refused += 1
        case .joined, .followed, .absent, .current, .duplicate, .found, .ended, .left, .heard, .matched, .unlisted:
            break
        }
    }
}

extension Upstream {
    /// Whether there is a connection to NATS, and JetStream answers.
    public var isConnected: Bool { lostSince == nil }

    /// The state of the connection and of all topics. It takes time in proportion to the topics.
    public var status: UpstreamStatus {
        var status = UpstreamStatus(
            since: lostSince ?? notes.connectedSince, time: options.time, maxTopics: options.maxTopics)
        status.isConnected = isConnected
        status.wasConnected = notes.wasConnected
        if link.isReady {
            status.server = "\(link.server)"
            status.name = link.info?.serverName ?? ""
            status.version = link.info?.version ?? ""
        }
        status.cause = notes.cause
        status.counts = notes.counts
        status.topics = feeds.count
        for feed in feeds.all {
            if case .absent = feed.state { status.absent += 1 } else if !feed.isCurrent { status.joining += 1 }
            status.unread += feed.unread
            status.publishes += feed.publishing.count
            if let oldest = feed.publishing.oldest {
                status.oldestPublish = Swift.min(status.oldestPublish ?? oldest, oldest)
            }
        }
        return status
    }
}

extension TopicFeed {
    /// The end of what is known of the stream.
    var knownEnd: SequenceNumber { Swift.max(next ?? .first, held.end, held.missed) }

    /// Messages that the stream is known to have and that have not been read yet.
    var unread: Int {
        guard let next else { return 0 }
        var end = Swift.max(held.end, held.missed)
        switch state {
        case .reading(let known), .asking(_, let known): end = Swift.max(end, known)
        default: break
        }
        return Swift.max(0, end - next)
    }
}

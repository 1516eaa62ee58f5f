// Reasons: the categories by which refusals and reached limits are counted.

import ForebayWire
import Replay

extension Overflow: TallyKey {
    public var place: Int { Int(rawValue) }
}

/// Why requests and streams fail, as metrics name it.
public enum RefusalReason: Int, TallyKey {
    /// A bad name, option or value.
    case invalid
    /// A limit is reached; `LimitReached` says which.
    case limit
    /// A message exceeds the size limit.
    case tooLarge
    /// A publish waited too long for room.
    case blocked
    /// A request did not complete in time.
    case timeout
    /// A publisher sent more than it was granted.
    case beyondCredit
    /// The topic has ended.
    case ended
    case notFound
    /// The peer is not authenticated, or no longer.
    case unauthenticated
    /// Not allowed for this peer, or for any.
    case forbidden
    /// The requested starting point is no longer available.
    case gap
    /// The broker is shutting down.
    case unavailable
    /// The topic failed, and its subscriptions with it.
    case topicFailed
    /// The subscription's buffer, or the topic's log, was full.
    case overflow
    /// An operator ended it.
    case cutOff

    public var name: String {
        switch self {
        case .invalid: "invalid"
        case .limit: "limit"
        case .tooLarge: "too-large"
        case .blocked: "blocked"
        case .timeout: "timeout"
        case .beyondCredit: "beyond-credit"
        case .ended: "topic-ended"
        case .notFound: "not-found"
        case .unauthenticated: "unauthenticated"
        case .forbidden: "forbidden"
        case .gap: "gap"
        case .unavailable: "draining"
        case .topicFailed: "topic-failed"
        case .overflow: "overflow"
        case .cutOff: "cut-off"
        }
    }
}

/// Limits that are counted when they are reached, under the names used in `Limits`.
public enum LimitReached: Int, TallyKey {
    case connections, connectionsPerUser, connectionsPerAddress, streamsPerConnection, listingsPerConnection
    case subscriptions, subscriptionsPerUser, topics, topicsPerUser, publishRate, publishBytes
    case payload, metadata, headers, keepaliveData, reassembly, parked, retainBytes, memory, controlOutput
    case setupTime, reassemblyTime, lifetime, unreadTime, httpSilence, parkTime, blockLimit
    case sessions, sessionsPerUser, resumeBuffer, resumeTime, events

    public var name: String {
        switch self {
        case .connections: "connections"
        case .connectionsPerUser: "connections-per-user"
        case .connectionsPerAddress: "connections-per-address"
        case .streamsPerConnection: "streams-per-connection"
        case .listingsPerConnection: "listings-per-connection"
        case .subscriptions: "subscriptions"
        case .subscriptionsPerUser: "subscriptions-per-user"
        case .topics: "topics"
        case .topicsPerUser: "topics-per-user"
        case .publishRate: "publish-rate"
        case .publishBytes: "publish-bytes"
        case .payload: "payload"
        case .metadata: "metadata"
        case .headers: "headers"
        case .keepaliveData: "keepalive-data"
        case .reassembly: "reassembly"
        case .parked: "parked"
        case .retainBytes: "retain-bytes"
        case .memory: "memory"
        case .controlOutput: "control-output"
        case .setupTime: "setup-time"
        case .reassemblyTime: "reassembly-time"
        case .lifetime: "lifetime"
        case .unreadTime: "unread-time"
        case .httpSilence: "http-silence"
        case .parkTime: "park-time"
        case .blockLimit: "block-limit"
        case .sessions: "sessions"
        case .sessionsPerUser: "sessions-per-user"
        case .resumeBuffer: "resume-buffer"
        case .resumeTime: "resume-time"
        case .events: "events"
        }
    }
}

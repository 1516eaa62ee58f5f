// Reasons: the categories by which refusals and reached limits are counted.

import ForebayWire
import Replay

extension Overflow: TallyKey {
    public var place: Int { Int(rawValue) }
}

extension ErrorWord: TallyKey {
    /// The word as a label of metrics, without blanks.
    public var name: String { self == .topicFailed ? "topic-failed" : text }
}

/// Limits that are counted when they are reached, under the names used in `Limits`.
public enum LimitReached: Int, TallyKey {
    case connections, connectionsPerUser, connectionsPerAddress, streamsPerConnection, listsPerConnection
    case subscriptions, subscriptionsPerUser, topics, topicsPerUser, publishRate, publishBytes
    case payload, metadata, headers, keepaliveData, reassembly, parked, retainBytes, uncommitted, memory,
        controlOutput
    case setupTime, reassemblyTime, lifetime, unreadTime, httpSilence, parkTime, blockLimit
    case sessions, sessionsPerUser, resumeBuffer, resumeTime, events, publishers, publishersPerTopic
    case patterns, matches, patternPositions, sharedTopics

    public var name: String {
        switch self {
        case .connections: "connections"
        case .connectionsPerUser: "connections-per-user"
        case .connectionsPerAddress: "connections-per-address"
        case .streamsPerConnection: "streams-per-connection"
        case .listsPerConnection: "lists-per-connection"
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
        case .uncommitted: "uncommitted"
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
        case .publishers: "publishers"
        case .publishersPerTopic: "publishers-per-topic"
        case .sharedTopics: "shared-topics"
        case .patterns: "patterns"
        case .matches: "matches"
        case .patternPositions: "pattern-positions"
        }
    }
}

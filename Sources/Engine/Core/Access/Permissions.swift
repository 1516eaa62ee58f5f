// Permissions: what a user may do with which topics. They are checked when a stream is opened, and again when they
// change, but not for each message of a stream.

/// What a user can be allowed to do with a topic.
public enum Permission: Int, Sendable, CaseIterable {
    /// Send messages to the topic: fire-and-forget, acknowledged or on a channel.
    case publish
    /// Receive the topic's messages.
    case subscribe
    /// End and delete the topic, and see its subscribers. The broker's own topics and lists need this permission, too.
    case control
    /// Subscribe to the topic with `overflow=block`, which holds its publishers back. Needs `subscribe` as well.
    case block
}

/// The topics of one permission.
public struct TopicSet: Sendable, Equatable {
    /// Whether the set includes every topic, even the broker's own.
    private let isEverything: Bool
    private let patterns: [TopicPattern]

    public static let everything = TopicSet(isEverything: true, patterns: [])
    public static let none = TopicSet([])

    /// Whether topics of clients can belong to the set, not only the broker's own.
    public var isOfClients: Bool { isEverything || patterns.contains { !$0.isOfBroker } }

    /// - Parameter patterns: a topic belongs to the set if at least one pattern matches.
    public init(_ patterns: [TopicPattern]) {
        self.init(isEverything: false, patterns: patterns)
    }

    private init(isEverything: Bool, patterns: [TopicPattern]) {
        self.isEverything = isEverything
        self.patterns = patterns
    }

    /// Whether a topic belongs to the set. Allocates nothing.
    @inline(__always)
    public func contains(_ name: String) -> Bool {
        isEverything || patterns.contains { $0.matches(name) }
    }

    /// Whether one pattern of the set matches every topic that `pattern` matches.
    public func covers(_ pattern: TopicPattern) -> Bool {
        isEverything || patterns.contains { $0.covers(pattern) }
    }
}

/// The permissions of one user.
public struct Permissions: Sendable, Equatable {
    public var publish: TopicSet
    public var subscribe: TopicSet
    public var control: TopicSet
    public var block: TopicSet

    public init(
        publish: TopicSet = .none, subscribe: TopicSet = .none, control: TopicSet = .none, block: TopicSet = .none
    ) {
        self.publish = publish
        self.subscribe = subscribe
        self.control = control
        self.block = block
    }

    public static let all = Permissions(
        publish: .everything, subscribe: .everything, control: .everything, block: .everything)
    public static let none = Permissions()

    public func allow(_ permission: Permission, _ topic: String) -> Bool {
        switch permission {
        case .publish: publish.contains(topic)
        case .subscribe: subscribe.contains(topic)
        case .control: control.contains(topic)
        case .block: block.contains(topic)
        }
    }

    /// Whether the user may know that a topic exists.
    public func show(_ topic: String) -> Bool {
        subscribe.contains(topic) || publish.contains(topic) || control.contains(topic)
    }
}

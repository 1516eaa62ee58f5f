// StorageStatistics: how a topic keeps its messages, and why its publishers wait.

import Replay

/// What the publishers of a topic wait for.
public enum PublishersWaitFor: String, Sendable {
    /// A `block` subscription.
    case subscription
    /// The store, which has not written earlier messages.
    case store
    /// NATS, which has not acknowledged earlier messages.
    case upstream
    /// Memory.
    case memory
}

/// How a topic keeps its messages.
public struct StorageStatistics: Sendable {
    public var storage = TopicStorage.memory
    /// What its messages in memory are charged, in bytes.
    public var resident = 0
    /// Messages that the store has not written yet, or that NATS has not acknowledged, and their charge in bytes; 0 for
    /// a topic in memory.
    public var uncommitted = 0
    public var uncommittedBytes = 0

    public init() {}

    /// Whether a store keeps the topic.
    public var isStored: Bool { storage == .durable || storage == .relaxed }

    func add(to object: inout JSONObject) {
        object.add("storage", storage.name)
        guard storage != .memory else { return }
        object.add("resident_bytes", resident)
        object.add("uncommitted", uncommitted)
        object.add("uncommitted_bytes", uncommittedBytes)
    }
}

extension TopicStorage {
    /// As in the topic's description.
    public var name: String {
        switch self {
        case .memory: "memory"
        case .durable: "durable"
        case .relaxed: "relaxed"
        case .shared: "shared"
        }
    }
}

extension StorageStatistics {
    init(_ topic: Topic) {
        resident = topic.log.bytes
        if let shared = topic.shared {
            storage = .shared
            uncommitted = shared.unconfirmedCount
            uncommittedBytes = shared.unconfirmedBytes
        }
        guard let stored = topic.window.stored, let commits = topic.window.commits else { return }
        storage = stored.isRelaxed ? .relaxed : .durable
        uncommitted = topic.log.end - commits.written
        uncommittedBytes = Int(clamping: topic.log.charged - topic.window.charged(before: commits.written))
    }
}

extension Topic {
    /// The charge of all messages in memory and in the store, in bytes; estimated for those that are only in the store.
    var bytes: Int {
        guard window.oldest < log.head, let before = window.stored?.chargedBeforeKept(log) else { return log.bytes }
        return Int(clamping: log.charged - before)
    }

    /// What publishers wait for; nil while none waits.
    var publishersWaitFor: PublishersWaitFor? {
        guard publishers.blockedCount > 0 else { return nil }
        if publishers.awaitsMemory { return .memory }
        if isShared { return .upstream }
        guard let written = window.commits?.written else { return .subscription }
        let uncommitted = log.end - written
        if publishers.room.isUnwrittenFull(log) || uncommitted >= ownership.limits.uncommitted { return .store }
        let isHeldUp = views.links.contains { link in
            link.progress.horizon.map { $0 <= log.end } ?? false || link.progress.floor.map { $0 < written } ?? false
        }
        return uncommitted > 0 && !isHeldUp ? .store : .subscription
    }
}

// SkippedTopics: what a subscription to a pattern remembers of topics that it skips because of `max-matches`, so that
// it can continue in them later.

import Replay

struct SkippedTopics {
    struct Place {
        /// The shard that owns the topic.
        var owner: Int
        /// From where all messages are for the subscription.
        var followed: SequenceNumber
    }

    /// Maximum number of topics that a subscription remembers, and bytes that each takes, about.
    static let (most, memoryOfEach) = (64, 64)

    /// By epoch.
    private(set) var places: [UInt64: Place] = [:]
    /// Whether a later turn will continue in some of them.
    var isJoining = false

    var isEmpty: Bool { places.isEmpty }
    var isFull: Bool { places.count >= SkippedTopics.most }
    /// Bytes that it takes, about.
    var memory: Int { places.count * SkippedTopics.memoryOfEach }

    subscript(epoch: UInt64) -> Place? { places[epoch] }

    mutating func add(_ epoch: UInt64, _ place: Place) { places[epoch] = place }

    mutating func remove(_ epoch: UInt64) -> Place? { places.removeValue(forKey: epoch) }

    /// The subscription has ended.
    mutating func removeAll() { places = [:] }
}

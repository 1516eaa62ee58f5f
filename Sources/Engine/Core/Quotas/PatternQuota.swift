// PatternQuota: limits the different patterns that clients are subscribed to. A pattern counts once, however many
// shards have subscriptions to it.

/// Shared by all shards of a broker.
final class PatternQuota: @unchecked Sendable {
    private let lock = Lock()
    /// How many shards have subscriptions to each pattern.
    private var shards: [TopicPattern: Int] = [:]
    private var sum = 0

    /// The sum of the patterns' weights.
    var value: Int { lock.with { sum } }

    /// Counts a pattern for one more shard. Returns false if it is a new one, and would exceed `limit`.
    func take(_ pattern: TopicPattern, limit: Int) -> Bool {
        lock.with {
            if let count = shards[pattern] {
                shards[pattern] = count + 1
                return true
            }
            guard sum + pattern.weight <= limit else { return false }
            sum += pattern.weight
            shards[pattern] = 1
            return true
        }
    }

    /// Takes back a `take`.
    func give(_ pattern: TopicPattern) {
        lock.with {
            guard let count = shards[pattern] else { return }
            shards[pattern] = count > 1 ? count - 1 : nil
            if count == 1 { sum -= pattern.weight }
        }
    }
}

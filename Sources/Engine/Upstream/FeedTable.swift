// FeedTable: the topics that this node follows, by name, and in an order that does not depend on hashing, so that the
// simulator repeats each run.

struct FeedTable {
    private var byTopic: [String: (feed: TopicFeed, place: Int)] = [:]
    private(set) var all: [TopicFeed] = []

    var count: Int { all.count }
    var isEmpty: Bool { all.isEmpty }

    subscript(topic: String) -> TopicFeed? { byTopic[topic]?.feed }

    /// Adds the feed of a topic that has none.
    mutating func add(_ feed: TopicFeed) {
        byTopic[feed.topic] = (feed, all.count)
        all.append(feed)
    }

    mutating func remove(_ topic: String) {
        guard let (_, place) = byTopic.removeValue(forKey: topic) else { return }
        let last = all.removeLast()
        guard place < all.count else { return }
        all[place] = last
        byTopic[last.topic]?.place = place
    }
}

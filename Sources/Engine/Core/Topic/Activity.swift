// Activity: how busy topics are, and which topics of a shard are the busiest. A message counts for less the older it
// is. The measure of a topic changes only when a message arrives, and only grows, so the ranking of the busiest topics
// is updated incrementally, without sorting or traversing all topics.
//
// A message at time t weighs 2^(t/halfLife), and the sum is kept as its logarithm. The order of two sums does not
// change with time.

import Glibc

struct Activity: Sendable {
    /// Nanoseconds after which a message counts half.
    static let halfLife: Double = 60e9

    /// The logarithm of the sum. It begins as if one message had arrived at creation.
    private(set) var weight = 0.0
    private var counted: UInt64 = 0

    /// Larger for busier topics.
    var order: UInt64 { weight.bitPattern }

    init(madeAt now: UInt64) { weight = Double(now) / Activity.halfLife }

    /// Updates the weight after `published` messages in total. Returns false if none is new.
    mutating func note(published: UInt64, now: UInt64) -> Bool {
        guard published != counted else { return false }
        let time = Double(now) / Activity.halfLife
        weight = time + log2(exp2(weight - time) + Double(published &- counted))
        counted = published
        return true
    }

    /// Whether this topic is busier by a tenth: otherwise two similar topics would keep replacing each other.
    func isClearlyBusier(than other: Activity) -> Bool { weight > other.weight + 0.1375 }
}

/// A shard's busiest topics: a heap with the least busy one on top.
struct BusiestTopics {
    static let most = 1000

    private(set) var topics: [Topic] = []

    /// A topic is new or has become busier.
    mutating func note(_ topic: Topic) {
        if topic.busyPlace >= 0 { return sink(topic.busyPlace) }
        if topics.count < BusiestTopics.most {
            topics.append(topic)
            rise(topics.count - 1)
        } else if topic.activity.isClearlyBusier(than: topics[0].activity) {
            topics[0].busyPlace = -1
            topics[0] = topic
            sink(0)
        }
    }

    mutating func remove(_ topic: Topic) {
        let place = topic.busyPlace
        guard place >= 0 else { return }
        topic.busyPlace = -1
        let last = topics.removeLast()
        guard last !== topic else { return }
        topics[place] = last
        last.busyPlace = place
        rise(place)
        sink(last.busyPlace)
    }

    private func isLess(_ a: Int, _ b: Int) -> Bool { topics[a].activity.weight < topics[b].activity.weight }

    private mutating func rise(_ start: Int) {
        var place = start
        while place > 0, isLess(place, (place - 1) / 2) {
            swap(place, (place - 1) / 2)
            place = (place - 1) / 2
        }
        topics[place].busyPlace = place
    }

    private mutating func sink(_ start: Int) {
        var place = start
        while true {
            var least = place
            for child in [2 * place + 1, 2 * place + 2] where child < topics.count && isLess(child, least) {
                least = child
            }
            if least == place { break }
            swap(place, least)
            place = least
        }
        topics[place].busyPlace = place
    }

    private mutating func swap(_ a: Int, _ b: Int) {
        topics.swapAt(a, b)
        topics[a].busyPlace = a
        topics[b].busyPlace = b
    }
}

// Ranking: selects and orders the topics and subscriptions that an operator wants to see. It runs on the shard that
// owns them, so no result depends on how many rows were fetched.

import Replay

/// The rank of an item: a larger `first` comes first, then a larger `second`, then by name and number.
public struct Rank: Comparable, Sendable {
    var first: UInt64
    var second: UInt64
    var name: String
    var id: UInt64

    /// `a < b`: `a` comes first.
    public static func < (a: Rank, b: Rank) -> Bool {
        if a.first != b.first { return a.first > b.first }
        if a.second != b.second { return a.second > b.second }
        return a.name != b.name ? a.name < b.name : a.id < b.id
    }
}

/// The first rows in an order. Once there are enough, they form a heap with the last of them on top, so that adding a
/// row stays cheap and rows ranked after the last one are skipped.
public struct FirstRows<Row> {
    private let most: Int
    /// Only rows before this rank are wanted: that of the last row kept, once there are enough.
    public private(set) var last: Rank?
    private var rows: [Row] = []
    /// Ranks with the indices of their rows, so that rows need not move.
    private var heap: [(rank: Rank, place: Int)] = []

    public init(most: Int, last: Rank? = nil) {
        self.most = most
        self.last = last
    }

    public mutating func add(_ row: @autoclosure () -> Row, _ rank: Rank) {
        if most == 0 { return }
        if let last, !(rank < last) { return }
        if rows.count < most {
            heap.append((rank, rows.count))
            rows.append(row())
            if rows.count < most { return }
            for place in (0..<most / 2).reversed() { sink(place) }
        } else {
            rows[heap[0].place] = row()
            heap[0].rank = rank
            sink(0)
        }
        last = heap[0].rank
    }

    /// Moves the entry at `start` down the heap. It usually belongs near the bottom, so it sinks all the way and rises
    /// again from there.
    private mutating func sink(_ start: Int) {
        let entry = heap[start]
        var place = start
        while 2 * place + 1 < heap.count {
            var child = 2 * place + 1
            if child + 1 < heap.count, heap[child].rank < heap[child + 1].rank { child += 1 }
            heap[place] = heap[child]
            place = child
        }
        while place > start, heap[(place - 1) / 2].rank < entry.rank {
            heap[place] = heap[(place - 1) / 2]
            place = (place - 1) / 2
        }
        heap[place] = entry
    }

    /// Sorted.
    public consuming func all() -> [Row] {
        heap.sort { $0.rank < $1.rank }
        return heap.map { rows[$0.place] }
    }
}

extension Survey {
    public enum Order: String, Sendable, CaseIterable {
        /// What needs attention first. Topics: those with blocked publishers, then those that lose publishes, then the
        /// busiest. Subscriptions: those that have been behind for longest.
        case rank
        /// Topics only: like `rank`, but without topics that have no trouble.
        case trouble
        /// The oldest first.
        case age
        /// The busiest topics.
        case busy
        /// The topics with the largest logs.
        case bytes
        /// The topics whose subscriptions lag most, in messages; for subscriptions, the same as `rank`.
        case behind
        /// Topics or subscriptions that lost the most messages.
        case dropped
        /// The subscriptions with the most waiting messages.
        case waiting
        /// The subscriptions with the least credit.
        case credit
        /// By name; subscriptions by the name of their topic.
        case name

        public static let ofTopics: [Order] = [.rank, .busy, .bytes, .behind, .dropped, .name]
        public static let ofSubscriptions: [Order] = [.rank, .dropped, .waiting, .credit, .name]
    }
}

/// A topic counts as losing publishes for this many nanoseconds after the last loss.
private let losing: UInt64 = 60 * Limits.second

extension TopicStatistics {
    /// Whether publishers wait for room, publishes were lost recently, or subscriptions lost messages.
    var isInTrouble: Bool { blockedPublishers > 0 || isLosing || unasked > 0 }

    /// Messages lost by subscriptions, except under `latest`.
    private var unasked: UInt64 { dropped.total &- dropped[.latest] }

    private var isLosing: Bool { lostSince.map { $0 < losing } ?? false }

    public func rank(by order: Survey.Order) -> Rank {
        func rank(_ first: UInt64, _ second: UInt64 = 0) -> Rank {
            Rank(first: first, second: second, name: name, id: epoch)
        }
        switch order {
        case .rank, .trouble:
            let trouble: UInt64 = blockedPublishers > 0 ? 2 : isLosing ? 1 : 0
            return rank(trouble, order == .rank || trouble > 0 ? activity.order : unasked)
        case .age: return rank(age)
        case .busy, .waiting, .credit: return rank(activity.order)
        case .bytes: return rank(UInt64(bytes))
        case .behind: return rank(UInt64(lag))
        case .dropped: return rank(dropped.total &+ fireAndForgetDropped &+ refused)
        case .name: return rank(0)
        }
    }
}

extension SubscriptionStatistics {
    public func rank(by order: Survey.Order) -> Rank {
        Rank(order, id: id, topic: topic, behind: behind, waiting: waiting, dropped: dropped, credit: outstanding)
    }
}

extension Rank {
    fileprivate init(
        _ order: Survey.Order, id: UInt64, topic: String, behind: UInt64, waiting: Int, dropped: UInt64, credit: UInt64?
    ) {
        (first, second, name, self.id) = (0, 0, "", id)
        switch order {
        case .rank, .trouble, .behind, .busy, .bytes: (first, second) = (behind, dropped)
        case .age: break
        case .dropped: (first, second) = (dropped, behind)
        case .waiting: (first, second) = (UInt64(waiting), behind)
        case .credit: (first, second) = (.max - (credit ?? .max), behind)
        case .name: name = topic
        }
    }

    /// The same rank as that from the subscription's figures, without computing all of them.
    init(_ subscriber: Subscriber, behind: UInt64, by order: Survey.Order) {
        let credit = subscriber.credit
        self.init(
            order, id: subscriber.id, topic: subscriber.view.name, behind: behind,
            waiting: subscriber.known { $0.waiting } ?? 0, dropped: subscriber.known { $0.dropped } ?? 0,
            credit: credit.isUnbounded ? nil : credit.outstanding)
    }

    /// The same for a subscription to a pattern.
    init(_ subscription: PatternSubscription, behind: UInt64, by order: Survey.Order) {
        let credit = subscription.credit
        self.init(
            order, id: subscription.id, topic: subscription.pattern.description, behind: behind,
            waiting: subscription.sums.waiting, dropped: subscription.sums.dropped,
            credit: credit.isUnbounded ? nil : credit.outstanding)
    }
}

/// A search text, matched without regard to ASCII case and always in linear time (Knuth-Morris-Pratt).
public struct Needle: Sendable {
    private let bytes: [UInt8]
    /// For each index, the length of the longest proper prefix that ends there.
    private var shifts: [Int]
    public var isEmpty: Bool { bytes.isEmpty }

    public init(_ text: String) {
        bytes = text.utf8.map(Needle.lower)
        shifts = Array(repeating: 0, count: bytes.count)
        var length = 0
        for index in bytes.indices.dropFirst() {
            while length > 0, bytes[index] != bytes[length] { length = shifts[length - 1] }
            if bytes[index] == bytes[length] { length += 1 }
            shifts[index] = length
        }
    }

    private static func lower(_ byte: UInt8) -> UInt8 { (65...90).contains(byte) ? byte | 0x20 : byte }

    public func isIn(_ text: String) -> Bool {
        guard !bytes.isEmpty else { return true }
        var length = 0
        for byte in text.utf8 {
            let byte = Needle.lower(byte)
            while length > 0, byte != bytes[length] { length = shifts[length - 1] }
            if byte == bytes[length] { length += 1 }
            if length == bytes.count { return true }
        }
        return false
    }
}

// TopicViews: the views of one topic as its owner knows them, one for each shard that has subscriptions to it.

import Replay

/// A shard that has subscriptions to a topic, as the owner knows it.
struct ViewLink {
    /// Bytes of messages that a view is sent beyond what it has reported as seen. A shard that lags further is sent the
    /// rest later, in one message.
    static let ahead = 1 << 20

    let shard: Int
    fileprivate(set) var progress: ViewProgress
    /// The end that the view has been sent.
    fileprivate(set) var sentEnd: SequenceNumber
    /// Whether it has been notified of the topic's end.
    fileprivate(set) var isEnded: Bool
}

/// A shard with subscriptions to patterns that match a topic.
struct Follower {
    let shard: Int
    /// The end up to which the shard has followed the topic. Counts only while the shard has no view of it.
    fileprivate(set) var followed: SequenceNumber
    /// Whether it waits for a view.
    fileprivate(set) var isQueued = false
    /// Whether it need not be notified of the topic's end.
    fileprivate(set) var knowsEnd: Bool
}

struct TopicViews {
    private(set) var links: [ViewLink] = []
    private(set) var followers: [Follower] = []
    /// Messages lost, and delivered, by shards that are no longer linked.
    private var past = Rare<ViewTotals>()

    var isEmpty: Bool { links.isEmpty }
    var subscriptions: Int { links.reduce(0) { $0 + $1.progress.subscriptions } }
    var dropped: DropCounts { links.reduce(into: past.value.dropped) { $0.add($1.progress.dropped) } }
    var delivered: UInt64 { links.reduce(past.value.delivered) { $0 &+ $1.progress.delivered } }

    /// The oldest message that a subscription, or a follower, waits for; `most` if all are further ahead.
    func needed(atMost most: SequenceNumber) -> SequenceNumber {
        let followed = followers.reduce(most) { $1.isQueued ? Swift.min($0, $1.followed) : $0 }
        return links.reduce(followed) { Swift.min($0, $1.progress.needed) }
    }

    private func index(of shard: Int) -> Int? { links.firstIndex { $0.shard == shard } }

    /// The link of a shard whose view has not been sent everything before `end`; nil if there is none.
    func laggingIndex(of shard: Int, end: SequenceNumber) -> Int? {
        index(of: shard).flatMap { links[$0].sentEnd < end ? $0 : nil }
    }

    mutating func link(_ shard: Int, seen: SequenceNumber, needed: SequenceNumber, isEnded: Bool) {
        assert(index(of: shard) == nil)
        let progress = ViewProgress(
            seen: seen, needed: needed, horizon: nil, floor: nil, subscriptions: 1, dropped: DropCounts(), delivered: 0)
        links.append(ViewLink(shard: shard, progress: progress, sentEnd: seen, isEnded: isEnded))
    }

    // Followers

    /// A shard follows the topic from `first` on, unless it already does.
    /// - Parameter isOver: whether the topic has already ended.
    mutating func follow(_ shard: Int, from first: SequenceNumber, isOver: Bool) {
        guard followed(by: shard) == nil else { return }
        followers.append(Follower(shard: shard, followed: first, knowsEnd: isOver))
    }

    /// The end up to which a shard has followed the topic; nil if it does not follow it.
    func followed(by shard: Int) -> SequenceNumber? { followers.first { $0.shard == shard }?.followed }

    /// The followers without a view that have not followed the topic up to `end`.
    /// - Parameter isOver: whether the topic has ended, of which they are notified.
    func followersBehind(_ end: SequenceNumber, isOver: Bool) -> [Follower] {
        followers.filter { ($0.followed < end || isOver && !$0.knowsEnd) && !isLinked($0.shard) }
    }

    /// Whether a follower has to be notified of the end of the topic, which has ended.
    func isEndNew(for shard: Int) -> Bool { followers.contains { $0.shard == shard && !$0.knowsEnd } }

    /// Whether a follower waits for a view.
    var hasQueued: Bool { followers.contains(where: \.isQueued) }

    mutating func setQueued(_ isQueued: Bool, _ shard: Int) {
        guard let place = followers.firstIndex(where: { $0.shard == shard }) else { return }
        followers[place].isQueued = isQueued
    }

    func isLinked(_ shard: Int) -> Bool { index(of: shard) != nil }

    /// A follower's view was removed.
    private mutating func noteFollowed(_ totals: ViewTotals, by shard: Int) {
        guard let place = followers.firstIndex(where: { $0.shard == shard }) else { return }
        guard let end = totals.followed else {
            followers.remove(at: place)
            return
        }
        followers[place].followed = end
        if totals.knowsEnd { followers[place].knowsEnd = true }
    }

    /// Returns false if that shard is not linked.
    mutating func unlink(_ shard: Int, _ totals: ViewTotals) -> Bool {
        guard let index = index(of: shard) else { return false }
        past.value.dropped.add(totals.dropped)
        past.value.delivered &+= totals.delivered
        links.remove(at: index)
        noteFollowed(totals, by: shard)
        return true
    }

    /// Records a view's progress. Returns false if its shard is not linked.
    mutating func note(_ progress: ViewProgress, of shard: Int) -> Bool {
        guard let index = index(of: shard) else { return false }
        links[index].progress = progress
        return true
    }

    /// A view has a new member that needs older messages than all others.
    mutating func hold(_ needed: SequenceNumber, for shard: Int) {
        guard let index = index(of: shard) else { return }
        links[index].progress.needed = Swift.min(links[index].progress.needed, needed)
    }

    /// Records that a view is sent everything before `end`. Returns its previous link.
    mutating func advance(at index: Int, to end: SequenceNumber, isEnded: Bool) -> ViewLink {
        assert(end >= links[index].sentEnd)
        defer {
            links[index].sentEnd = end
            links[index].isEnded = isEnded
        }
        return links[index]
    }

    /// Makes all views receive the topic's end again.
    mutating func resendEnds() { for index in links.indices { links[index].isEnded = false } }
}

// PatternFollowers: an owner's knowledge of which shards have subscriptions to which patterns. A new topic finds its
// followers in the trie of patterns; a new subscription is sent the topics that match, some in each turn.

import ForebayWire
import Replay

/// A subscription to a pattern asks a shard for its matching topics.
struct PatternRequest: Sendable {
    var pattern: TopicPattern
    var subscription: StreamKey
    /// Whose bytes of forwarded requests are given back when the request is done.
    var connection: ConnectionID
    /// Whether the subscription begins with retained messages.
    var wantsHistory: Bool
}

/// A part of the answer.
struct PatternMatches: Sendable {
    var owner: Int
    /// Topics of which the subscription's shard has a view, or will have one before this arrives, by epoch.
    var linked: [UInt64]
    /// How many topics match, including those without a view.
    var count: Int
    var isLast: Bool
}

/// A request that is being answered.
struct PatternSearch {
    let request: PatternRequest
    /// The next slot in the list of topics.
    var place = 0
    /// What has been found and not been sent yet.
    var found: PatternMatches
}

final class PatternFollowers: ShardPart {
    let topics: TopicTable
    let ownership: TopicOwnership
    // Above
    unowned(unsafe) var patterns: PatternSubscribing!
    /// The shards with subscriptions to each pattern.
    private var shardsByPattern = PatternTrie<[Int]>()

    init(_ context: ShardContext, _ topics: TopicTable, _ ownership: TopicOwnership) {
        self.topics = topics
        self.ownership = ownership
        super.init(context)
    }

    /// Topics visited at a time.
    private static let slice = 256

    /// A topic has been created: all that is published to it is for its followers.
    func noteNew(_ topic: Topic) {
        guard !shardsByPattern.isEmpty, topic.shared == nil else { return }
        shardsByPattern.forEachMatch(topic.name) { shards in
            for shard in shards { topic.follow(shard, from: .first) }
        }
    }

    /// A subscription asks for matching topics.
    func match(_ request: PatternRequest, now: Instant) {
        var shards = shardsByPattern[request.pattern] ?? []
        if !shards.contains(request.subscription.shard) {
            shards.append(request.subscription.shard)
            shardsByPattern[request.pattern] = shards
        }
        let found = PatternMatches(owner: index, linked: [], count: 0, isLast: false)
        goOn(PatternSearch(request: request, found: found), now: now)
    }

    /// No subscription of a shard has this pattern any longer. The topics that it follows learn that when they have
    /// messages for it.
    func unmatch(_ pattern: TopicPattern, shard: Int) {
        guard var shards = shardsByPattern[pattern] else { return }
        shards.removeAll { $0 == shard }
        shardsByPattern[pattern] = shards.isEmpty ? nil : shards
    }

    /// Visits some more topics for a request.
    func goOn(_ search: PatternSearch, now: Instant) {
        var search = search
        let request = search.request
        // A client that subscribes and cancels again and again must not cause more work than it has streams. Other
        // shards' searches are limited by what their connections may forward.
        if request.subscription.shard == index, !patterns.isOpen(request.subscription.handle) { return }
        let before = search.found.count
        let end = Swift.min(search.place + PatternFollowers.slice, topics.placeBound)
        for place in search.place..<Swift.max(end, search.place) {
            guard let topic = topics.topic(at: place), topic.shared == nil, request.pattern.matches(topic.name) else {
                continue
            }
            search.found.count += 1
            if link(topic, for: request, now: now) { search.found.linked.append(topic.epoch) }
        }
        work.spent += (end - search.place) / Work.placesPerUnit + search.found.count - before
        search.place = end
        search.found.isLast = end >= topics.placeBound
        if search.found.isLast || search.found.linked.count >= PatternFollowers.slice {
            answer(search.found, to: request.subscription, now: now)
            (search.found.linked, search.found.count) = ([], 0)
        }
        if !search.found.isLast { return work.doLater(.search(search)) }
        guard request.subscription.shard != index else { return }
        send(.processed(request.connection, bytes: MessageBatch.envelope), to: request.subscription.shard)
    }

    /// Returns whether the subscription's shard has a view of the topic, or is about to have one.
    private func link(_ topic: Topic, for request: PatternRequest, now: Instant) -> Bool {
        let shard = request.subscription.shard
        topic.follow(shard, from: topic.committed)
        if topic.views.isLinked(shard) { return true }
        guard request.wantsHistory, topic.retained < topic.committed else { return false }
        ownership.link(topic, to: shard, now: now)
        return true
    }

    /// A subscription that wants retained messages needs the view of a topic that its shard has removed.
    func rejoin(_ epoch: UInt64, _ subscription: StreamKey, now: Instant) {
        guard let topic = topics[epoch: epoch] else { return }
        if !topic.views.isLinked(subscription.shard) { ownership.link(topic, to: subscription.shard, now: now) }
        answer(PatternMatches(owner: index, linked: [epoch], count: 0, isLast: false), to: subscription, now: now)
    }

    private func answer(_ matches: PatternMatches, to subscription: StreamKey, now: Instant) {
        if subscription.shard == index {
            patterns.take(matches, for: subscription.handle, now: now)
        } else {
            send(.matched(subscription.handle, matches), to: subscription.shard)
        }
    }
}

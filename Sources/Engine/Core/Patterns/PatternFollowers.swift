// PatternFollowers: an owner's knowledge of which shards have subscriptions to which patterns. A new topic finds its
// followers in the trie of patterns; a new subscription finds its topics in the trie of topics, some in each turn.

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
    /// Where it continues in topics that the shard owns, by name.
    var places: [String: TopicPlace] = [:]
    /// Whether the subscription's shard knows that this one has begun to answer.
    var hasBegun = false

    /// Whether it may need views of topics without new messages.
    var wantsViews: Bool { wantsHistory || !places.isEmpty }
    /// Counted as bytes that the connection has forwarded.
    var weight: Int { MessageBatch.envelope + places.count * PatternPositions.memory }
}

/// A part of the answer.
struct PatternMatches: Sendable {
    var owner: Int
    /// Topics of which the subscription's shard has a view, or will have one before this arrives, by epoch.
    var linked: [UInt64]
    /// How many topics match, including those without a view.
    var count: Int
    /// Its cost, in cursors; `PatternLinks` counts it.
    var load = 0
    var isLast: Bool
    /// The topic that this answers a `rejoin` for, even if it does not exist any longer.
    var rejoined: UInt64?
    /// Why the subscription cannot begin.
    var refusal: Refusal?
}

/// A request that is being answered.
struct PatternSearch {
    fileprivate(set) var request: PatternRequest
    var topics: TopicSearch
    /// A topic that the search found and that is not current yet.
    var awaited: Handle?
    /// What has been found and not been sent yet.
    var found: PatternMatches
}

final class PatternFollowers: ShardPart {
    let topics: TopicTable
    let ownership: TopicOwnership
    let links: PatternLinks
    // Above
    unowned(unsafe) var patterns: PatternSubscribing!
    /// The shards with subscriptions to each pattern.
    private var shardsByPattern = PatternTrie<[Int]>()
    /// Patterns for which the upstream reports topics.
    private var watched: Set<TopicPattern> = []
    /// Requests of other shards that are being answered, and what is given back to whom when they are done.
    private var asked: [StreamKey: (connection: ConnectionID, weight: Int)] = [:]
    /// Requests for topics that may be shared, by number, until the upstream knows those.
    private(set) var waiting: [UInt64: PatternRequest] = [:]
    private var numbers: [StreamKey: UInt64] = [:]
    private var lastNumber: UInt64 = 0
    /// Where searches wait for a shared topic.
    private(set) var places: [StreamKey: (topic: Handle, ticket: TurnQueue<PatternSearch>.Ticket)] = [:]

    init(_ context: ShardContext, _ topics: TopicTable, _ ownership: TopicOwnership) {
        self.topics = topics
        self.ownership = ownership
        links = PatternLinks(context, topics, ownership)
        super.init(context)
    }

    /// Nodes of the trie of topics visited at a time. Tests use few.
    var slice = 256
    /// Topics in one answer, each of which may get a view and a cursor at once. Tests use many.
    var mostLinked = 64

    /// A topic has been created: all that is published to it is for its followers.
    func noteNew(_ topic: Topic) {
        if topic.shared == nil { follow(topic, from: .first) }
    }

    /// The shards with subscriptions that match a topic lack its messages from `first` on, unless they follow it.
    func follow(_ topic: Topic, from first: SequenceNumber) {
        forEachMatch(topic.name, in: shardsByPattern) { shards in
            for shard in shards { topic.follow(shard, from: first) }
        }
    }

    /// A subscription asks for matching topics.
    func match(_ request: PatternRequest, now: Instant) {
        if request.subscription.shard != index { asked[request.subscription] = (request.connection, request.weight) }
        var shards = shardsByPattern[request.pattern] ?? []
        if !shards.contains(request.subscription.shard) {
            shards.append(request.subscription.shard)
            shardsByPattern[request.pattern] = shards
            work.spent += request.pattern.size / Work.patternBytesPerUnit
        }
        if limits.mayShare(request.pattern) { ask(request) } else { begin(request, now: now) }
    }

    /// A subscription has ended. Clients that subscribe and leave again and again must not leave searches behind.
    func withdraw(_ subscription: StreamKey) {
        links.withdraw(subscription)
        if let number = numbers.removeValue(forKey: subscription) { waiting[number] = nil }
        if let place = places.removeValue(forKey: subscription) {
            topics[place.topic]?.shared?.withdrawSearch(place.ticket)
        }
        done(subscription)
    }

    private func begin(_ request: PatternRequest, now: Instant) {
        let found = PatternMatches(owner: index, linked: [], count: 0, isLast: false)
        let search = PatternSearch(request: request, topics: topics.search(request.pattern), found: found)
        // While other shards ask for many searches, clients' input does not wait for them.
        let isOwn = request.subscription.shard == index
        if isOwn || work.spent < Work.turn / 2 { goOn(search, now: now) } else { work.doLater(.search(search)) }
    }

    /// Another shard may send the next request.
    private func noteBegun(_ request: inout PatternRequest) {
        guard !request.hasBegun, request.subscription.shard != index else { return }
        request.hasBegun = true
        send(.matchBegun(request.connection), to: request.subscription.shard)
    }

    /// No subscription of a shard has this pattern any longer. The topics that it follows learn that when they have
    /// messages for it.
    func unmatch(_ pattern: TopicPattern, shard: Int) {
        guard var shards = shardsByPattern[pattern] else { return }
        shards.removeAll { $0 == shard }
        shardsByPattern[pattern] = shards.isEmpty ? nil : shards
        work.spent += pattern.size / Work.patternBytesPerUnit
        if shards.isEmpty, watched.remove(pattern) != nil { effects.upstream.append(.discard(pattern)) }
    }

    // Shared topics

    /// Waits until it is known which shared topics exist.
    private func ask(_ request: PatternRequest) {
        var request = request
        noteBegun(&request)
        lastNumber += 1
        (waiting[lastNumber], numbers[request.subscription]) = (request, lastNumber)
        watched.insert(request.pattern)
        effects.upstream.append(.search(lastNumber, request.pattern, wantsNames: request.wantsViews))
    }

    /// Some of the shared topics that match a request, which begins with what they retain.
    func take(_ names: [String], of number: UInt64, isLast: Bool, now: Instant) {
        guard let request = waiting[number] else { return }
        for name in names { use(name, now: now) }
        guard isLast else { return }
        (waiting[number], numbers[request.subscription]) = (nil, nil)
        begin(request, now: now)
    }

    /// It is not known which shared topics match a request.
    func refuse(_ number: UInt64, _ refusal: Refusal, now: Instant) {
        guard let request = waiting.removeValue(forKey: number) else { return }
        numbers[request.subscription] = nil
        defer { done(request.subscription) }
        let matches = PatternMatches(owner: index, linked: [], count: 0, isLast: true, refusal: refusal)
        answer(matches, to: request.subscription, now: now)
    }

    /// A shared topic has messages, and the node does not follow it.
    func heard(_ name: String, now: Instant) {
        if hasMatch(name, in: shardsByPattern) { use(name, now: now) }
    }

    /// Makes the node follow a shared topic. If it cannot, that is logged and counted, and is tried again with the
    /// topic's next messages.
    private func use(_ name: String, now: Instant) {
        guard limits.isShared(name), TopicName.fault(name) == nil else { return }
        work.spent += Work.subscribing
        (try? ownership.topic(named: name, for: nil, now: now))?.shared?.noteFound()
    }

    /// A shared topic is current, or there is none: searches that wait for it go on.
    func goOn(with topic: Topic) {
        topic.shared?.takeSearches().forEach { search in
            places[search.request.subscription] = nil
            work.doLater(.search(search))
        }
    }

    /// Whether a request's subscription has not ended, as far as this shard knows.
    private func isOpen(_ request: PatternRequest) -> Bool {
        let subscription = request.subscription
        return subscription.shard == index ? patterns.isOpen(subscription.handle) : asked[subscription] != nil
    }

    /// Visits some more topics for a request.
    func goOn(_ search: PatternSearch, now: Instant) {
        var search = search
        noteBegun(&search.request)
        let request = search.request
        defer { links.goOn(request.subscription.shard, now: now) }
        work.spent += 1
        guard isOpen(request) else { return }
        if links.isBusy(request.subscription.shard) { return links.resumeLater(search) }
        var left = slice
        defer { work.spent += (slice - left) / Work.placesPerUnit }
        var awaited = search.awaited.flatMap { topics[$0] }
        search.awaited = nil
        while search.found.linked.count < mostLinked,
            let topic = awaited ?? search.topics.next(most: &left)
        {
            awaited = nil
            if let shared = topic.shared, !shared.isCurrent {
                // It is followed when it is current.
                guard request.wantsViews, !shared.isAbsent else { continue }
                search.awaited = topic.place
                places[request.subscription] = (topic.place, shared.add(search))
                return
            }
            search.found.count += 1
            work.spent += 1
            if link(topic, for: request, now: now) { search.found.linked.append(topic.epoch) }
        }
        search.found.isLast = search.topics.isOver
        if search.found.isLast || search.found.linked.count >= mostLinked {
            let count = search.found.linked.count
            search.found.load = request.wantsViews ? count : (count + 15) / 16
            answer(search.found, to: request.subscription, now: now)
            (search.found.linked, search.found.count) = ([], 0)
        }
        if search.found.isLast { done(request.subscription) } else { work.doLater(.search(search)) }
    }

    /// Gives back the bytes of a request that another shard has forwarded.
    private func done(_ subscription: StreamKey) {
        guard let (connection, weight) = asked.removeValue(forKey: subscription) else { return }
        send(.matchDone(connection, bytes: weight), to: subscription.shard)
    }

    /// Returns whether the subscription's shard has a view of the topic, or is about to have one.
    private func link(_ topic: Topic, for request: PatternRequest, now: Instant) -> Bool {
        let shard = request.subscription.shard
        topic.follow(shard, from: topic.committed)
        if topic.views.isLinked(shard) { return true }
        if let place = request.places[topic.name] {
            // The client may not know of the topic's end yet.
            guard place != TopicPlace(epoch: topic.epoch, next: topic.committed) || topic.visibleState.isEnd else {
                return false
            }
        } else {
            guard request.wantsHistory, topic.retained < topic.committed || topic.visibleState.isEnd else {
                return false
            }
        }
        links.link(topic, to: shard, now: now)
        return true
    }

    /// A subscription that wants retained messages needs the view of a topic that its shard has removed.
    func rejoin(_ epoch: UInt64, _ subscription: StreamKey, now: Instant) {
        var matches = PatternMatches(owner: index, linked: [], count: 0, isLast: false, rejoined: epoch)
        // A shared topic may have been left and followed again, and not be read up to its end yet.
        if let topic = topics[epoch: epoch], topic.isCurrent {
            if !topic.views.isLinked(subscription.shard) { links.link(topic, to: subscription.shard, now: now) }
            (matches.linked, matches.load) = ([epoch], 1)
        }
        answer(matches, to: subscription, now: now)
    }

    private func answer(_ matches: PatternMatches, to subscription: StreamKey, now: Instant) {
        links.send(matches.load, to: subscription.shard)
        if subscription.shard == index {
            patterns.take(matches, for: subscription.handle, now: now)
        } else {
            send(.matched(subscription.handle, matches), to: subscription.shard)
        }
    }
}

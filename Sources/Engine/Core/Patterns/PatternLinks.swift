// PatternLinks: sends views of topics, and the topics that searches have found, to shards with subscriptions to
// patterns. A shard that has many views and cursors to make receives some at a time, so that other shards' messages to
// it do not wait behind all of them.
//
//     a message ─▶ few on their way ─▶ sent ──the shard has made them──▶ the next one that waits
//     a search        └──many──▶ waits ─────────────────────────────────────▲

import Replay

final class PatternLinks: ShardPart {
    private struct Queue {
        /// Views and cursors that the shard has not made yet; for this shard, those that it has made in this turn.
        var underWay = 0
        /// Topics with messages. They do not wait behind all searches.
        var topics = TurnQueue<Topic>()
        var searches = TurnQueue<PatternSearch>()
        /// Topics since the last search.
        private var inARow = 0
        /// Topics that come before the next search.
        private static let mostInARow = 16

        mutating func nextTopic() -> Topic? {
            guard inARow < Queue.mostInARow || searches.isEmpty, let topic = topics.popFirst() else { return nil }
            inARow += 1
            return topic
        }

        mutating func nextSearch() -> PatternSearch? {
            inARow = 0
            return searches.popFirst()
        }
    }

    let topics: TopicTable
    let ownership: TopicOwnership
    /// By shard.
    private var queues: [Queue]
    /// Where searches wait.
    private var places: [StreamKey: TurnQueue<PatternSearch>.Ticket] = [:]
    /// Views and cursors on their way to a shard, above which others wait. Tests use few.
    var most = 64

    init(_ context: ShardContext, _ topics: TopicTable, _ ownership: TopicOwnership) {
        self.topics = topics
        self.ownership = ownership
        queues = Array(repeating: Queue(), count: context.shards)
        super.init(context)
    }

    /// Gives the shards that follow a topic a view of it, if it has messages for them.
    /// - Parameter isLast: whether it will not have those messages later.
    func linkFollowers(of topic: Topic, isLast: Bool = false, now: Instant) {
        for follower in topic.views.followersBehind(topic.committed, isOver: topic.visibleState.isEnd) {
            if isLast || (!follower.isQueued && !isBusy(follower.shard)) {
                link(topic, to: follower.shard, now: now)
            } else if !follower.isQueued {
                topic.setQueued(true, follower.shard)
                queues[follower.shard].topics.append(topic)
            }
        }
    }

    func link(_ topic: Topic, to shard: Int, now: Instant) {
        send(1, to: shard)
        ownership.link(topic, to: shard, now: now)
    }

    /// A shard is about to make views or cursors.
    func send(_ count: Int, to shard: Int) {
        guard count > 0 else { return }
        if shard == index, queues[shard].underWay == 0 { work.doLater(.links) }
        queues[shard].underWay += count
    }

    /// Whether many views and cursors are on their way to a shard, or were made here in this turn.
    func isBusy(_ shard: Int) -> Bool { queues[shard].underWay >= most }

    /// Continues a search when less is on its way to its shard.
    func resumeLater(_ search: PatternSearch) {
        let subscription = search.request.subscription
        places[subscription] = queues[subscription.shard].searches.append(search)
    }

    /// A subscription has ended: its search does not wait any longer.
    func withdraw(_ subscription: StreamKey) {
        guard !places.isEmpty, let place = places.removeValue(forKey: subscription) else { return }
        queues[subscription.shard].searches.withdraw(place)
    }

    /// How many topics and searches wait for a shard.
    func waitingCount(of shard: Int) -> Int { queues[shard].topics.count + queues[shard].searches.count }

    /// Another shard has made views or cursors.
    func made(_ count: Int, on shard: Int, now: Instant) {
        assert(queues[shard].underWay >= count)
        queues[shard].underWay -= count
        goOn(shard, now: now)
    }

    /// A new turn: more can be made here.
    func goOn(now: Instant) {
        queues[index].underWay = 0
        goOn(index, now: now)
    }

    /// Continues with what waits for a shard, up to a search. When that has run, it continues with the rest.
    func goOn(_ shard: Int, now: Instant) {
        while !isBusy(shard) {
            if let topic = queues[shard].nextTopic() {
                topic.setQueued(false, shard)
                guard topics[epoch: topic.epoch] === topic else { continue }
                linkFollowers(of: topic, now: now)
                topic.noteUse(now)
            } else if let search = queues[shard].nextSearch() {
                places[search.request.subscription] = nil
                return work.doLater(.search(search))
            } else {
                return
            }
        }
    }

    /// The shard is being deallocated.
    func removeAll() {
        queues = queues.map { _ in Queue() }
        places = [:]
    }
}

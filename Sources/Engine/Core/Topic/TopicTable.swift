// TopicTable: the topics that a shard owns (by name while they can be used, and by epoch while subscriptions wait for
// their messages), those touched by the current input, the busiest, and slots for iterating over all of them.
//
//     make ─▶ named ──remove──▶ without a name ──nothing waits, publishers notified──▶ forgotten

import Bytes
import ForebayWire
import Replay

final class TopicTable {
    private let context: ShardContext
    private var named = PartitionedDictionary<String, Topic>()
    private var byEpoch = PartitionedDictionary<UInt64, Topic>()
    /// Topics with a name.
    private var trie = TopicTrie()
    /// Topics with a name, in slots over which lists iterate page by page.
    private var places = Slab<Topic>()
    /// All topics, in slots over which sweeps and memory relief iterate.
    private var held = Slab<Topic>()
    /// Topics touched by the current input.
    private var dirty: [Topic] = []
    private(set) var busiest = BusiestTopics()
    /// The number of topics with publishers that wait for room, and the time up to which their waiting is counted.
    private var blocked = 0
    private var blockedCounted: UInt64 = 0

    init(context: ShardContext) { self.context = context }

    /// The number of topics, including those without a name.
    var count: Int { byEpoch.count }
    var namedCount: Int { named.count }
    var all: some Sequence<Topic> { byEpoch.values }

    subscript(name: String) -> Topic? { named[name] }
    subscript(epoch epoch: UInt64) -> Topic? { byEpoch[epoch] }

    func hasName(_ topic: Topic) -> Bool { named[topic.name] === topic }

    func search(_ pattern: TopicPattern) -> TopicSearch { TopicSearch(pattern, in: trie) }

    // Slots

    /// One past the last slot of a topic with a name.
    var placeBound: Int { places.bound }
    func topic(at place: Int) -> Topic? { places.at(place) }
    /// Nil if the topic has lost its name.
    subscript(place: Handle) -> Topic? { places[place] }

    /// One past the last slot of a topic.
    var heldBound: Int { held.bound }
    func held(at place: Int) -> Topic? { held.at(place) }

    // Creating and removing

    /// Creates a topic, which counts against the limits of the first user to use it.
    func make(_ name: String, for account: Account?, by ownership: TopicOwnership) throws(Refusal) -> Topic {
        assert(named[name] == nil)
        let account = TopicName.isSystem(name) ? nil : account
        try count(for: account)
        context.work.spent += Work.topic
        let topic = insert(name, epoch: context.random(), nil, by: ownership)
        topic.account = account
        return topic
    }

    /// Creates a topic that the store has from an earlier run. It counts against the limit of topics, but is not
    /// refused.
    func restore(_ earlier: StoredTopic, by ownership: TopicOwnership) -> Topic {
        _ = context.quotas.topics.take(limit: .max)
        return insert(
            earlier.row.name, epoch: earlier.mayHaveLost ? context.random() : earlier.row.epoch, earlier, by: ownership)
    }

    private func insert(_ name: String, epoch: UInt64, _ earlier: StoredTopic?, by ownership: TopicOwnership) -> Topic {
        let topic = places.insert { place in
            Topic(
                name: name, epoch: epoch, place: place, ownership: ownership, earlier: earlier,
                now: context.moment.monotonic)
        }
        _ = held.insert { place in
            topic.held = place
            return topic
        }
        named[name] = topic
        trie.insert(topic)
        byEpoch[topic.epoch] = topic
        busiest.note(topic)
        return topic
    }

    /// Enters a topic under another epoch.
    func move(_ topic: Topic, to epoch: UInt64) {
        byEpoch[topic.epoch] = nil
        byEpoch[epoch] = topic
    }

    private func count(for account: Account?) throws(Refusal) {
        let limits = context.limits
        guard context.quotas.topics.take(limit: limits.topics) else {
            let topics = counted(limits.topics, "topic")
            throw context.refusal(
                at: .topics, "The broker has \(topics), the maximum; delete some, or try again later.")
        }
        guard let account, !account.topics.take(limit: limits.topicsPerUser) else { return }
        context.quotas.topics.give()
        throw context.refusal(
            at: .topicsPerUser,
            "\(account.titleHas) created \(counted(limits.topicsPerUser, "topic")), the maximum; "
                + "delete some, or use topics of other users.")
    }

    /// Frees the topic's name for a new topic.
    func removeName(of topic: Topic) {
        guard hasName(topic) else { return }
        named[topic.name] = nil
        trie.remove(topic.name)
        context.quotas.topics.give()
        topic.account?.topics.give()
        places.remove(topic.place)
        busiest.remove(topic)
    }

    /// Removes a topic without a name once no subscription waits for its messages and its publishers have been notified
    /// of its end. Returns whether it did. Subscriptions to patterns are given the messages that the store has just
    /// written, and the end, when the input is finished.
    func removeIfUnused(_ topic: Topic) -> Bool {
        guard !hasName(topic), topic.views.isEmpty, topic.publishers.refusal == nil, topic.isStoreDone,
            !topic.isNewToFollowers
        else { return false }
        byEpoch[topic.epoch] = nil
        if let place = topic.held { held.remove(place) }
        topic.held = nil
        // Removed views may exist for a while, and they reference the log.
        topic.log.removeAll()
        return true
    }

    // Topics touched by the current input

    var hasDirty: Bool { !dirty.isEmpty }

    /// Marks a topic whose messages, room or state changed. Its work is completed before the input is finished.
    func markDirty(_ topic: Topic) {
        guard !topic.isDirty else { return }
        topic.isDirty = true
        dirty.append(topic)
    }

    func nextDirty() -> Topic? {
        let topic = dirty.popLast()
        topic?.isDirty = false
        return topic
    }

    /// The shard is being deallocated.
    func removeAll() {
        named = PartitionedDictionary()
        byEpoch = PartitionedDictionary()
        trie = TopicTrie()
        places = Slab()
        held = Slab()
        dirty = []
        busiest = BusiestTopics()
    }

    // Statistics

    /// Adds `change` to the number of topics whose publishers wait for room. Their waiting time is counted up to now.
    func countBlocked(_ change: Int, now: UInt64) {
        assert(blocked + change >= 0)
        context.counters.blocked &+= UInt64(blocked) &* (now - Swift.min(blockedCounted, now))
        blockedCounted = now
        blocked += change
    }

    /// Messages have arrived for a topic with a name.
    func noteBusier(_ topic: Topic) { busiest.note(topic) }
}

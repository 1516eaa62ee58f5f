// TopicTable: the topics that a shard owns – by name while they can be used, and by epoch as long as anybody waits for
// their messages – with what the shard goes over: those that an input touched, the busiest, and all of them by places.
//
//     make ─▶ named ──remove──▶ without a name ──nobody waits, publishers know──▶ forgotten

import Bytes
import ForebayWire
import Replay

final class TopicTable {
    private let context: ShardContext
    private var named = PartitionedDictionary<String, Topic>()
    private var byEpoch = PartitionedDictionary<UInt64, Topic>()
    /// Those that have a name, in places that lists go over page by page.
    private var places = Slab<Topic>()
    /// All of them, in places that sweeps and memory relief go over.
    private var held = Slab<Topic>()
    /// Those that the input at work touched.
    private var dirty: [Topic] = []
    private(set) var busiest = BusiestTopics()
    /// How many have publishers that wait for room, and until when the time that they wait is counted.
    private var blocked = 0
    private var blockedCounted: UInt64 = 0

    init(context: ShardContext) { self.context = context }

    /// How many there are, those without a name included.
    var count: Int { byEpoch.count }
    var namedCount: Int { named.count }
    var all: some Sequence<Topic> { byEpoch.values }

    subscript(name: String) -> Topic? { named[name] }
    subscript(epoch epoch: UInt64) -> Topic? { byEpoch[epoch] }

    func hasName(_ topic: Topic) -> Bool { named[topic.name] === topic }

    // Places

    /// Beyond the last place of a topic with a name.
    var placeBound: Int { places.bound }
    func topic(at place: Int) -> Topic? { places.at(place) }
    /// Nil where the topic has lost its name.
    subscript(place: Handle) -> Topic? { places[place] }

    /// Beyond the last place of a topic.
    var heldBound: Int { held.bound }
    func held(at place: Int) -> Topic? { held.at(place) }

    // Making and removing

    /// A new topic, counted for the user who is the first to use it.
    func make(_ name: String, for account: Account?, by ownership: TopicOwnership) throws(Refusal) -> Topic {
        assert(named[name] == nil)
        let account = TopicName.isSystem(name) ? nil : account
        try count(for: account)
        let topic = places.insert { place in
            Topic(
                name: name, epoch: context.random(), place: place, ownership: ownership, now: context.moment.monotonic)
        }
        topic.account = account
        _ = held.insert { place in
            topic.held = place
            return topic
        }
        named[name] = topic
        byEpoch[topic.epoch] = topic
        busiest.note(topic)
        return topic
    }

    private func count(for account: Account?) throws(Refusal) {
        let limits = context.limits
        guard context.quotas.topics.take(limit: limits.topics) else {
            let topics = counted(limits.topics, "topic")
            throw context.refusal(at: .topics, "The broker has \(topics), its limit; delete some or try again later.")
        }
        guard let account, !account.topics.take(limit: limits.topicsPerUser) else { return }
        context.quotas.topics.give()
        throw context.refusal(
            at: .topicsPerUser,
            "\(account.title) was the first to use \(counted(limits.topicsPerUser, "topic")), the most allowed; "
                + "delete some, or use others' topics.")
    }

    /// Its name is free for a new one.
    func removeName(of topic: Topic) {
        guard hasName(topic) else { return }
        named[topic.name] = nil
        context.quotas.topics.give()
        topic.account?.topics.give()
        places.remove(topic.place)
        busiest.remove(topic)
    }

    /// Forgets a topic without a name, once nobody waits for its messages and its publishers know of its end. Returns
    /// whether it did.
    func forgetIfUnused(_ topic: Topic) -> Bool {
        guard !hasName(topic), topic.views.isEmpty, topic.publishers.refusal == nil, topic.window.isCommitted else {
            return false
        }
        byEpoch[topic.epoch] = nil
        if let place = topic.held { held.remove(place) }
        topic.held = nil
        // Views that are no more may be kept for a while, and refer to the log.
        topic.log.removeAll()
        return true
    }

    // What an input touched

    var hasDirty: Bool { !dirty.isEmpty }

    /// Messages came, or room was made, or its end: it settles before the input is dealt with.
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

    /// The shard is gone.
    func removeAll() {
        named = PartitionedDictionary()
        byEpoch = PartitionedDictionary()
        places = Slab()
        held = Slab()
        dirty = []
        busiest = BusiestTopics()
    }

    // Figures

    /// Topics whose publishers wait for room are more or fewer by so many. The time that they wait is counted up to
    /// now.
    func countBlocked(_ change: Int, now: UInt64) {
        assert(blocked + change >= 0)
        context.counters.blocked &+= UInt64(blocked) &* (now - Swift.min(blockedCounted, now))
        blockedCounted = now
        blocked += change
    }

    /// Messages came to a topic that has a name.
    func noteBusier(_ topic: Topic) { busiest.note(topic) }
}

// TopicDiscovery: which shared topics exist, for subscriptions to patterns. While there are some, the node lists the
// streams, and then hears what JetStream republishes of all topics. A topic that has messages for a pattern, and that
// the node does not follow, is reported to the shard that owns it, which joins it.
//
//     idle ──first pattern──▶ subscribed to fb.l.> ──▶ a list, a page at a time ──▶ listed ──after a while──▶ a list
//                                    ▲────────────────── the link is lost ──────────────┘
//
// `next` of a topic that is not followed is what subscriptions to patterns lack. A list that shows more, after the link
// was lost, or because a server did not pass on a message, leads to the same report.

import Bytes
import Core
import JetStream
import NATS
import Replay

final class TopicDiscovery {
    /// What the node knows of a topic.
    private struct Topic {
        var epoch: UInt64
        /// The first message that patterns lack. Counts only while the node does not follow the topic.
        var next: SequenceNumber
        /// The end of its stream.
        var end: SequenceNumber
        /// The last list that had it.
        var scan: UInt64
        /// When it was reported last; nil if it was not since it was followed.
        var reportedAt: UInt64?
    }

    /// A subscription to a pattern waits until the topics are known.
    private struct Search {
        let number: UInt64
        let pattern: TopicPattern
        let shard: Int
        let wantsNames: Bool
        let since: UInt64
    }

    private enum State {
        case idle
        /// To be listed then.
        case due(UInt64)
        /// The streams from `offset` on were asked for, with this number.
        case asked(number: UInt64, offset: Int, since: UInt64)
    }

    /// Nanoseconds for a page: the server waits some seconds for the leaders of all streams on it.
    private static let time = 8 * TopicFeed.second
    private static let retry = TopicFeed.second
    /// Nanoseconds after the first list: until then, servers learn that this node hears all topics.
    private static let secondScan = 2 * TopicFeed.second
    /// Nanoseconds between two lists; and at least so many times as long as one takes.
    private static let interval = 60 * TopicFeed.second
    private static let share: UInt64 = 100
    /// Names in one report.
    private static let slice = 256

    private var state = State.idle
    /// The shards that have a pattern.
    private var patterns = PatternTrie<Set<Int>>()
    private var topics: [String: Topic] = [:]
    private var searches: [Search] = []
    private var subscription: UInt64?
    /// The number of the current or last list, and when it was begun.
    private var scan: UInt64 = 0
    private var begunAt: UInt64 = 0
    /// Nanoseconds that the last list took.
    private var took: UInt64 = 0
    /// Whether streams are missing from the list that is being read, and how many there are.
    private var isIncomplete = false
    private var total = 0
    /// Whether there was a list, and one with all streams.
    private var isListed = false
    private var isComplete = false
    private var retryPause = TopicDiscovery.secondScan
    private var lastNumber: UInt64 = 0
    private unowned(unsafe) let upstream: Upstream

    init(_ upstream: Upstream) { self.upstream = upstream }

    /// The number of topics that are known.
    var count: Int { topics.count }

    // Patterns

    func search(_ number: UInt64, _ pattern: TopicPattern, wantsNames: Bool, from shard: Int) {
        patterns[pattern] = (patterns[pattern] ?? []).union([shard])
        let search = Search(
            number: number, pattern: pattern, shard: shard, wantsNames: wantsNames, since: upstream.now)
        guard !mayAnswer(search) else { return answer(search) }
        searches.append(search)
        if subscription == nil { start() } else { hurry() }
    }

    /// A shard has no subscription to a pattern any longer.
    func discard(_ pattern: TopicPattern, shard: Int) {
        guard var shards = patterns[pattern], shards.remove(shard) != nil else { return }
        patterns[pattern] = shards.isEmpty ? nil : shards
        let ended = searches.filter { $0.pattern == pattern && $0.shard == shard }
        searches.removeAll { $0.pattern == pattern && $0.shard == shard }
        for search in ended { answer(search) }
        guard patterns.isEmpty else { return }
        if let subscription { upstream.link.unsubscribe(subscription) }
        stop()
        topics = [:]
        (isListed, isComplete, retryPause) = (false, false, TopicDiscovery.secondScan)
    }

    private func answer(_ search: Search) {
        var names: [String] = []
        if search.wantsNames {
            // What the node has begun to follow may not be in a list yet. In an order that does not depend on hashing.
            let known = Array(topics.keys) + upstream.feeds.all.filter { !$0.isAbsent }.map(\.topic)
            names = Set(known.filter { search.pattern.matches($0) && upstream.owner(of: $0) == search.shard }).sorted()
        }
        repeat {
            let part = Array(names.prefix(TopicDiscovery.slice))
            names.removeFirst(part.count)
            upstream.report(.matched(search.number, names: part, isLast: names.isEmpty), to: search.shard)
        } while !names.isEmpty
    }

    /// Whether enough is known. What a topic retains must not be left out because its stream has no leader now, or
    /// because the link is lost.
    private func mayAnswer(_ search: Search) -> Bool {
        search.wantsNames ? isComplete && subscription != nil : isListed
    }

    private func answerAll() {
        let waiting = searches
        searches = waiting.filter { !mayAnswer($0) }
        for search in waiting where mayAnswer(search) { answer(search) }
    }

    // The link

    /// The link is ready.
    func start() {
        guard !patterns.isEmpty, upstream.link.isReady else { return }
        subscription = upstream.subscribeAll()
        // Clients that subscribe and cancel again and again must not make the servers list all streams each time.
        state = .due(begunAt == 0 ? upstream.now : Swift.max(upstream.now, begunAt + TopicDiscovery.retry))
        tick()
    }

    /// The link is lost.
    func stop() {
        subscription = nil
        state = .idle
    }

    /// When to call `tick`.
    var deadline: UInt64 {
        let next: UInt64 =
            switch state {
            case .idle: .max
            case .due(let time): time
            case .asked(_, _, let since): since + TopicDiscovery.time
            }
        return Swift.min(next, searches.first.map { $0.since + upstream.options.time } ?? .max)
    }

    func tick() {
        let now = upstream.now
        switch state {
        case .idle: break
        case .due(let time): if time <= now { list() }
        case .asked(_, _, let since): if since + TopicDiscovery.time <= now { state = .due(now) }
        }
        // No subscription waits for NATS for ever: with names it is refused, and without them it begins.
        let overdue = searches.prefix { $0.since + upstream.options.time <= now }
        searches.removeFirst(overdue.count)
        for search in overdue where !search.wantsNames { answer(search) }
        for search in overdue where search.wantsNames {
            upstream.log.unlisted()
            upstream.report(.unlisted(search.number, .unlisted(search.pattern)), to: search.shard)
        }
    }

    // The list

    private func list() {
        if subscription == nil { subscription = upstream.subscribeAll() }
        guard subscription != nil else { return state = .due(upstream.now + TopicDiscovery.retry) }
        scan += 1
        begunAt = upstream.now
        isIncomplete = false
        ask(from: 0)
    }

    private func ask(from offset: Int) {
        lastNumber += 1
        let wasWritten = upstream.askForStreams(from: offset, lastNumber)
        state =
            wasWritten
            ? .asked(number: lastNumber, offset: offset, since: upstream.now)
            : .due(upstream.now + TopicDiscovery.retry)
    }

    /// A page of the list.
    func answered(_ number: UInt64, _ message: NATSMessage) {
        guard case .asked(number, let offset, _) = state else { return }
        let page: StreamList
        do throws(JetStreamError) {
            page = try StreamList(message)
        } catch {
            if !error.isTemporary { upstream.log.refused(error.sentence, topic: nil) }
            return state = .due(upstream.now + TopicDiscovery.retry)
        }
        for stream in page.streams { note(stream) }
        // A stream that was deleted meanwhile moves another one to a page that was read already.
        isIncomplete = isIncomplete || page.missing > 0 || (offset > 0 && page.total != total)
        total = page.total
        let count = page.streams.count + page.missing
        if count > 0, offset + count < total { return ask(from: offset + count) }
        finish()
    }

    private func finish() {
        let now = upstream.now
        took = now - begunAt
        let pause = Swift.max(TopicDiscovery.interval, TopicDiscovery.share * took)
        // The second list comes soon, and so do those after one that is not complete, at first.
        state = .due(now + (retryPause < TopicDiscovery.interval ? retryPause : pause))
        let isEveryStreamKnown = isComplete && !isIncomplete
        retryPause = isEveryStreamKnown ? TopicDiscovery.interval : Swift.min(2 * retryPause, TopicDiscovery.interval)
        isListed = true
        isComplete = isComplete || !isIncomplete
        if !isIncomplete { topics = topics.filter { $0.value.scan == scan } }
        answerAll()
        if !searches.isEmpty { hurry() }
    }

    /// Subscriptions wait for the next list.
    private func hurry() {
        guard case .due(let time) = state else { return }
        state = .due(Swift.min(time, begunAt + took + Swift.max(TopicDiscovery.secondScan, took)))
    }

    private func note(_ stream: StreamInfo) {
        guard let epoch = SharedNames.epoch(ofStream: stream.name), let name = stream.metadata[SharedNames.topicKey],
            stream.subjects.contains(SharedNames.published(name))
        else { return }
        // The feed looked for the topic before it was created.
        if let feed = upstream.feeds[name], feed.isAbsent { feed.wake(now: upstream.now) }
        let end = SequenceNumber(stream.lastSequence + 1)
        var topic = topics[name] ?? new(epoch, at: end)
        if topic.epoch != epoch {
            // Of two that were created at once, the lower one counts.
            guard topic.scan < scan || epoch < topic.epoch else { return }
            topic = new(epoch, at: end)
        }
        topic.scan = scan
        topic.end = Swift.max(topic.end, end)
        if shards(name).isEmpty { topic.next = topic.end } else { reportIfBehind(name, &topic) }
        topics[name] = topic
    }

    /// A topic that was not known. After the first complete list it is new, and patterns lack all of it.
    private func new(_ epoch: UInt64, at end: SequenceNumber) -> Topic {
        Topic(epoch: epoch, next: isComplete ? SequenceNumber(1) : end, end: end, scan: scan, reportedAt: nil)
    }

    // Messages

    /// A live message of any topic.
    func heard(_ message: NATSMessage) {
        guard message.subscription == subscription, let name = SharedNames.topic(ofLive: message.subject),
            upstream.feeds[name] == nil, let live = try? JetStreamMessage(message),
            let epoch = SharedNames.epoch(ofStream: live.stream.text)
        else { return }
        let sequence = SequenceNumber(live.sequence)
        var topic = topics[name] ?? new(epoch, at: sequence)
        if topic.epoch != epoch { topic = new(epoch, at: sequence) }
        topic.scan = scan
        let hadAll = topic.next == topic.end
        topic.end = Swift.max(topic.end, sequence.advanced(by: 1))
        switch live.headers.flatMap({ SharedEnd.control($0) }) {
        case "deleted": return topics[name] = nil
        case nil: if shards(name).isEmpty { topic.next = topic.end } else { reportIfBehind(name, &topic) }
        default: if hadAll { topic.next = topic.end }
        }
        topics[name] = topic
    }

    private func shards(_ name: String) -> Set<Int> {
        var found: Set<Int> = []
        patterns.forEachMatch(name) { found.formUnion($0) }
        return found
    }

    /// Reports a topic to its owner if patterns lack messages of it.
    private func reportIfBehind(_ name: String, _ topic: inout Topic) {
        guard topic.next < topic.end, upstream.feeds[name] == nil else { return }
        if let last = topic.reportedAt, upstream.now < last + TopicFeed.second { return }
        let owner = upstream.owner(of: name)
        guard shards(name).contains(owner) else { return }
        topic.reportedAt = upstream.now
        upstream.report(.heard(name), to: owner)
    }

    // Topics that the node follows

    /// A topic is followed now. Its owner learns from where patterns lack its messages.
    func joined(_ feed: TopicFeed) {
        let known = topics[feed.topic].flatMap { $0.epoch == feed.epoch ? $0.next : nil }
        guard let first = known ?? (isComplete ? SequenceNumber(1) : nil) else { return }
        upstream.report(.followed(feed.use, from: first), to: feed.shard)
    }

    /// A topic is not followed any longer.
    /// - Parameters:
    ///   - next: the first message that its owner does not have; nil if it was not joined.
    ///   - end: of what is known of its stream.
    func left(_ name: String, epoch: UInt64?, at next: SequenceNumber?, end: SequenceNumber) {
        guard isListed, let epoch else { return }
        var topic = topics[name] ?? new(epoch, at: end)
        if topic.epoch != epoch { topic = new(epoch, at: end) }
        // It may have been left while it was being joined, before what patterns lack was read.
        topic.next = Swift.max(topic.next, next ?? topic.next)
        topic.end = Swift.max(topic.end, end)
        topic.reportedAt = nil
        reportIfBehind(name, &topic)
        topics[name] = topic
    }
}

// ClusterNode: a node of a cluster, without its shards: an `Upstream` that is connected to a model of NATS. It plays
// the shards' part: it uses topics, publishes, and passes what is reported to the journal.

import Bytes
import Core
import JetStreamModel
import Replay
import Upstream

final class ClusterNode: ClusterMember {
    /// A topic that the node uses.
    struct Follow {
        let use: TopicUse
        var epoch: UInt64 = 0
        var next: SequenceNumber?
        var isCurrent = false
        var isOver = false
    }

    /// Exchanges at one moment, in which nothing is late.
    private static let mostExchanges = 20_000

    let name: String
    private let cluster: ModelCluster
    private let journal: ClusterJournal
    private let seed: UInt64
    private(set) var link: ModelLink
    private(set) var follows: [String: Follow] = [:]
    /// Publishes without an answer, and ends.
    private(set) var waiting: [PublishTicket: ClusterMessage] = [:]
    private var ends: Set<PublishTicket> = []
    private var numbers: UInt64 = 0

    init(_ name: String, _ cluster: ModelCluster, _ journal: ClusterJournal, seed: UInt64, now: UInt64) {
        self.name = name
        self.cluster = cluster
        self.journal = journal
        self.seed = seed
        link = ModelLink(name, cluster, shards: 1, seed: seed, now: now)
    }

    private var upstream: Upstream { link.upstream }

    var description: String {
        let topics = follows.values.map {
            "'\($0.use.topic)' of \($0.epoch) before \($0.next?.value ?? 0)\($0.isCurrent ? "" : ", joining")"
        }
        return "\(name): \(waiting.count) publishes and \(ends.count) ends wait, \(topics)"
    }

    var isAtRest: Bool { waiting.isEmpty && ends.isEmpty }

    private func number() -> UInt64 {
        numbers += 1
        return numbers
    }

    // Acts

    func join(_ topic: String, retain: Int, now: UInt64) {
        guard follows[topic] == nil else { return }
        let use = TopicUse(topic: topic, number: number())
        follows[topic] = Follow(use: use)
        upstream.handle(
            [.join(use, Retention(messages: retain, bytes: 1 << 30, age: 0))], from: 0, now: now)
    }

    /// Nobody uses the topic here any longer. What waits stays unanswered.
    func leave(_ topic: String, now: UInt64) {
        guard let follow = follows.removeValue(forKey: topic) else { return }
        discard { $0 == topic }
        upstream.handle([.leave(follow.use)], from: 0, now: now)
    }

    func publish(_ message: ClusterMessage, chain: PublishTicket?, now: UInt64) {
        guard let follow = follows[message.topic], !follow.isOver else { return }
        let ticket = PublishTicket(number())
        waiting[ticket] = message
        journal.sent(message)
        Array(message.text.utf8).withUnsafeBytes { payload in
            let publish =
                message.number.map {
                    SharedPublish(
                        use: follow.use, ticket: ticket, chain: chain, publisher: [0] + message.publisher.utf8,
                        number: $0, metadata: nil, payload: payload)
                } ?? SharedPublish(use: follow.use, ticket: ticket, chain: chain, metadata: nil, payload: payload)
            upstream.handle([.publish(publish)], from: 0, now: now)
        }
    }

    func end(_ topic: String, _ end: SharedEnd, now: UInt64) {
        // Like a shard, it requests one end at a time.
        guard let follow = follows[topic], follow.isCurrent, !follow.isOver || end == .deleted, ends.isEmpty else {
            return
        }
        let ticket = PublishTicket(number())
        ends.insert(ticket)
        upstream.handle([.end(follow.use, ticket, end)], from: 0, now: now)
    }

    func restart(now: UInt64) {
        link.disconnect()
        discard { _ in true }
        follows = [:]
        link = ModelLink(name, cluster, shards: 1, seed: seed &+ number() &* 7919, now: now)
    }

    private func discard(_ isDiscarded: (String) -> Bool) {
        for (ticket, message) in waiting where isDiscarded(message.topic) { waiting[ticket] = nil }
        ends = []
    }

    /// Exchanges bytes and reports until there are none.
    func run(now: UInt64) {
        var exchanges = 0
        while exchanges < ClusterNode.mostExchanges, link.exchange(now: now) { exchanges += 1 }
        journal.referee.expect(
            exchanges < ClusterNode.mostExchanges, "\(name) and NATS exchange messages without end")
        upstream.takeReports { reports, _ in for report in reports { take(report) } }
        _ = upstream.takeLog()
    }

    // Reports

    private func take(_ report: UpstreamReport) {
        switch report {
        case .joined(let use, let epoch, let next):
            guard follows[use.topic]?.use == use else { return }
            journal.referee.expect(follows[use.topic]?.next == nil, "\(name) joins '\(use.topic)' twice")
            follows[use.topic]?.epoch = epoch
            follows[use.topic]?.next = next
        case .current(let use, _): if follows[use.topic]?.use == use { follows[use.topic]?.isCurrent = true }
        case .absent, .found, .followed, .heard, .matched, .unlisted: break
        case .messages(let use, let batch):
            guard follows[use.topic]?.use == use else { return }
            batch.forEach(lost: { lose(upTo: $0, of: use.topic) }) { item, _, payload in
                take(item, payload.text, of: use.topic)
            }
        case .duplicate(_, let ticket, let last):
            if let message = waiting.removeValue(forKey: ticket) { journal.duplicate(message, last: last.value) }
        case .refused(_, let ticket, let refusal):
            ends.remove(ticket)
            if let message = waiting.removeValue(forKey: ticket) { journal.refused(message, "\(refusal)") }
        case .ended(let use, let end, _):
            guard follows[use.topic]?.use == use else { return }
            ends = []
            if end == .deleted {
                discard { $0 == use.topic }
                follows[use.topic] = nil
            } else {
                follows[use.topic]?.isOver = true
                journal.ended(use.topic, follows[use.topic]?.epoch ?? 0, end)
            }
        case .left(let use, _):
            guard follows[use.topic]?.use == use else { return }
            ends = []
            follows[use.topic] = nil
        }
    }

    private func lose(upTo end: SequenceNumber, of topic: String) {
        guard let next = follows[topic]?.next, end > next else { return }
        journal.lost(next.value..<end.value, of: follows[topic]?.epoch ?? 0)
        follows[topic]?.next = end
    }

    private func take(_ item: FeedBatch.Item, _ text: String, of topic: String) {
        guard let follow = follows[topic], let next = follow.next else {
            return journal.referee.fail("\(name) receives messages of '\(topic)' before it has joined")
        }
        journal.referee.expect(
            item.sequence >= next, "\(name) receives \(item.sequence) of '\(topic)' again: \(next) is next")
        journal.referee.expect(!follow.isOver, "\(name) receives \(item.sequence) of '\(topic)' after its end")
        journal.skipped(next.value..<item.sequence.value, of: follow.epoch)
        follows[topic]?.next = item.sequence.advanced(by: 1)
        journal.received(text, at: item.sequence.value, of: follow.epoch)
        guard let ticket = item.ticket, let message = waiting.removeValue(forKey: ticket) else { return }
        journal.referee.expect(message.text == text, "\(name) takes \(text) for its own \(message.text)")
        journal.accepted(message, at: item.sequence.value, of: follow.epoch)
    }
}

// Upstream: the node's part in NATS JetStream, without I/O. It follows the shared topics that the shards use and
// publishes their messages, over one connection. The driver connects its sockets, passes on requests of the shards, and
// takes the reports for each of them.
//
//     shards ── requests ──▶ Upstream ── bytes ──▶ socket to NATS
//            ◀── reports ───          ◀── bytes ──

import Bytes
import Core
import JetStream
import NATS
import Replay

/// How a node uses JetStream; times are nanoseconds.
public struct UpstreamOptions: Sendable {
    public var servers: NATSServers
    public var connection: NATSOptions
    /// Copies of each new stream.
    public var replicas = 1
    /// How long JetStream may be unreachable before subscriptions end and publishes are refused.
    public var time: UInt64 = 30 * TopicFeed.second
    /// Shared topics that are followed at the same time.
    public var maxTopics = 1_000

    public init(servers: NATSServers, connection: NATSOptions) {
        self.servers = servers
        self.connection = connection
    }
}

public final class Upstream {
    /// How long a publish waits for its acknowledgement before it is sent again.
    private static let publishTime = 2 * TopicFeed.second

    let options: UpstreamOptions
    let link: UpstreamLink
    /// This node's name in message ids and in the subject for answers.
    private let node: String
    let inbox: String
    private var random: RandomSource
    private(set) var now: UInt64
    var feeds: [String: TopicFeed] = [:]
    var routes = FeedRoutes()
    var calls = Calls()
    /// Feeds with messages to report.
    private var fresh: [TopicFeed] = []
    /// Feeds with messages for which the connection had no room.
    private var stalled: [TopicFeed] = []
    private var reports: [[UpstreamReport]]
    private var headers = NATSHeaderBlock()
    /// Since when there is no connection; nil while there is one.
    var lostSince: UInt64?
    private var nextCheck: UInt64 = 0
    var log = UpstreamLog()

    /// - Parameter seed: from the operating system. Epochs and the node's name are as hard to guess.
    public init(_ options: UpstreamOptions, shards: Int, seed: UInt64, now: UInt64) {
        self.options = options
        self.now = now
        random = RandomSource(seed: seed)
        node = String(random.next(), radix: 36)
        inbox = "_INBOX.\(String(random.next(), radix: 36))"
        link = UpstreamLink(options.servers, options.connection, seed: random.next(), now: now)
        reports = Array(repeating: [], count: shards)
        lostSince = now
        link.delegate = self
    }

    // For the driver: the socket

    /// What to do with the socket now.
    public func takeActions() -> [UpstreamAction] { link.takeActions() }
    /// The bytes to send. Valid until the next call.
    public var pending: UnsafeRawBufferPointer { link.pending }

    /// The socket has taken the first `count` bytes of `pending`.
    public func sent(_ count: Int, now: UInt64) {
        self.now = now
        link.sent(count)
        guard !stalled.isEmpty else { return }
        let feeds = stalled
        stalled = []
        for feed in feeds { send(outbox: feed, now: now) }
    }

    public func opened(now: UInt64) {
        self.now = now
        link.opened(now: now)
    }

    public func secured(now: UInt64) {
        self.now = now
        link.secured(now: now)
    }

    public func received(_ bytes: UnsafeRawBufferPointer, now: UInt64) {
        self.now = now
        link.received(bytes, now: now)
    }

    /// The socket is closed, or could not be connected.
    public func closed(_ reason: String, now: UInt64) {
        self.now = now
        link.closed(reason, now: now)
    }

    /// When to call `tick`.
    public var deadline: UInt64 {
        Swift.min(link.deadline ?? .max, feeds.isEmpty ? .max : Swift.max(nextCheck, now))
    }

    public func tick(now: UInt64) {
        self.now = now
        link.tick(now: now)
        guard now >= nextCheck else { return }
        nextCheck = now + TopicFeed.second / 10
        while let call = calls.takeOverdue(now: now) {
            if call.round == call.feed.round { call.feed.callFailed(now: now) }
        }
        for feed in Array(feeds.values) {
            if feed.wakeAt <= now { feed.wake(now: now) }
            checkOutbox(of: feed)
        }
        if let since = lostSince, now - Swift.min(since, now) >= options.time {
            for feed in Array(feeds.values) { feed.leave(.upstreamUnavailable) }
        }
    }

    /// What to write to the log.
    public func takeLog() -> [LogRecord] { log.take() }

    // For the driver: the shards

    public func handle(_ requests: [UpstreamRequest], from shard: Int, now: UInt64) {
        self.now = now
        for request in requests {
            switch request {
            case .join(let use, let retention): join(use, retention, from: shard)
            case .leave(let use): if let feed = feeds[use.topic], feed.use == use { remove(feed) }
            case .publish(let publish): take(publish, from: shard)
            }
        }
    }

    /// The reports for each shard, by its index.
    public func takeReports(_ deliver: (_ reports: [UpstreamReport], _ shard: Int) -> Void) {
        for feed in fresh { flush(feed) }
        fresh.removeAll(keepingCapacity: true)
        for shard in reports.indices where !reports[shard].isEmpty {
            var list: [UpstreamReport] = []
            swap(&list, &reports[shard])
            deliver(list, shard)
        }
    }

    private func join(_ use: TopicUse, _ retention: Retention, from shard: Int) {
        if let since = lostSince, now - Swift.min(since, now) >= options.time {
            return report(.left(use, .upstreamUnavailable), to: shard)
        }
        guard feeds.count < options.maxTopics else {
            return report(.left(use, .tooManySharedTopics(options.maxTopics)), to: shard)
        }
        if let former = feeds[use.topic] { remove(former) }
        let feed = TopicFeed(use, shard: shard, retention, self)
        feeds[use.topic] = feed
        feed.start(now: now)
    }

    func remove(_ feed: TopicFeed) {
        feed.end()
        feeds[feed.topic] = nil
    }

    private func take(_ publish: SharedPublish, from shard: Int) {
        guard let feed = feeds[publish.use.topic], feed.use == publish.use else {
            return report(.refused(publish.use, publish.ticket, .upstreamUnavailable), to: shard)
        }
        feed.outbox.add(publish, now: now)
        if case .absent = feed.state { feed.wake(now: now) }
        send(outbox: feed, now: now)
    }

    // Reports

    func report(_ report: UpstreamReport, to shard: Int) { reports[shard].append(report) }

    func noteFresh(_ feed: TopicFeed) { if fresh.last !== feed { fresh.append(feed) } }

    /// Reports a feed's messages.
    func flush(_ feed: TopicFeed) {
        let batch = feed.takeFresh()
        if !batch.isEmpty { report(.messages(feed.use, batch), to: feed.shard) }
    }

    // Publishing

    /// Sends what waits in a feed's outbox, as far as the connection has room.
    func send(outbox feed: TopicFeed, now: UInt64) {
        guard link.isReady, feed.mayPublish, let stream = feed.stream else { return }
        while let message = feed.outbox.nextReady() {
            let ticket = message.publish.ticket
            do throws(NATSError) {
                guard try send(message.publish, to: stream) else {
                    if stalled.last !== feed { stalled.append(feed) }
                    return
                }
                feed.outbox.sent(ticket, now: now)
            } catch {
                feed.refuse(ticket, Refusal.upstream(error))
            }
        }
    }

    private func send(_ publish: SharedPublish, to stream: String) throws(NATSError) -> Bool {
        let number = publish.ticket.value
        return try publish.withParts { metadata, payload in
            Result { () throws(NATSError) in
                try Envelope.write(id: "\(node).\(number)", stream: stream, metadata: metadata, into: &headers)
                return try link.publish(
                    SharedNames.publish(publish.use.topic), reply: "\(inbox).p.\(number).\(publish.use.topic)", headers,
                    payload
                )
            }
        }.get()
    }

    /// The publish of this node with that message id; nil if another node published it.
    func ticket(ofID id: UnsafeRawBufferPointer) -> PublishTicket? {
        let prefix = node.utf8.count + 1
        guard id.count > prefix, id.prefix(prefix - 1).elementsEqual(node.utf8) else { return nil }
        return id.slice(prefix..<id.count).decimal.map { PublishTicket($0) }
    }

    func acknowledged(_ ticket: PublishTicket, _ feed: TopicFeed, _ message: NATSMessage) {
        do throws(JetStreamError) {
            let answer = try PublishAnswer(message)
            let sequence = SequenceNumber(answer.sequence)
            feed.outbox.acknowledged(ticket, at: sequence)
        } catch {
            // It is sent again in time. While two nodes have created the topic's stream, the one that is given up
            // answers, too.
            if error.isTemporary || error.kind == .wrongStream { return }
            feed.refuse(ticket, Refusal.upstream(error))
        }
    }

    /// Sends again what was not acknowledged, and refuses what has waited too long.
    private func checkOutbox(of feed: TopicFeed) {
        guard !feed.outbox.isEmpty else { return }
        if now >= Upstream.publishTime { feed.outbox.resend(sentBefore: now - Upstream.publishTime) }
        if now >= options.time {
            for message in feed.outbox.overdue(since: now - options.time) {
                feed.refuse(message.publish.ticket, message.wasSent ? .upstreamOutcomeUnknown : .upstreamUnavailable)
            }
        }
        send(outbox: feed, now: now)
    }

    // Requests of feeds

    func subscribe(_ subject: String, for feed: TopicFeed) -> UInt64? {
        let subscription = routes.nextSubscription()
        guard link.subscribe(subject, subscription) else { return nil }
        routes.add(feed, subscription: subscription)
        return subscription
    }

    func unsubscribe(_ subscription: UInt64) {
        routes.remove(subscription: subscription)
        link.unsubscribe(subscription)
    }

    func flush(for feed: TopicFeed) -> UInt64? {
        guard let number = link.flush() else { return nil }
        routes.add(feed, flush: number)
        return number
    }

    /// Returns false if the request was not written.
    func call(_ request: JetStreamRequest, _ call: Calls.Call, now: UInt64) -> Bool {
        let number = calls.add(call, now: now)
        let wasWritten = request.payload.withUnsafeBytes { payload in
            (try? link.publish(request.subject, reply: "\(inbox).c.\(number)", nil, payload)) ?? false
        }
        if !wasWritten { calls.remove(number) }
        return wasWritten
    }

    /// Deletes a stream that this node has created and that nobody uses.
    func delete(_ stream: String) {
        let request = JetStreamRequest.delete(stream)
        _ = request.payload.withUnsafeBytes { try? link.publish(request.subject, reply: nil, nil, $0) }
    }

    func newEpoch() -> UInt64 { Swift.max(1, random.next()) }

    func configuration(of topic: String, epoch: UInt64, _ retention: Retention) -> StreamConfiguration {
        var configuration = StreamConfiguration(
            name: SharedNames.stream(epoch), subjects: [SharedNames.published(topic)])
        configuration.republish = .init(source: SharedNames.published(topic), destination: SharedNames.live(topic))
        configuration.replicas = options.replicas
        configuration.maxMessages = retention.messages
        configuration.maxBytes = retention.bytes
        configuration.maxAge = Int64(clamping: retention.age)
        configuration.metadata = [SharedNames.topicKey: topic]
        return configuration
    }
}

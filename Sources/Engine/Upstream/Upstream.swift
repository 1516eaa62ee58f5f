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
    let options: UpstreamOptions
    let link: UpstreamLink
    /// This node's name in message ids and in the subject for answers.
    private let node: String
    let inbox: String
    private var random: RandomSource
    private(set) var now: UInt64
    private(set) var feeds = FeedTable()
    var routes = FeedRoutes()
    var calls = Calls()
    /// Feeds with messages to report.
    private var fresh: [TopicFeed] = []
    /// Feeds with messages for which the connection had no room.
    private var stalled: [TopicFeed] = []
    private var reports: [[UpstreamReport]]
    private var headers = NATSHeaderBlock()
    var check = JetStreamCheck()
    private(set) var discovery: TopicDiscovery!
    /// Since when there is no connection, or JetStream does not answer; nil while it does.
    var lostSince: UInt64?
    private var nextCheck: UInt64 = 0
    var log = UpstreamLog()
    var notes = UpstreamNotes()

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
        discovery = TopicDiscovery(self)
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
        for feed in feeds { feed.publishing.send(now: now) }
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
        Swift.min(
            link.deadline ?? .max, check.deadline, discovery.deadline,
            feeds.isEmpty ? .max : Swift.max(nextCheck, now))
    }

    public func tick(now: UInt64) {
        self.now = now
        link.tick(now: now)
        checkJetStream(now: now)
        discovery.tick()
        guard now >= nextCheck else { return }
        nextCheck = now + TopicFeed.second / 10
        while let call = calls.takeOverdue(now: now) {
            callFailed(call)
        }
        for feed in feeds.all {
            if feed.wakeAt <= now { feed.wake(now: now) }
            feed.publishing.check(now: now)
        }
        if let since = lostSince, now - Swift.min(since, now) >= options.time {
            for feed in feeds.all { feed.leave(.upstreamUnavailable) }
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
            case .leave(let use, let next):
                if let feed = feeds[use.topic], feed.use == use { remove(feed, at: next) }
            case .search(let number, let pattern, let wantsNames):
                discovery.search(number, pattern, wantsNames: wantsNames, from: shard)
            case .discard(let pattern): discovery.discard(pattern, shard: shard)
            case .publish(let publish):
                publishing(publish.use, publish.ticket, from: shard) { $0.add(publish, now: now) }
            case .end(let use, let ticket, let end):
                publishing(use, ticket, from: shard) { $0.add(end, ticket, now: now) }
            case .find(let use, let ticket, let publisher):
                publishing(use, ticket, from: shard) { $0.addLookup(ticket, of: publisher, now: now) }
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
        feeds.add(feed)
        feed.start(now: now)
    }

    /// - Parameter next: the first message that the topic's owner does not have; nil if it has none.
    func remove(_ feed: TopicFeed, at next: SequenceNumber? = nil) {
        let end = feed.knownEnd
        // Control messages are not reported, so the owner does not know of those at the end.
        let next = next.map { $0 >= feed.itemsEnd ? Swift.max($0, feed.next ?? $0) : $0 }
        feed.close()
        feeds.remove(feed.topic)
        discovery.left(feed.topic, epoch: feed.epoch, at: next, end: end)
    }

    /// Passes a request to its topic's feed.
    private func publishing(
        _ use: TopicUse, _ ticket: PublishTicket, from shard: Int, _ add: (FeedPublishing) -> Void
    ) {
        guard let feed = feeds[use.topic], feed.use == use else {
            return report(.refused(use, ticket, .upstreamUnavailable), to: shard)
        }
        add(feed.publishing)
        if case .absent = feed.state { feed.wake(now: now) }
        feed.publishing.send(now: now)
    }

    // Reports

    func report(_ report: UpstreamReport, to shard: Int) {
        notes.note(report)
        reports[shard].append(report)
    }

    func noteFresh(_ feed: TopicFeed) { if fresh.last !== feed { fresh.append(feed) } }

    /// Reports a feed's messages.
    func flush(_ feed: TopicFeed) {
        let batch = feed.takeFresh()
        if !batch.isEmpty { report(.messages(feed.use, batch), to: feed.shard) }
    }

    // Publishing

    /// The feed goes on when the connection has room.
    func noteStalled(_ feed: TopicFeed) { if stalled.last !== feed { stalled.append(feed) } }

    /// Publishes a message, whose acknowledgement names its ticket. Returns false if the connection has no room now.
    /// - Parameter expected: the sequence of the publisher's last message; nil if the message is not numbered.
    func send(
        _ publish: SharedPublish, to stream: String, _ token: String, expected: SequenceNumber?
    ) throws(NATSError) -> Bool {
        try publish.withParts { metadata, payload in
            Result { () throws(NATSError) in
                try Envelope.write(
                    id: id(of: publish.ticket), stream: stream, number: publish.number, expected: expected,
                    metadata: metadata, into: &headers)
                return try send(payload, to: publish.use.topic, token, publish.ticket)
            }
        }.get()
    }

    /// Publishes the control message that ends a topic. Returns false if the connection has no room now.
    func send(
        _ end: SharedEnd, _ ticket: PublishTicket, of topic: String, to stream: String
    ) throws(NATSError) -> Bool {
        try end.write(id: id(of: ticket), stream: stream, into: &headers)
        return try Array(end.reason.utf8).withUnsafeBytes { reason in
            Result { () throws(NATSError) in try send(reason, to: topic, SharedNames.unnumbered, ticket) }
        }.get()
    }

    /// Publishes a control message that only shows what sequence it gets. Returns false if it was not written.
    func probe(_ feed: TopicFeed, _ stream: String, now: UInt64) -> Bool {
        let number = calls.add(Calls.Call(feed: feed, round: feed.round, purpose: .probe), now: now)
        do throws(NATSError) {
            headers.removeAll()
            try headers.append(SharedEnd.header, "probe")
            try headers.append("Nats-Msg-Id", "\(node).probe-\(number)")
            try headers.append("Nats-Expected-Stream", stream)
            let subject = SharedNames.publish(feed.topic)
            if try link.publish(subject, reply: "\(inbox).c.\(number)", headers, .init(start: nil, count: 0)) {
                return true
            }
        } catch {
            log.refused("\(error)", topic: feed.topic)
        }
        calls.remove(number)
        return false
    }

    private func send(
        _ payload: UnsafeRawBufferPointer, to topic: String, _ token: String, _ ticket: PublishTicket
    ) throws(NATSError) -> Bool {
        try link.publish(
            SharedNames.publish(topic, token: token), reply: "\(inbox).p.\(ticket.value).\(topic)", headers, payload)
    }

    private func id(of ticket: PublishTicket) -> String { "\(node).\(ticket.value)" }

    /// The publish of this node with that message id; nil if another node published it.
    func ticket(ofID id: UnsafeRawBufferPointer) -> PublishTicket? {
        let prefix = node.utf8.count + 1
        guard id.count > prefix, id.prefix(prefix - 1).elementsEqual(node.utf8) else { return nil }
        return id.slice(prefix..<id.count).decimal.map { PublishTicket($0) }
    }

    /// Calls `body` with a message's parts, unless it is a control message.
    func item(
        of message: JetStreamMessage,
        _ body: (FeedBatch.Item, _ metadata: UnsafeRawBufferPointer?, _ payload: UnsafeRawBufferPointer) -> Void
    ) {
        guard let headers = message.headers, let envelope = Envelope(headers) else { return }
        let item = FeedBatch.Item(
            sequence: SequenceNumber(message.sequence), timestamp: message.time,
            ticket: envelope.id.flatMap { ticket(ofID: $0) })
        guard let encoded = envelope.metadata else { return body(item, nil, message.payload) }
        // Metadata that cannot be decoded is not this node's.
        guard let metadata = Base64.decode(encoded, .standard) else { return body(item, nil, message.payload) }
        metadata.withUnsafeBytes { body(item, $0, message.payload) }
    }

    func ticket(of end: StreamEnd) -> PublishTicket? { Array(end.id.utf8).withUnsafeBytes { ticket(ofID: $0) } }

    func ticket(of message: JetStream.StoredMessage) -> PublishTicket? {
        message.withMessage { $0.headers.flatMap(Envelope.init)?.id.flatMap { ticket(ofID: $0) } }
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

    /// Subscribes to the live messages of all topics.
    func subscribeAll() -> UInt64? {
        let subscription = routes.nextSubscription()
        return link.subscribe(SharedNames.allLive, subscription) ? subscription : nil
    }

    /// Asks for a page of the list of streams. Returns false if the request was not written.
    func askForStreams(from offset: Int, _ number: UInt64) -> Bool {
        let request = JetStreamRequest.streams(withSubjects: SharedNames.allPublished, offset: offset)
        let reply = "\(inbox).l.\(number)"
        return request.payload.withUnsafeBytes { try? link.publish(request.subject, reply: reply, nil, $0) } ?? false
    }

    /// The shard that owns a topic.
    func owner(of topic: String) -> Int { Shard.owner(of: topic, among: reports.count) }

    func flush(for feed: TopicFeed) -> UInt64? {
        guard let number = link.flush() else { return nil }
        routes.add(feed, flush: number)
        return number
    }

    /// Returns false if the request was not written.
    func call(_ request: JetStreamRequest, _ feed: TopicFeed, _ purpose: Calls.Purpose, now: UInt64) -> Bool {
        let number = calls.add(Calls.Call(feed: feed, round: feed.round, purpose: purpose), now: now)
        let wasWritten = request.payload.withUnsafeBytes { payload in
            (try? link.publish(request.subject, reply: "\(inbox).c.\(number)", nil, payload)) ?? false
        }
        if !wasWritten { calls.remove(number) }
        return wasWritten
    }

    /// A call was not answered in time.
    private func callFailed(_ call: Calls.Call) {
        switch call.purpose {
        case .number(let ticket), .publisher(let ticket): call.feed.publishing.lookupFailed(ticket, now: now)
        default: if call.round == call.feed.round { call.feed.callFailed(now: now) }
        }
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

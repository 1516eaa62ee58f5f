// UpstreamRequests: what shards exchange with the upstream, which connects them to NATS JetStream. A shared topic's
// messages are in a stream there, and every node that uses the topic follows that stream. A shard passes requests to
// its driver in `Effects.upstream`, in order. The driver reports back with `Shard.upstream`.
//
//     shard ── join, publish, end, find, leave, search, discard ──▶ upstream
//           ◀── joined, followed, absent, messages, current, duplicate, found, refused, ended, left, heard, matched,
//               unlisted ──

import Replay

/// Identifies a publish of this node to a shared topic. None is used twice while the broker runs.
public struct PublishTicket: Hashable, Sendable {
    public let value: UInt64

    public init(_ value: UInt64) { self.value = value }

    /// - Parameter number: below 2⁴⁸.
    init(shard: Int, number: UInt64) { value = UInt64(shard) << 48 | number }
}

/// One use of a topic by this node, from `join` to `leave`. A topic that is used again has another one, so that late
/// reports about the former use are recognized.
public struct TopicUse: Hashable, Sendable {
    public let topic: String
    public let number: UInt64

    package init(topic: String, number: UInt64) {
        self.topic = topic
        self.number = number
    }
}

/// A shard's request to the upstream.
public enum UpstreamRequest: Sendable {
    /// Follow a topic, and report the newest messages first, as many as it retains.
    case join(TopicUse, Retention)
    /// The topic is no longer used here, and its owner has the messages before `at`; nil if it has none.
    case leave(TopicUse, at: SequenceNumber? = nil)
    case publish(SharedPublish)
    /// End or delete the topic, after what this node has published to it. It is reported as `ended` or `refused`.
    case end(TopicUse, PublishTicket, SharedEnd)
    /// Look up the last message of a publisher. It is reported as `found` or `refused`.
    case find(TopicUse, PublishTicket, publisher: [UInt8])
    /// A subscription to a pattern begins. Once the shared topics are known, that is reported as `matched` with this
    /// number, or as `unlisted` if that takes too long; and from then on, topics that match and have messages are
    /// reported as `heard`.
    case search(UInt64, TopicPattern, wantsNames: Bool)
    /// The shard has no subscription to a pattern any longer.
    case discard(TopicPattern)
}

/// How a shared topic ends, on all nodes.
public enum SharedEnd: Equatable, Sendable {
    case completed
    case failed(String)
    case deleted

    /// Why messages to such a topic are refused.
    public func refusal(of topic: String) -> Refusal {
        switch self {
        case .completed: Refusal(.ended, "The topic '\(topic)' has completed; it takes no more messages.")
        case .failed(let reason):
            Refusal(.ended, "The topic '\(topic)' has failed (\(reason)); it takes no more messages.")
        case .deleted: Refusal(.topicFailed, "deleted")
        }
    }
}

/// What a numbered message means.
public enum SharedVerdict: Sendable {
    case next
    /// The topic has it.
    case duplicate
    case refused(Refusal)
}

/// A publisher's last message in a shared topic.
public struct SharedProgress: Equatable, Sendable {
    /// 1 or more.
    public var number: UInt64
    public var sequence: SequenceNumber

    public init(number: UInt64, sequence: SequenceNumber) {
        self.number = number
        self.sequence = sequence
    }
}

/// A message for a shared topic. The upstream reports it with the topic's other messages once it is in the stream, or
/// refuses it.
public struct SharedPublish: Sendable {
    public let use: TopicUse
    public let ticket: PublishTicket
    /// Messages of the same chain are published one after the other; if one is refused, so are those after it. Nil for
    /// a message that belongs to no chain.
    public let chain: PublishTicket?
    /// The message's number; nil if it has none. The upstream orders the messages of a publisher.
    public var number: UInt64? { numbered?.number }
    /// Identifies the publisher of a numbered message, and its user.
    public var publisher: [UInt8]? { numbered?.publisher.bytes }
    private let numbered: NumberedPublish?
    let message: MessageBatch

    /// The message's metadata, nil if it has none, and its payload.
    public func withParts<Result>(
        _ body: (_ metadata: UnsafeRawBufferPointer?, _ payload: UnsafeRawBufferPointer) -> Result
    ) -> Result { message.withFirst(body) }

    /// What the message means after its publisher's last one in the topic.
    /// - Parameter last: nil if the topic does not know the publisher.
    public func verdict(after last: SharedProgress?) -> SharedVerdict {
        guard let numbered else { return .next }
        let verdict = PublisherNumbers.verdict(on: numbered.number, last: last?.number ?? 0)
        if let refusal = verdict.refusal(of: numbered.publisher, use.topic) { return .refused(refusal) }
        return verdict == .duplicate ? .duplicate : .next
    }

    /// Bytes that it takes while it waits.
    public var size: Int { message.weight }

    init(
        use: TopicUse, ticket: PublishTicket, chain: PublishTicket?, numbered: NumberedPublish?,
        metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer
    ) {
        self.use = use
        self.ticket = ticket
        self.chain = chain
        self.numbered = numbered
        var message = MessageBatch()
        message.append(metadata: metadata, payload: payload)
        self.message = message
    }

    /// - Parameters:
    ///   - publisher: identifies the publisher of a numbered message.
    ///   - number: 1 or more.
    package init(
        use: TopicUse, ticket: PublishTicket, chain: PublishTicket?, publisher: [UInt8], number: UInt64,
        metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer
    ) {
        let numbered = NumberedPublish(publisher: PublisherKey(bytes: publisher), number: number)
        self.init(
            use: use, ticket: ticket, chain: chain, numbered: numbered, metadata: metadata, payload: payload)
    }

    package init(
        use: TopicUse, ticket: PublishTicket, chain: PublishTicket?, metadata: UnsafeRawBufferPointer?,
        payload: UnsafeRawBufferPointer
    ) {
        self.init(use: use, ticket: ticket, chain: chain, numbered: nil, metadata: metadata, payload: payload)
    }
}

/// What the upstream reports about a topic to the shard that owns it.
public enum UpstreamReport: Sendable {
    /// The topic's messages from `next` on follow. If the topic was joined before, `next` continues where it was.
    case joined(TopicUse, epoch: UInt64, next: SequenceNumber)
    /// After `joined`: subscriptions to patterns lack the messages from there on.
    case followed(TopicUse, from: SequenceNumber)
    case messages(TopicUse, FeedBatch)
    /// The topic does not exist yet. The first publish, of whatever node, creates it.
    case absent(TopicUse)
    /// All messages that the topic had when it was joined were reported. `wasEmpty`: it did not exist when it was
    /// looked for, so subscriptions that wait missed nothing.
    case current(TopicUse, wasEmpty: Bool)
    /// A publish, an end or a look-up has failed.
    case refused(TopicUse, PublishTicket, Refusal)
    /// The topic has a numbered message already. `last`: the last one of its publisher.
    case duplicate(TopicUse, PublishTicket, last: SequenceNumber)
    /// The last message of a publisher; nil if the topic does not know it.
    case found(TopicUse, PublishTicket, SharedProgress?)
    /// The topic has ended, for all nodes. `by`: the end that this node has requested, if it is that one.
    case ended(TopicUse, SharedEnd, by: PublishTicket?)
    /// The topic is not followed any longer: its subscriptions end, and its messages are refused, for this reason.
    case left(TopicUse, Refusal)
    /// A topic has messages for subscriptions to patterns, and this node does not follow it.
    case heard(String)
    /// The answer to `search`: all topics that match, if names were wanted, in one or more parts.
    case matched(UInt64, names: [String], isLast: Bool)
    /// The answer to `search` if names were wanted and the shared topics cannot be known now.
    case unlisted(UInt64, Refusal)
}

extension UpstreamReport {
    /// Bytes that it takes on its way to the shard.
    public var size: Int {
        switch self {
        case .messages(_, let batch): batch.size
        case .matched(_, let names, _): names.reduce(MessageBatch.envelope) { $0 + $1.utf8.count }
        case .joined, .followed, .absent, .current, .refused, .duplicate, .found, .ended, .left, .heard, .unlisted:
            MessageBatch.envelope
        }
    }
}

/// Consecutive items of a topic's stream.
public struct FeedBatch: Sendable {
    public struct Item: Sendable {
        public var sequence: SequenceNumber
        /// When JetStream stored the message, in ns since 1970.
        public var timestamp: Int64
        /// The publish of this node whose message it is; nil for messages of other nodes.
        public var ticket: PublishTicket?

        public init(sequence: SequenceNumber, timestamp: Int64, ticket: PublishTicket?) {
            self.sequence = sequence
            self.timestamp = timestamp
            self.ticket = ticket
        }
    }

    public private(set) var items: [Item] = []
    /// The items' messages.
    private(set) var messages = MessageBatch()

    public init() {}

    /// The messages up to `end` that are not in the batch are lost. They come before the item with index `place`.
    private var losses: [(place: Int, end: SequenceNumber)] = []

    /// The messages since the last item, up to `end`, are lost: JetStream does not have them any longer.
    public mutating func lose(upTo end: SequenceNumber) { losses.append((items.count, end)) }

    public var isEmpty: Bool { items.isEmpty && losses.isEmpty }
    /// Bytes of all messages.
    public var size: Int { messages.weight }

    public mutating func append(
        _ item: Item, metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer
    ) {
        items.append(item)
        messages.append(metadata: metadata, payload: payload)
    }

    /// Calls `body` with each item and its message, and `lost` where messages are lost, in order.
    public func forEach(
        lost: (_ end: SequenceNumber) -> Void,
        _ body: (Item, _ metadata: UnsafeRawBufferPointer?, _ payload: UnsafeRawBufferPointer) -> Void
    ) {
        var (index, next) = (0, 0)
        func lose() {
            while next < losses.count, losses[next].place <= index {
                lost(losses[next].end)
                next += 1
            }
        }
        messages.forEach { metadata, payload in
            lose()
            body(items[index], metadata, payload)
            index += 1
            return true
        }
        lose()
    }
}

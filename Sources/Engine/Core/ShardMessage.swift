// ShardMessage: the messages between shards. A topic lives with its owner; subscribers and publishers live with their
// connections. Messages from one shard to another stay in order.

import ForebayWire
import Replay

/// A message from one shard's engine to another's. The driver only forwards it.
public struct ShardMessage: Sendable {
    let content: Content

    /// Whether it is only handled correctly together with the next one, as in a batch: a view that is sent for a
    /// subscription to a pattern is removed again if nothing joins it.
    package var needsNext: Bool {
        if case .attached(_, let view) = content { view.followed != nil } else { false }
    }

    enum Content: Sendable {
        // From a subscriber's shard to a topic's owner
        case attach(name: String, shard: Int, Account?, ConnectionID)
        case detach(epoch: UInt64, shard: Int, ViewTotals)
        /// How many subscriptions wait for a shared topic, before it is attached.
        case waiting(Int, name: String, shard: Int)

        /// A subscription to a pattern asks for the topics that match.
        case match(PatternRequest)
        /// The shard has begun to answer a `match`.
        case matchBegun(ConnectionID)
        /// A subscription to a pattern has ended, and the shard has not answered its request completely.
        case withdraw(StreamKey)
        /// No subscription of the shard has this pattern any longer.
        case unmatch(TopicPattern, shard: Int)
        /// A subscription to a pattern needs the view of a topic that the shard has removed.
        case rejoin(epoch: UInt64, StreamKey)
        /// The shard has made that many of the views and cursors that `PatternLinks` counts.
        case made(Int, shard: Int)

        // From the owner to a subscriber's shard
        /// Topics that match the pattern of a subscription and have something for it, by epoch.
        case matched(Handle, PatternMatches)
        case attached(name: String, TopicSnapshot)
        case attachRefused(name: String, Refusal)
        case advance(epoch: UInt64, LogAdvance)

        // From a publisher's shard to the owner
        case publish(StreamKey, PublishRequest)
        case items(StreamKey, ConnectionID, MessageBatch)
        case frames(StreamKey, ConnectionID, FrameBatch)
        case publisherEnded(StreamKey, name: String, PublisherEnd)
        case fireAndForget(name: String, ConnectionID, shard: Int, MessageBatch, Account?)

        // From the owner to a publisher's shard
        case notice(StreamKey, PublisherNotice)
        /// Bytes of a connection's request for matching topics, which has been answered.
        case matchDone(ConnectionID, bytes: Int)
        /// Bytes of a connection's publishes and calls that the owner has processed.
        case processed(ConnectionID, bytes: Int)

        // Control calls and lists
        case call(StreamKey, ConnectionID, ControlRequest)
        case answer(StreamKey, Result<Description?, Refusal>)
        /// Credit for a plain HTTP stream, sent to the shard that its id names; answered like a call, without a result.
        case credit(StreamKey, SubscriptionID, UInt32, user: String?)
        case listPage(ListPage, for: Int)
        case listRows([Description], next: Int?)

        // Batched reports, and their confirmation
        case report(Report, from: Int)
        case reportHeard(by: Int)

        // The broker's own topics
        // Indirect: stored in place, the counters would make every message as large.
        indirect case stats(shard: Int, ShardCounters)
    }
}

/// A stream of a connection, identified by the connection's shard and the stream's handle there.
struct StreamKey: Hashable, Sendable {
    var shard: Int
    var handle: Handle
}

/// The state of a topic.
enum TopicState: Sendable {
    case live
    case completed
    case failed(String)
    /// A shared topic is not followed by this node any longer. It may continue on others.
    case left(Refusal)

    var isLive: Bool { if case .live = self { true } else { false } }
    /// Whether the topic has ended, wherever it is followed.
    var isEnd: Bool {
        switch self {
        case .live, .left: false
        case .completed, .failed: true
        }
    }

    var name: String {
        switch self {
        case .live: "live"
        case .completed: "completed"
        case .failed: "failed"
        case .left: "left"
        }
    }
}

/// What a shard needs to begin a view of a topic.
struct TopicSnapshot: Sendable {
    var epoch: UInt64
    var state: TopicState
    var head: SequenceNumber
    var end: SequenceNumber
    var charged: UInt64
    var pieces: [LogPiece]
    /// The sequences from `head` to `end` without a message.
    var holes: [Hole] = []
    /// Messages lost between the last one and the topic's end.
    var lostAtEnd = 0
    /// Whether subscriptions that wait missed nothing of the topic.
    var wasEmpty = false
    /// Whether the shard has asked for the view. Otherwise it is for subscriptions to patterns.
    var wasRequested = true
    /// Up to where the shard has followed the topic for its subscriptions to patterns; nil if it has none that match.
    var followed: SequenceNumber?
    /// Whether the topic has ended, and those subscriptions have not been notified of that.
    var isEndNew = false
    /// Whether the topic is deleted: its name may be another's.
    var isDeleted = false
    /// The oldest message retained for replay. Older messages are kept for subscriptions that wait for them.
    var retained: SequenceNumber
    /// Messages before this sequence were lost to the byte limit.
    var lost: SequenceNumber
    /// Where the retained messages before `head` are; nil if there are none.
    var store: StoreReference?
    /// The charge of a recent message in bytes: nothing is granted to publishers while there is no room for one.
    var typical: Int
}

/// How a topic's log has advanced.
struct LogAdvance: Sendable {
    var end: SequenceNumber
    var charged: UInt64
    var fresh: [LogPiece]
    /// The sequences without a message before those of `fresh`.
    var holes: [Hole]
    /// Messages lost between the last one and the topic's end; 0 while it has not ended.
    var lostAtEnd: Int
    var retained: SequenceNumber
    /// Waiting messages before this sequence were lost to the byte limit.
    var lost: SequenceNumber
    /// The oldest message in memory.
    var resident: SequenceNumber
    var typical: Int
    var state: TopicState
    /// Whether the topic's name refers to a new topic from now on.
    var isDeleted: Bool
}

/// What a view reports to its topic's owner.
struct ViewProgress: Sendable, Equatable {
    /// The end that the view has advanced to.
    var seen: SequenceNumber
    /// The oldest message that a subscription waits for; `seen` if none does.
    var needed: SequenceNumber
    /// For `block` subscriptions: how far publishers may append, and from where nothing may be evicted.
    var horizon: SequenceNumber?
    var floor: SequenceNumber?
    var subscriptions: Int
    /// Messages lost by the view's subscriptions since it was created.
    var dropped: DropCounts
    /// Messages handed over to the view's subscriptions.
    var delivered: UInt64
}

/// The final counts of a view that was removed.
struct ViewTotals: Sendable, EmptyInitializable {
    var dropped = DropCounts()
    var delivered: UInt64 = 0
    /// Up to where the shard has followed the topic; nil if it has no subscriptions to patterns that match.
    var followed: SequenceNumber?
    /// Whether those subscriptions have been notified of the topic's end.
    var knowsEnd = false
}

/// The opening of a channel, or an acknowledged publish, with its first message.
struct PublishRequest: Sendable {
    var name: String
    var options: PublishOptions
    var isChannel: Bool
    var connection: ConnectionID
    var message: MessageBatch
    /// Whether the publisher's half is already complete.
    var complete: Bool
    /// The publishing user.
    var account: Account?
    /// The number of the first message, if messages are numbered.
    var numbered: NumberedPublish?
}

/// How a publisher's half ended.
enum PublisherEnd: Sendable {
    case completed
    case failed(String)
    case cancelled
    case lost
}

/// A notice from a topic to a publisher.
enum PublisherNotice: Sendable {
    case granted(UInt32)
    /// The sequence of the last accepted message, how many of this publisher's messages were accepted, and whether any
    /// of those that are acknowledged now is a duplicate.
    case acknowledged(sequence: SequenceNumber, epoch: UInt64, accepted: UInt64, isDuplicate: Bool)
    /// Everything received is acknowledged, and the topic needs nothing more from this publisher.
    case finished
    case refused(Refusal)
}

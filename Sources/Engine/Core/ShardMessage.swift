// ShardMessage: what shards tell each other. A topic lives with its owner; subscribers and publishers live with their
// connections. Between the same two shards mail keeps its order.

import ForebayWire
import Replay

/// A message from one shard's engine to another's; the driver only carries it.
public struct ShardMessage: Sendable {
    let content: Content

    enum Content: Sendable {
        // From a subscriber's shard to a topic's owner
        case attach(name: String, shard: Int, Account?, ConnectionID)
        case detach(epoch: UInt64, shard: Int, ViewTotals)

        // From the owner to a subscriber's shard
        case attached(name: String, TopicSnapshot)
        case attachRefused(name: String, Refusal)
        case advance(epoch: UInt64, LogAdvance)

        // From a publisher's shard to the owner
        case publish(StreamKey, PublishRequest)
        case items(StreamKey, ConnectionID, MessageBatch)
        case frames(StreamKey, ConnectionID, FrameBatch)
        case publisherEnded(StreamKey, name: String, PublisherEnd)
        case fire(name: String, ConnectionID, shard: Int, MessageBatch, Account?)

        // From the owner to a publisher's shard
        case notice(StreamKey, PublisherNotice)
        /// Bytes of a connection's publishes and calls that the owner has dealt with.
        case processed(ConnectionID, bytes: Int)

        // Control calls and lists
        case call(StreamKey, ConnectionID, ControlRequest)
        case answer(StreamKey, Result<Description?, Refusal>)
        /// Credit for a stream of plain HTTP, to the shard that its id names; answered as a call, with nothing to tell.
        case credit(StreamKey, SubscriptionID, UInt32, user: String?)
        case listPage(ListPage, for: Int)
        case listRows([Description], next: Int?)

        // What is told together, and that it was
        case report(Report, from: Int)
        case reportHeard(by: Int)

        // The broker's own topics
        // By reference: in place, its many figures would make every message as large.
        indirect case stats(shard: Int, ShardCounters)
    }
}

/// A stream of a connection, by the connection's shard and the stream's place there.
struct StreamKey: Hashable, Sendable {
    var shard: Int
    var handle: Handle
}

/// Where a topic stands.
enum TopicState: Sendable {
    case live
    case completed
    case failed(String)

    var isLive: Bool { if case .live = self { true } else { false } }

    var name: String {
        switch self {
        case .live: "live"
        case .completed: "completed"
        case .failed: "failed"
        }
    }
}

/// What a shard needs to hold a view of a topic.
struct TopicSnapshot: Sendable {
    var epoch: UInt64
    var state: TopicState
    var head: SequenceNumber
    var end: SequenceNumber
    var charged: UInt64
    var pieces: [LogPiece]
    /// The oldest message that is retained for replay; older ones are kept for those who wait for them.
    var retained: SequenceNumber
    /// Messages before this were lost to the byte limit.
    var lost: SequenceNumber
    /// A store has what is retained from before `head`.
    var isStored: Bool
    /// What a recent message was charged, in bytes: publishers are granted nothing when there is no room for one.
    var typical: Int
}

/// How a topic's log moved on.
struct LogAdvance: Sendable {
    var end: SequenceNumber
    var charged: UInt64
    var fresh: [LogPiece]
    var retained: SequenceNumber
    /// Waiting messages before this were lost to the byte limit.
    var lost: SequenceNumber
    /// The oldest message in memory.
    var resident: SequenceNumber
    var typical: Int
    var state: TopicState
    /// The topic's name belongs to a new one from now on.
    var isDeleted: Bool
}

/// What a view tells its topic's owner.
struct ViewProgress: Sendable, Equatable {
    /// The end that the view has been advanced to.
    var seen: SequenceNumber
    /// The oldest message that a subscription waits for; `seen` if none does.
    var needed: SequenceNumber
    /// Over `block` subscriptions: up to where publishers may append, and from where nothing may be evicted.
    var horizon: SequenceNumber?
    var floor: SequenceNumber?
    var subscriptions: Int
    /// Messages that the view's subscriptions have lost since it was made.
    var dropped: DropCounts
    /// Messages that they were handed.
    var delivered: UInt64
}

/// What a view that is no more has had.
struct ViewTotals: Sendable {
    var dropped = DropCounts()
    var delivered: UInt64 = 0
}

/// The opening of a channel, or an acknowledged publish, with its first message.
struct PublishRequest: Sendable {
    var name: String
    var options: PublishOptions
    var isChannel: Bool
    var connection: ConnectionID
    var message: MessageBatch
    /// The publisher's half is already complete.
    var complete: Bool
    /// The user who publishes.
    var account: Account?
}

/// How a publisher's half ended.
enum PublisherEnd: Sendable {
    case completed
    case failed(String)
    case cancelled
    case lost
}

/// What a topic tells a publisher.
enum PublisherNotice: Sendable {
    case granted(UInt32)
    /// The sequence of the last message accepted, and how many of this publisher's were.
    case acknowledged(sequence: SequenceNumber, epoch: UInt64, accepted: UInt64)
    /// All that came is acknowledged, and the topic needs no more of this publisher.
    case finished
    case refused(Refusal)
}

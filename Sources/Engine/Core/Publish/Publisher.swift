// Publisher: a publishing stream on the shard of its connection. The topic's owner decides; this side forwards messages
// to it, and grants and acknowledgements to the peer.

import Bytes
import ForebayWire
import Replay

final class Publisher: BoundStream {
    let name: String
    let owner: Int
    /// Whether this is a channel, as opposed to one acknowledged publish.
    let isChannel: Bool
    /// A channel's index in `connection.streams.channels`.
    var channelPlace = 0
    /// Bytes of the publish that waits for its acknowledgement.
    var parkedBytes: Int
    /// Whether the publish that waits for its acknowledgement has been appended or refused.
    var isPlaced = false
    /// Credit for the broker's half: each acknowledgement costs one.
    var credit: Credit
    /// The latest acknowledgement, if it is unsent for lack of credit or because earlier output is unread.
    /// `isDuplicate`: whether any message that it newly acknowledges is a duplicate.
    var unsent: (sequence: SequenceNumber, accepted: UInt64, isDuplicate: Bool)?
    /// The latest acknowledgement, sent or not.
    var known: (sequence: SequenceNumber, accepted: UInt64) = (SequenceNumber(0), 0)
    /// Granted credit not sent yet, because tokens are missing or a gRPC call's earlier answers are unread.
    var unsentCredit: UInt64 = 0
    /// Messages for an owner on another shard, sent together at the end of a read.
    var outgoing = MessageBatch()
    /// The owner's part of the channel, if the owner is this shard.
    var channel: Channel?

    // Rate limiting
    /// The request to the topic's owner, while it waits for tokens. Its message waits in the user's queue.
    var pending: PublishRequest?
    /// The channel's first message, if it arrived while `pending` waits.
    var early = MessageBatch()
    /// The position in the queue for tokens that granted credit needs; nil if not waiting.
    var tokenTurn: TurnQueue<Publisher>.Ticket?
    var prepaid = Prepaid()

    init(
        name: String, owner: Int, isChannel: Bool, parkedBytes: Int, credit: Credit, connection: Connection,
        stream: UInt32, handle: Handle
    ) {
        self.name = name
        self.owner = owner
        self.isChannel = isChannel
        self.parkedBytes = parkedBytes
        self.credit = credit
        super.init(kind: .publisher, connection: connection, stream: stream, handle: handle)
    }
}

/// Metadata on the broker's half of a channel, in addition to the sequence: how many of its messages were accepted.
enum AcceptedMetadata {
    static let mime = "application/vnd.forebay.accepted"

    static func append(_ accepted: UInt64, to buffer: inout ByteBuffer) {
        let mime = Array(mime.utf8)
        buffer.append(bigEndian: UInt8(mime.count - 1))
        buffer.append(mime)
        buffer.append(u24: 8)
        buffer.append(bigEndian: accepted)
    }
}

/// Metadata of the acknowledgement of a duplicate. The entry is empty.
enum DuplicateMetadata {
    static func append(to buffer: inout ByteBuffer) {
        let mime = Array(PublisherNumber.duplicateMime.utf8)
        buffer.append(bigEndian: UInt8(mime.count - 1))
        buffer.append(mime)
        buffer.append(u24: 0)
    }
}

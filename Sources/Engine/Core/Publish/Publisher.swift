// Publisher: a publishing stream on the shard of its connection. The topic's owner decides; this side carries messages
// to it, and grants and acknowledgements back to the peer.

import Bytes
import Replay

final class Publisher: BoundStream {
    let name: String
    let owner: Int
    /// A channel; else one acknowledged publish.
    let isChannel: Bool
    /// A channel's place in `connection.streams.channels`.
    var channelPlace = 0
    /// Bytes of the publish that waits for its acknowledgement.
    var parkedBytes: Int
    /// That publish found its place, or was refused.
    var isSettled = false
    /// Credit for the broker's half: each acknowledgement costs one.
    var credit: Credit
    /// The latest acknowledgement that has not been told, for want of credit.
    var untold: (sequence: SequenceNumber, accepted: UInt64)?
    /// The latest acknowledgement, told or not.
    var known: (sequence: SequenceNumber, accepted: UInt64) = (SequenceNumber(0), 0)
    /// Credit granted to a gRPC call that has not been told, as earlier answers are unread.
    var untoldCredit: UInt64 = 0
    /// Messages for an owner on another shard, sent together at the end of a read.
    var outgoing = MessageBatch()
    /// The owner's part of a channel on this same shard.
    var channel: Channel?

    // What it takes of its user's buckets
    /// What its owner is to be asked once there are tokens for it; its message is in line meanwhile.
    var pending: PublishRequest?
    /// The first message of a channel that came before that.
    var early = MessageBatch()
    /// Its turn to have tokens for the credit that it was granted; nil if it waits for none.
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

/// What the broker's half of a channel carries beside the sequence: how many of its messages were accepted.
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

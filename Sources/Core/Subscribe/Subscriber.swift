// Subscriber: a remote subscription on the shard of its connection: a cursor into the shard's view of the topic.

import Replay
import RSocket

final class Subscriber: BoundStream {
    /// Unique in this broker; told by `$SYS.subscriptions`.
    let id: UInt64
    let options: SubscribeOptions
    let mirror: Mirror
    /// What was asked for before the view was there.
    var early: Credit
    /// Nil until the view is there.
    var cursor: Subscription?
    /// Its place in `mirror.members`.
    var member = 0
    var isHungry = false
    /// Under `block`: since when its buffer has been full without progress, and where it stood then.
    var fullSince: UInt64?
    var fullAt = SequenceNumber(0)

    init(
        id: UInt64, options: SubscribeOptions, mirror: Mirror, credit: Credit, connection: Connection, stream: UInt32,
        handle: Handle
    ) {
        self.id = id
        self.options = options
        self.mirror = mirror
        early = credit
        super.init(kind: .subscriber, connection: connection, stream: stream, handle: handle)
    }
}

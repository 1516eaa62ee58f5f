// Forwarding: publishes and calls on their way to topics of other shards. They count towards the broker's memory until
// the topic's shard has processed them. A connection with many bytes in transit is not read in the meantime.

final class Forwarding {
    private let context: ShardContext
    /// Publishers with messages for other shards, which are sent at the end of the turn.
    private var outgoing: [Publisher] = []
    /// Bytes that other shards have not processed yet, and the number of requests and batches that they have not begun.
    private(set) var bytes = 0
    private(set) var count = 0

    init(context: ShardContext) { self.context = context }

    var outgoingCount: Int { outgoing.count }

    /// Queues a channel's message for the end of the turn.
    func gather(_ publisher: Publisher, metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer) {
        if publisher.outgoing.count == 0 { outgoing.append(publisher) }
        publisher.outgoing.append(metadata: metadata, payload: payload)
    }

    /// Calls `body` with each publisher that has queued messages in this turn.
    func takeOutgoing(_ body: (Publisher) -> Void) {
        guard !outgoing.isEmpty else { return }
        for publisher in outgoing { body(publisher) }
        outgoing.removeAll(keepingCapacity: true)
    }

    func sent(_ size: Int, of connection: Connection) {
        connection.input.forwarded += size
        bytes += size
        count += 1
        context.memory.addPending(size)
    }

    /// Another shard has begun with a request that takes it many turns, and does not keep others from theirs.
    func begun() {
        assert(count > 0)
        count -= 1
    }

    /// Another shard has processed a request or a batch.
    /// - Parameters:
    ///   - connection: nil if it is gone.
    ///   - hasBegun: whether that was reported before.
    func processed(_ size: Int, of connection: Connection?, hasBegun: Bool) {
        assert((count > 0 || hasBegun) && bytes >= size)
        bytes -= size
        if !hasBegun { count -= 1 }
        context.memory.addPending(-size)
        connection?.input.forwarded -= size
    }
}

// Forwarding: publishes and calls on their way to topics of other shards. They count as memory of the broker until the
// topic's shard has dealt with them, and connections that send much are read no more meanwhile.

final class Forwarding {
    private let context: ShardContext
    /// Publishers with messages for other shards, sent at the end of the turn.
    private var outgoing: [Publisher] = []
    /// Bytes that other shards have not dealt with yet, and how many requests and batches of messages these are.
    private(set) var bytes = 0
    private(set) var count = 0

    init(context: ShardContext) { self.context = context }

    var outgoingCount: Int { outgoing.count }

    /// A message of a channel goes along at the end of the turn.
    func gather(_ publisher: Publisher, metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer) {
        if publisher.outgoing.count == 0 { outgoing.append(publisher) }
        publisher.outgoing.append(metadata: metadata, payload: payload)
    }

    /// Publishers with messages that were gathered in this turn.
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

    /// Another shard has dealt with one of them.
    /// - Parameter connection: nil if it is gone.
    func processed(_ size: Int, of connection: Connection?) {
        assert(count > 0 && bytes >= size)
        bytes -= size
        count -= 1
        context.memory.addPending(-size)
        connection?.input.forwarded -= size
    }
}

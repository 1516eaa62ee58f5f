// ShardPart: the base of most parts of a shard. A part owns its state and is created with the context and the parts
// below it. If it has to call a part above (a stream ends, and its subscription has to be notified), the reference is
// listed under "Above", and `ShardParts` sets it once all parts exist.

import Bytes
import ForebayWire
import Replay

package class ShardPart {
    final let context: ShardContext

    init(_ context: ShardContext) { self.context = context }
}

extension ShardPart {
    final var effects: Effects {
        unsafeAddress { UnsafePointer(context.effectsPlace) }
        unsafeMutableAddress { context.effectsPlace }
    }
    final var counters: ShardCounters {
        @inline(__always) _read { yield context.counters }
        @inline(__always) _modify { yield &context.counters }
    }
    final var work: Work {
        @inline(__always) _read { yield context.work }
        @inline(__always) _modify { yield &context.work }
    }
    final var limits: Limits { unsafeAddress { UnsafePointer(context.limitsPlace) } }
    final var moment: Instant { @inline(__always) get { context.moment } }
    final var index: Int { context.index }
    final var shards: Int { context.shards }
    final var memory: MemoryBudget { context.memory }
    final var quotas: Quotas { context.quotas }
    final var store: StoreHealth { context.store }
    final var pool: BlockPool { context.pool }
    final var draining: Bool { context.draining }

    final func random() -> UInt64 { context.random() }
    final func send(_ content: ShardMessage.Content, to shard: Int) { context.send(content, to: shard) }
    final func log(_ level: LogRecord.Level, _ message: String, _ fields: [LogField] = []) {
        context.log(level, message, fields)
    }
    final func reached(_ limit: LimitReached) { context.reached(limit) }
    final func count(_ reason: ErrorWord) { context.count(reason) }
    final func refusal(at limit: LimitReached, _ text: String) -> Refusal { context.refusal(at: limit, text) }
    final func owner(of name: String) -> Int { Shard.owner(of: name, among: context.shards) }
    final func text(_ id: ConnectionID) -> String { context.text(id) }
}

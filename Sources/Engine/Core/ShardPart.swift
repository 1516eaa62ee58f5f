// ShardPart: what most parts of a shard have in common. A part owns its state and is given the context, and the parts
// below it, when it is made. Where it has to call one above – a stream ends, and those that stand behind it have to
// know – the reference is named under "Above" and set by `ShardParts` when all parts are there.

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

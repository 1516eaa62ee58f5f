// ShardContext: what every part of a shard may use – its place among the shards, the limits, memory, the moment of the
// input at work, and where effects and counts go. It has no rules of its own and knows none of the parts.

import Bytes
import ForebayWire
import Replay

package final class ShardContext {
    /// This shard's place among `shards`.
    let index: Int
    let shards: Int
    /// In memory of their own, where they are read: a field would be copied whole to read one of them.
    var limits: Limits { unsafeAddress { UnsafePointer(limitsPlace) } }
    let limitsPlace = UnsafeMutablePointer<Limits>.allocate(capacity: 1)
    /// How often the limits have been replaced; what is derived from them is derived again when this differs.
    private(set) var settingsGeneration = 0
    /// The budget that all shards of the broker share.
    let memory: MemoryBudget
    /// What is counted over all shards.
    let quotas: Quotas
    let pool: BlockPool
    /// What the driver is to carry out. It lies in memory of its own: drivers of other modules use it there, where an
    /// accessor would allocate for each use.
    var effects: Effects {
        unsafeAddress { UnsafePointer(effectsPlace) }
        unsafeMutableAddress { effectsPlace }
    }
    let effectsPlace = UnsafeMutablePointer<Effects>.allocate(capacity: 1)
    var counters = ShardCounters()
    /// The moment of the input at work.
    var moment: Instant
    /// What this turn has done, and what is left for the next one.
    var work = Work()
    var draining = false
    /// When the shard was made, on the monotonic clock.
    let started: UInt64
    private var source: RandomSource

    init(index: Int, shards: Int, limits: Limits, memory: MemoryBudget, quotas: Quotas, seed: UInt64, now: Instant) {
        self.index = index
        self.shards = shards
        limitsPlace.initialize(to: limits)
        self.memory = memory
        self.quotas = quotas
        pool = BlockPool(budget: memory, shards: shards)
        effectsPlace.initialize(to: Effects(shards: shards))
        moment = now
        started = now.monotonic
        source = RandomSource(seed: seed)
    }

    deinit {
        limitsPlace.deinitialize(count: 1)
        limitsPlace.deallocate()
        effectsPlace.deinitialize(count: 1)
        effectsPlace.deallocate()
    }

    func adopt(_ limits: Limits) {
        limitsPlace.pointee = limits
        settingsGeneration += 1
    }

    /// A number that no one can guess, never 0.
    func random() -> UInt64 {
        let number = source.next()
        return number == 0 ? 1 : number
    }

    func send(_ content: ShardMessage.Content, to shard: Int) {
        effects.mail[shard].append(ShardMessage(content: content))
    }

    func log(_ level: LogRecord.Level, _ message: String, _ fields: [LogField] = []) {
        effects.log.append(LogRecord(level: level, message: message, fields: fields))
    }

    /// A connection's id, as lists and events tell it: `SHARD-PLACE-GENERATION`.
    func text(_ id: ConnectionID) -> String { "\(index)-\(id.index)-\(id.generation)" }

    /// A request came to nothing, or a stream failed.
    func count(_ reason: ErrorWord) {
        counters.streamErrors &+= 1
        counters.refusals[reason] &+= 1
    }

    /// A limit was reached.
    func reached(_ limit: LimitReached) { counters.limits[limit] &+= 1 }

    /// There are as many as there may be, of one user or of all; the log tells of what and whose.
    func refusal(at limit: LimitReached, _ text: String) -> Refusal {
        reached(limit)
        effects.log.append(
            LogRecord(
                level: .warning, message: "limit reached", fields: [("limit", limit.name), ("cause", text)],
                isFrequent: true))
        return .limit(text)
    }
}

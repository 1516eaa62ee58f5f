// ShardContext: what every part of a shard may use: its index among the shards, the limits, memory, the moment of the
// current input, and the places for effects and counters. It contains no rules and does not refer to any part.

import Bytes
import ForebayWire
import Replay

package final class ShardContext {
    /// This shard's index among `shards`.
    let index: Int
    let shards: Int
    /// The limits are in separately allocated memory and read in place: reading one member of a stored field would copy
    /// all of it.
    var limits: Limits { unsafeAddress { UnsafePointer(limitsPlace) } }
    let limitsPlace = UnsafeMutablePointer<Limits>.allocate(capacity: 1)
    /// How often the limits have been replaced. Values derived from them are computed again when this changes.
    private(set) var settingsGeneration = 0
    /// The budget shared by all shards of the broker.
    let memory: MemoryBudget
    /// Counts across all shards.
    let quotas: Quotas
    let store: StoreHealth
    let pool: BlockPool
    /// What the driver must carry out. In separately allocated memory: drivers in other modules use it in place,
    /// because an accessor would allocate on each use.
    var effects: Effects {
        unsafeAddress { UnsafePointer(effectsPlace) }
        unsafeMutableAddress { effectsPlace }
    }
    let effectsPlace = UnsafeMutablePointer<Effects>.allocate(capacity: 1)
    var counters = ShardCounters()
    /// The moment of the current input.
    var moment: Instant
    /// Work done in this turn, and work deferred to the next one.
    var work = Work()
    var draining = false
    /// When the shard was created, on the monotonic clock.
    let started: UInt64
    private var source: RandomSource

    init(
        index: Int, shards: Int, limits: Limits, memory: MemoryBudget, quotas: Quotas, store: StoreHealth, seed: UInt64,
        now: Instant
    ) {
        self.store = store
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

    /// An unpredictable number, never 0.
    func random() -> UInt64 {
        let number = source.next()
        return number == 0 ? 1 : number
    }

    func send(_ content: ShardMessage.Content, to shard: Int) {
        effects.messages[shard].append(ShardMessage(content: content))
    }

    func log(_ level: LogRecord.Level, _ message: String, _ fields: [LogField] = []) {
        effects.log.append(LogRecord(level: level, message: message, fields: fields))
    }

    /// A connection's id as in lists and events: `SHARD-PLACE-GENERATION`.
    func text(_ id: ConnectionID) -> String { "\(index)-\(id.index)-\(id.generation)" }

    /// Counts a refused request or a failed stream.
    func count(_ reason: ErrorWord) {
        counters.streamErrors &+= 1
        counters.refusals[reason] &+= 1
    }

    /// Counts that a limit was reached.
    func reached(_ limit: LimitReached) { counters.limits[limit] &+= 1 }

    /// The refusal when a limit of one user or of the broker is reached. The event is also logged.
    /// - Parameter who: whom it concerns, for the log.
    func refusal(at limit: LimitReached, _ text: String, of who: [LogField] = []) -> Refusal {
        reached(limit)
        effects.log.append(
            LogRecord(
                level: .warning, message: "limit reached", fields: [("limit", limit.name)] + who + [("cause", text)],
                isFrequent: true))
        return .limit(text)
    }
}

// BrokerProcess: what the broker keeps in memory: its shards, the messages between them, and its sockets. All of it
// ends with a crash.

import Core
import Replay

final class BrokerProcess {
    enum Letter {
        case messages([ShardMessage])
        case socket(Wire, Handover)
        case upstream([UpstreamReport])
    }

    private(set) var shards: [Shard]
    let memory: MemoryBudget
    let quotas = Quotas()
    let health = StoreHealth()
    /// The shards as their driver sees them.
    var watched: [WatchedShard] = []
    /// What each shard has been sent and has not handled, oldest first.
    var inboxes: [[Letter]]
    /// Sockets that each shard has taken from its inbox.
    var arrivals: [[(wire: Wire, handover: Handover)]]
    /// Wires that are not closed, in the order in which they were opened.
    var wires: [[Wire]]
    var wiresByID: [[ConnectionID: Wire]]

    init(_ plan: Plan, _ chance: Chance, now: Instant) {
        memory = MemoryBudget(limit: plan.limits.memory)
        inboxes = Array(repeating: [], count: plan.shards)
        arrivals = Array(repeating: [], count: plan.shards)
        wires = Array(repeating: [], count: plan.shards)
        wiresByID = Array(repeating: [:], count: plan.shards)
        let (memory, quotas, health) = (self.memory, self.quotas, self.health)
        shards = (0..<plan.shards).map { index in
            let seed = chance.number()
            let shard = Heap.engine {
                Shard(
                    index: index, count: plan.shards, limits: plan.limits, memory: memory, quotas: quotas,
                    store: health, seed: seed, now: now)
            }
            if plan.splitsBatches { shard.slice = 2 }
            return shard
        }
    }

    /// Releases everything.
    func end() {
        shards.removeAll()
        watched.removeAll()
        inboxes.removeAll()
        arrivals.removeAll()
    }

    /// All wires, including those that move from one connection to another.
    var allWires: [Wire] {
        var all = wires.flatMap { $0 } + arrivals.joined().map(\.wire)
        for case .socket(let wire, _) in inboxes.joined() { all.append(wire) }
        return all
    }
}

/// A shard whose memory is counted while it works, and which is examined after each input.
final class WatchedShard: TurnEngine {
    private let shard: Shard
    private let examine: (_ isBatch: Bool) -> Void
    private let fired: () -> Void

    init(_ shard: Shard, examine: @escaping (_ isBatch: Bool) -> Void, fired: @escaping () -> Void) {
        self.shard = shard
        self.examine = examine
        self.fired = fired
    }

    var effects: Effects {
        get { shard.effects }
        _modify { yield &shard.effects }
    }
    var hasWork: Bool { shard.hasWork }
    var deadline: UInt64? { shard.deadline }

    func beginTurn() { shard.beginTurn() }

    func goOn(now: Instant) {
        Heap.engine { shard.goOn(now: now) }
        examine(true)
    }

    func fire(now: Instant) {
        fired()
        Heap.engine { shard.fire(now: now) }
        examine(false)
    }

    func gather(_ id: ConnectionID, into pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>) -> Int {
        Heap.engine { shard.gather(id, into: pieces) }
    }

    func wrote(_ count: Int, blocked: Bool, on id: ConnectionID, now: Instant) {
        Heap.engine { shard.wrote(count, blocked: blocked, on: id, now: now) }
        examine(false)
    }
}

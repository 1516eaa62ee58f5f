// Restarts: crashes and restarts of the broker in the middle of a run. The store keeps what it has written; all else is
// gone. Clients have learned what has arrived, and come back as new clients.

import Core
import Replay

struct Restarts {
    private let workload: Workload
    private var broker: Broker { workload.broker }
    private var journal: Journal { workload.journal }
    private var examiner: Examiner { workload.examiner }
    private var referee: Referee { workload.referee }
    private var chance: Chance { workload.chance }

    init(_ workload: Workload) { self.workload = workload }

    /// Restarts the broker at some steps; more often soon after the store has failed.
    func maybe(_ step: Int) {
        let rarity = broker.store.hasFailed ? 20 : Swift.max(40, workload.plan.steps / 3)
        guard chance.isOne(in: rarity) else { return }
        if broker.store.hasFailed || chance.below(4) > 0 { crash() } else { stop() }
    }

    /// The process ends without warning. Some of what it has sent still arrives.
    func crash() {
        for client in workload.clients where !client.isOver && !client.isAway {
            client.read(chance.below(client.wire.arrived + 1))
        }
        restart(isClean: false)
    }

    /// The process closes its connections and ends once the store has everything.
    private func stop() {
        for client in workload.clients where !client.isOver {
            broker.reset(client.wire)
            client.lose()
        }
        for _ in 0..<40 where referee.fault == nil {
            for _ in 0..<10_000 where !broker.isAtRest {
                for shard in broker.shards.indices { broker.turn(shard, isPartial: false) }
            }
            if !broker.awaitsStore { return restart(isClean: true) }
            broker.advance(Limits.second / 4)
        }
        referee.expect(referee.fault != nil, "the store does not get everything")
    }

    private func restart(isClean: Bool) {
        guard referee.fault == nil else { return }
        withdrawRequests()
        let stored = broker.restart(isClean: isClean)
        for client in workload.clients where !client.isOver { client.lose() }
        for ledger in workload.subscribers { ledger.isEarlier = true }
        var epochs: [StoreID: UInt64] = [:]
        for topic in broker.shards.flatMap({ $0.inspector.inspect().topics }) {
            for found in stored where found.row.name == topic.name { epochs[found.row.id] = topic.epoch }
        }
        journal.restarted(stored, epochs: epochs, isClean: isClean) { broker.store.payload($0, of: $1) }
        examiner.restarted()
        for _ in 0..<chance.below(4) { workload.rejoin() }
    }

    /// Messages that were not appended before will not be appended later.
    private func withdrawRequests() {
        for ledger in workload.channels { ledger.sent.forEach { journal.withdrawn($0) } }
        for case let ledger as AcknowledgedLedger in workload.singles { journal.withdrawn(ledger.number) }
        journal.withdrawFired()
    }
}

// ClusterBroker: a node of a cluster with everything that it has: a whole broker whose upstream is connected to a model
// of NATS.

import Core
import JetStreamModel

final class ClusterBroker: ClusterMember {
    /// Rounds at one moment, in which nothing is late.
    private static let mostRounds = 20_000

    let name: String
    private let world: ClusterWorld
    private let plan: Plan
    private let broker: Broker
    private(set) var link: ModelLink
    private var now: UInt64

    init(_ name: String, _ plan: Plan, _ world: ClusterWorld) {
        self.name = name
        self.plan = plan
        self.world = world
        now = world.now
        broker = Broker(plan, world.chance, Trace(print: nil))
        link = ModelLink(name, world.cluster, shards: plan.shards, seed: world.chance.number(), now: now)
        broker.asked = { [unowned self] requests, shard in link.upstream.handle(requests, from: shard, now: now) }
    }

    /// The state of all subscriptions.
    var description: String {
        let streams = broker.shards.flatMap { $0.inspector.inspect().streams }.compactMap(\.subscription)
        return "\(name): \(link.upstream.status.json(now: now)), \(streams)"
    }

    /// Connects a client.
    func open() -> ClusterConnection? { broker.open(on: world.chance.below(plan.shards)).map(ClusterConnection.init) }

    func restart(now: UInt64) {
        link.disconnect()
        link = ModelLink(name, world.cluster, shards: plan.shards, seed: world.chance.number(), now: now)
        _ = broker.restart(isClean: true)
    }

    func advance(to now: UInt64) {
        broker.advance(now - self.now)
        self.now = now
        link.tick(now: now)
    }

    /// Lets the upstream and the shards work until they are at rest, or only for a while.
    func run(isPartial: Bool) {
        defer { _ = link.upstream.takeLog() }
        let most = isPartial ? 1 + world.chance.below(3) : ClusterBroker.mostRounds
        for _ in 0..<most where world.fault == nil {
            var isBusy = link.exchange(now: now)
            link.upstream.takeReports { reports, shard in
                isBusy = true
                broker.report(reports, to: shard)
            }
            for shard in 0..<plan.shards { broker.turn(shard, isPartial: isPartial) }
            if !isBusy, broker.isAtRest { return }
        }
        world.journal.referee.expect(isPartial, "\(name) does not come to rest at one moment")
    }
}

// ModelLink: connects a node's upstream to the model of NATS. Whatever is late is delayed by the model.

import Core
import JetStreamModel
import NATS
import Upstream

final class ModelLink {
    let upstream: Upstream
    private let cluster: ModelCluster
    private(set) var connection: JetStreamModel.ConnectionID?
    /// Whether NATS cannot be reached.
    var isCutOff = false

    init(_ name: String, _ cluster: ModelCluster, shards: Int, seed: UInt64, now: UInt64) {
        self.cluster = cluster
        var connection = NATSOptions(name: name, version: "1")
        connection.limits.connectTime = 1_000_000_000
        guard let servers = try? NATSServers(parsing: "nats://a,nats://b") else { fatalError("the URLs are valid") }
        var options = UpstreamOptions(servers: servers, connection: connection)
        options.time = 30_000_000_000
        upstream = Upstream(options, shards: shards, seed: seed, now: now)
    }

    func tick(now: UInt64) { if upstream.deadline <= now { upstream.tick(now: now) } }

    /// Exchanges what both sides have to say now. Returns whether there was anything.
    func exchange(now: UInt64) -> Bool {
        let actions = upstream.takeActions()
        for action in actions { carryOut(action, now: now) }
        guard let connection else { return !actions.isEmpty }
        let pending = [UInt8](upstream.pending)
        if !pending.isEmpty {
            cluster.receive(pending, on: connection, now: now)
            upstream.sent(pending.count, now: now)
        }
        let output = cluster.takeOutput(of: connection)
        if !output.isEmpty { output.withUnsafeBytes { upstream.received($0, now: now) } }
        if !cluster.isOpen(connection), self.connection == connection {
            self.connection = nil
            upstream.closed("The NATS server closed the connection.", now: now)
            return true
        }
        return !actions.isEmpty || !pending.isEmpty || !output.isEmpty
    }

    private func carryOut(_ action: UpstreamAction, now: UInt64) {
        switch action {
        case .connect where isCutOff: upstream.closed("The simulator allows no connection.", now: now)
        case .connect:
            connection = cluster.connect(now: now)
            upstream.opened(now: now)
        case .close, .startTLS: disconnect()
        }
    }

    func breakConnection(now: UInt64) {
        guard connection != nil else { return }
        disconnect()
        upstream.closed("The simulator closed the connection.", now: now)
    }

    /// Without telling the upstream.
    func disconnect() {
        if let connection { cluster.disconnect(connection) }
        connection = nil
    }
}

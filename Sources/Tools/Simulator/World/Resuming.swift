// Resuming: what clients that can resume do in addition to the others. They lose their sockets at any byte, resume on
// other sockets and on any shard (also while the broker still considers the old one alive, too late, or with false
// claims), and may or may not acknowledge what they have.

import Core

extension Workload {
    /// A new client's session; nil if the client should not have one.
    func session(_ wire: Wire) -> SessionLedger? {
        guard plan.has(.resume), chance.below(3) > 0 else { return nil }
        let token = (0..<chance.pick([16, 16, 128])).map { _ in UInt8(chance.below(256)) }
        let session = SessionLedger(token, wire, plan, referee)
        examiner.add(session)
        return session
    }

    private var resumers: [RSocketClient] {
        clients.compactMap { $0 as? RSocketClient }.filter { $0.session != nil && !$0.isOver }
    }

    func actOnSessions() {
        let all = resumers
        guard !all.isEmpty else { return }
        let client = chance.pick(all)
        switch chance.below(6) {
        case 0...1 where !client.isAway: breakOff(client)
        case 2: client.acknowledge(respond: chance.isOne(in: 2))
        default: if let client = all.first(where: \.isAway) { comeBack(client, isRight: false) }
        }
    }

    /// Breaks the client's end of the socket, at any byte in each direction.
    private func breakOff(_ client: RSocketClient) {
        client.read(chance.below(client.wire.arrived + 1))
        guard !client.isOver, !client.isAway else { return }
        let wire = client.wire
        let rest = chance.below(wire.unread + 1)
        trace.add(.cut, wire.shard, rest, "\(wire.id.index)")
        wire.cut(keeping: rest, isMute: chance.isOne(in: 2))
        // The broker's socket may continue to accept output for a while.
        wire.capacity = chance.pick([.max, .max, 0])
        client.breakOff()
    }

    private func comeBack(_ client: RSocketClient, isRight: Bool) {
        guard let session = client.session, let wire = broker.open(on: chance.below(plan.shards)) else { return }
        client.comeBack(by: wire, session.claim(chance, isRight: isRight))
    }

    /// Makes all clients that can resume do so.
    func bringBack() {
        for client in resumers where client.isAway { comeBack(client, isRight: true) }
    }

    /// Whether some client that can resume has not done so.
    var isAnyoneAway: Bool { resumers.contains { $0.isAway } }
}

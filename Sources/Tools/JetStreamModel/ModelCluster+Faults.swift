// Faults that a test or the simulator causes.

import Bytes

extension ModelCluster {
    /// Whether something fails now, because it is planned or by chance.
    func fails(_ plan: WritableKeyPath<PlannedFaults, Int>, _ rate: KeyPath<ModelFaults, Int>) -> Bool {
        if planned[keyPath: plan] > 0 {
            planned[keyPath: plan] -= 1
            return true
        }
        return chance.isOne(in: faults[keyPath: rate])
    }

    /// How far the clock of a new leader is ahead.
    func clockOffset() -> Int64 {
        let limit = min(faults.clockSkew, 1 << 61)
        return limit == 0 ? 0 : Int64(chance.time(upTo: 2 * limit)) - Int64(limit)
    }

    // MARK: Streams

    /// A stream gets another leader. Each publish that is not committed is lost, or committed with or without an
    /// acknowledgement. If `faults.duplicates` is on, the new leader may republish the latest messages again.
    public func changeLeader(of name: String, now: UInt64) {
        tick(now: now)
        guard let stream = streams[name] else { return }
        for proposal in stream.proposals {
            switch chance.below(3) {
            case 0: stream.proposals.removeAll { $0.number == proposal.number }
            case 1: commit(proposal.number, in: stream, isAcknowledged: false)
            default: commit(proposal.number, in: stream)
            }
        }
        stream.term += 1
        stream.clockOffset = clockOffset()
        let election = chance.time(upTo: faults.electionTime)
        stream.leaderlessUntil = now.addingClamped(election)
        stream.silentUntil = now.addingClamped(election / 2)
        guard faults.duplicates > 0 else { return }
        for message in stream.messages.suffix(chance.below(4)) {
            let previous = stream.messages.last { $0.subject == message.subject && $0.sequence < message.sequence }
            republish(message, after: previous?.sequence ?? 0, from: stream)
        }
    }

    /// A stream loses its newest messages, acknowledged or not. Their sequences are used again.
    public func loseTail(of name: String, count: Int) {
        guard let stream = streams[name], count > 0 else { return }
        lost += stream.lose(from: stream.lastSequence - min(stream.lastSequence, UInt64(count)) + 1)
    }

    /// A stream loses one message. Returns whether it had it.
    @discardableResult
    public func loseMessage(of name: String, sequence: UInt64) -> Bool {
        guard let stream = streams[name], let message = stream[sequence] else { return false }
        lost.append(message)
        return stream.remove(sequence)
    }

    /// Somebody deletes a stream.
    public func deleteStream(_ name: String) { streams[name] = nil }

    /// The replicas that answer direct gets do not have these messages, until this is called again.
    public func setMissing(_ missing: [ClosedRange<UInt64>], of name: String) { streams[name]?.missing = missing }

    // MARK: Connections

    /// Nothing arrives on a connection any more, in either direction. The server closes it when PINGs are not answered;
    /// the client does not learn of it.
    public func partition(_ id: ConnectionID) {
        guard let connection = connection(id) else { return }
        connection.isPartitioned = true
        connection.output = []
        timeline.removeAll(to: id)
    }

    /// The server closes a connection. What it has sent before can still be taken.
    public func close(_ id: ConnectionID) {
        if let connection = connection(id) { close(connection, nil) }
    }

    /// A server shuts down: it closes all connections.
    public func closeAll() {
        for connection in connections { close(connection, nil) }
    }
}

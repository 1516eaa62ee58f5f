// ProbeQueue: the questions whether subscriptions are in force. A few streams of a connection are set aside for them,
// so that they neither take those of subscriptions and publishes nor wait for them.

import Client

/// Probes that wait for one of the streams set aside. The client's thread alone.
struct ProbeQueue {
    /// Streams set aside, at most.
    static let mostStreams = 16

    private var open = 0
    private var waiting: [SubscriptionProbe] = []
    /// Those before are taken.
    private var head = 0

    /// Of the streams that a connection may have, those that are set aside.
    static func share(of streams: Int) -> Int { min(mostStreams, max(streams / 4, 1)) }

    /// Those of a connection that are neither set aside nor taken.
    func hasRoom(of limit: Int, taken: Int) -> Bool { taken - open < max(limit - Self.share(of: limit), 1) }

    mutating func append(_ probe: SubscriptionProbe) { waiting.append(probe) }

    /// The next one that may have a stream; nil when there is none, or as many have one as may.
    mutating func next(of limit: Int) -> SubscriptionProbe? {
        while head < waiting.count, open < Self.share(of: limit) {
            let probe = waiting[head]
            head += 1
            if head == waiting.count { (waiting, head) = ([], 0) }
            if probe.isWanted { return probe }
        }
        return nil
    }

    /// One has a stream from now on.
    mutating func began() { open += 1 }

    /// Its stream is free again.
    mutating func ended() { open -= 1 }
}

extension ClientLoop {
    /// The connection can carry another subscription or channel.
    var hasRoom: Bool {
        guard let connection else { return false }
        return probes.hasRoom(of: connection.streamLimit, taken: streams.count)
    }

    /// What becomes of one that it cannot carry.
    var noRoom: ForebayError {
        ForebayError(
            .busy,
            "The connection carries no more than the \(streams.count) subscriptions and publishes that are under way on"
                + " this client: wait until some of them have ended, or connect another client.")
    }

    /// Has a probe made when there is a stream for it.
    func probe(_ probe: SubscriptionProbe) {
        probes.append(probe)
        startProbes()
    }

    func startProbes() {
        while let connection, takesStreams, let probe = probes.next(of: connection.streamLimit) {
            do throws(ClientError) {
                let id = try probe.ask(connection)
                probes.began()
                bind(id, probe)
            } catch {
                // With the end of the connection the subscription begins again.
                if !error.endsConnection { probe.failed(error, self) }
            }
        }
    }
}

// ProbeQueue: probes that ask whether subscriptions are in effect. A few streams of a connection are reserved for them,
// so that they neither use up the streams of subscriptions and publishes nor wait for them.

import Client

/// Probes that wait for one of the reserved streams. Used only on the client's thread.
struct ProbeQueue {
    /// The most streams that are reserved.
    static let mostStreams = 16

    private var open = 0
    private var waiting: [SubscriptionProbe] = []
    /// Probes before this index have been removed.
    private var head = 0

    /// How many of a connection's streams are reserved.
    static func share(of streams: Int) -> Int { min(mostStreams, max(streams / 4, 1)) }

    /// Whether a connection has streams that are neither reserved nor in use.
    func hasRoom(of limit: Int, taken: Int) -> Bool { taken - open < max(limit - Self.share(of: limit), 1) }

    mutating func append(_ probe: SubscriptionProbe) { waiting.append(probe) }

    /// The next probe that may have a stream; nil if no probe waits or all reserved streams are in use.
    mutating func next(of limit: Int) -> SubscriptionProbe? {
        while head < waiting.count, open < Self.share(of: limit) {
            let probe = waiting[head]
            head += 1
            if head == waiting.count { (waiting, head) = ([], 0) }
            if probe.isWanted { return probe }
        }
        return nil
    }

    /// A probe has got a stream.
    mutating func began() { open += 1 }

    /// A probe's stream is free again.
    mutating func ended() { open -= 1 }
}

extension ClientLoop {
    /// The connection can carry another subscription or channel.
    var hasRoom: Bool {
        guard let connection else { return false }
        return probes.hasRoom(of: connection.streamLimit, taken: streams.count)
    }

    /// The error for one that it cannot carry.
    var noRoom: ForebayError {
        ForebayError(
            .busy,
            "The connection supports no more than the \(streams.count) subscriptions and publishes in progress on"
                + " this client; wait until some of them have ended, or connect another client.")
    }

    /// Sends a probe when there is a stream for it.
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
                // When the connection ends, the subscription starts again.
                if !error.endsConnection { probe.failed(error, self) }
            }
        }
    }
}

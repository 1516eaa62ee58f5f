// ConnectionAttempts: where and when a client connects next. No I/O and no clock.
//
//     fail() ──► the next broker at once ──► … ──► all have failed ──► after a wait, or the end

import Client

struct ConnectionAttempts {
    enum Step: Equatable {
        /// Connect to the current broker after `pause` nanoseconds. The error says why there is no connection.
        case retry(pause: UInt64, ClientError)
        case end(ClientError)
    }

    private(set) var brokers: Brokers
    private(set) var hasBeenConnected = false
    private var backoff: Backoff
    /// When the broker has answered, while it is connected.
    private var answeredAt: UInt64?

    /// How long a connection must last to count as a success if the broker then answers `unavailable`, in nanoseconds.
    static let leastTime: UInt64 = 1_000_000_000

    init(_ brokers: Brokers, _ policy: ReconnectPolicy) {
        self.brokers = brokers
        backoff = Backoff(policy)
    }

    /// The error if nothing answers on a new connection.
    var silence: ClientError {
        ClientError(.silent, "The server at \(brokers.current) did not answer; check that it is a broker's port.")
    }

    /// Notes that the broker has answered.
    mutating func answered(now: UInt64) {
        answeredAt = now
        hasBeenConnected = true
    }

    /// Notes that the connection was lost or not established, or that the broker cannot serve the client.
    mutating func fail(_ error: ClientError, now: UInt64, using random: inout some RandomNumberGenerator) -> Step {
        if let answeredAt, error.code != .unavailable || now - answeredAt >= Self.leastTime {
            brokers.succeed()
            backoff.reset()
        }
        answeredAt = nil
        let address = brokers.current
        if brokers.fail(error) {
            return .retry(pause: 0, ClientError(error.code, brokers.message(of: error, at: address)))
        }
        guard hasBeenConnected, !error.refusesCredentials, let pause = backoff.next(using: &random) else {
            return .end(brokers.failure)
        }
        return .retry(pause: pause, brokers.failure)
    }
}

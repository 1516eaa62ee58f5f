// ClientLoop+Room: how many subscriptions and channels a client's connection can carry.

import Client

extension ClientLoop {
    /// How many of a connection's streams, at most, are reserved for single publishes.
    static let reservedStreams = 16

    /// Whether the connection can carry another subscription or channel.
    var hasRoom: Bool {
        guard let connection else { return false }
        let limit = connection.streamLimit
        return streams.count < max(limit - min(Self.reservedStreams, max(limit / 4, 1)), 1)
    }

    /// The error for a subscription or channel that the connection cannot carry.
    var noRoom: ForebayError {
        ForebayError(
            .busy,
            "The connection already carries \(streams.count) subscriptions and publishes, the most it can: wait until "
                + "some of them have ended, or connect another client.")
    }
}

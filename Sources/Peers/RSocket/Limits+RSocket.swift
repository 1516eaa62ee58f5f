// The limits that RSocket's state machine enforces on a connection.

import RSocket

extension Limits {
    /// Entries of a request's metadata besides the route. Each is passed on to subscribers and takes additional bytes.
    public static let metadataEntries = CarriedMetadata.mostHeaders

    /// The limits for one connection.
    var ofConnection: ConnectionLimits {
        var limits = ConnectionLimits()
        limits.maxPayload = payload
        limits.maxMetadata = metadata
        limits.maxKeepaliveData = keepaliveData
        limits.maxReassembly = reassembly
        limits.maxStreams = streamsPerConnection
        limits.maxResumeToken = Limits.resumeToken.upperBound
        // Longer data is fragmented in the log.
        limits.maxRunData = Limits.fragment
        return limits
    }
}

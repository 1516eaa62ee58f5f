// The limits that RSocket's state machine holds a connection to.

import RSocket

extension Limits {
    /// Entries of a request's metadata beside the route: what a subscriber is told of each takes bytes of its own.
    public static let metadataEntries = CarriedMetadata.mostHeaders

    /// Those that the protocol holds a connection to.
    var ofConnection: ConnectionLimits {
        var limits = ConnectionLimits()
        limits.maxPayload = payload
        limits.maxMetadata = metadata
        limits.maxKeepaliveData = keepaliveData
        limits.maxReassembly = reassembly
        limits.maxStreams = streamsPerConnection
        limits.maxResumeToken = Limits.resumeToken.upperBound
        // A longer one stands in the log in fragments.
        limits.maxRunData = Limits.fragment
        return limits
    }
}

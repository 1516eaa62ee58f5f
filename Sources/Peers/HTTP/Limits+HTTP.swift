// The limits that sessions of HTTP/2, calls of gRPC and requests over plain HTTP are held to.

import HTTP2

extension Limits {
    /// A whole message of a gRPC call: payload, metadata, and what protobuf adds.
    var messageFrame: Int { Swift.min(payload + metadata + 1024, 1 << 30) }

    var ofHTTP: HTTP2Limits {
        var limits = HTTP2Limits()
        limits.maxStreams = Swift.min(limits.maxStreams, streamsPerConnection)
        limits.maxHeaderList = headers
        return limits
    }

    /// Those that a request over plain HTTP is held to.
    var ofPlain: PlainLimits {
        var limits = PlainLimits()
        limits.body = payload
        limits.headers = headers
        return limits
    }
}

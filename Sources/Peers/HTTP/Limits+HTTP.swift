// The limits for HTTP/2 sessions, gRPC calls and requests over plain HTTP.

import HTTP2

extension Limits {
    /// The most bytes of a gRPC message: payload, metadata and protobuf's overhead.
    var messageFrame: Int { Swift.min(payload + metadata + 1024, 1 << 30) }

    var ofHTTP: HTTP2Limits {
        var limits = HTTP2Limits()
        limits.maxStreams = Swift.min(limits.maxStreams, streamsPerConnection)
        limits.maxHeaderList = headers
        return limits
    }

    /// The limits for a request over plain HTTP.
    var ofPlain: PlainLimits {
        var limits = PlainLimits()
        limits.body = payload
        limits.headers = headers
        return limits
    }
}

// HTTPPolicies: what the broker's operator has decided about requests over HTTP.

import HTTP2

public struct HTTPPolicies: Equatable, Sendable {
    /// Pages of which other origins may use plain HTTP.
    public var cors = CORSPolicy()
    /// Names under which plain HTTP may be asked.
    public var hosts = HostPolicy()

    public init() {}
}

// HTTPPolicies: the operator's policies for requests over HTTP.

import HTTP2

public struct HTTPPolicies: Equatable, Sendable {
    /// Which other origins' pages may use plain HTTP.
    public var cors = CORSPolicy()
    /// Host names under which plain HTTP is served.
    public var hosts = HostPolicy()

    public init() {}
}

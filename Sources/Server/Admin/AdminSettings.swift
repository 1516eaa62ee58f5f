// AdminSettings: what the admin listener knows of its broker from the start.

import Core
import EventLoop
import HTTP2

struct AdminSettings: Sendable {
    var guarding: AdminGuard
    /// Where the broker listens, by protocol, as the log tells it.
    var listeners: [(name: String, address: SocketAddress)]
    /// On the monotonic clock.
    var started: UInt64

    /// Where a page that came from `authority` finds the broker's HTTP listener; nil when there is none. A listener on
    /// all addresses is found under the name that the page was asked for by.
    func httpOrigin(for authority: String?) -> String? {
        guard let address = listeners.first(where: { $0.name == "http" })?.address else { return nil }
        guard address.isUnspecified, let authority else { return "http://\(address)" }
        return "http://\(HostPolicy.host(of: authority)):\(address.port)"
    }

    /// Under which origins browsers know the page.
    static func origins(of addresses: [SocketAddress], names: HostPolicy.Names) -> [String] {
        var origins: [String] = []
        for address in addresses {
            var hosts = ["localhost"]
            if case .listed(let list) = names { hosts += list }
            if address.isUnspecified {
                hosts += ["127.0.0.1", "[::1]"]
            } else {
                origins.append("http://\(address)")
            }
            origins += hosts.map { "http://\($0):\(address.port)" }
        }
        return origins
    }
}

/// What `/api/v1/info` tells beside figures.
struct BrokerInfo {
    var limits: Limits
    var listeners: [(name: String, address: SocketAddress)]
    var httpOrigin: String?
}

// AdminSettings: what the admin listener knows of its broker from the start.

import Core
import EventLoop
import HTTP2

/// Where the broker listens.
struct BoundListener: Sendable {
    var name: String
    var address: SocketAddress
    /// It speaks TLS.
    var isSecure: Bool
}

struct AdminSettings: Sendable {
    var guarding: AdminGuard
    /// Where the broker listens, by protocol, as the log tells it.
    var listeners: [BoundListener]
    /// On the monotonic clock.
    var started: UInt64

    /// The admin listener speaks TLS.
    var isSecure: Bool { listeners.contains { $0.name == AdminThread.name && $0.isSecure } }

    /// Where a page that came from `authority` finds the broker's HTTP listener; nil when there is none. A listener on
    /// all addresses is found under the name that the page was asked for by, as is one of TLS on the address that the
    /// page came from: its certificate may have the name alone.
    func httpOrigin(for authority: String?) -> String? {
        guard let http = listeners.first(where: { $0.name == "http" }) else { return nil }
        let scheme = http.isSecure ? "https" : "http"
        let sharesName = http.address.isUnspecified || http.isSecure && isBeside(http.address)
        guard sharesName, let authority else { return "\(scheme)://\(http.address)" }
        return "\(scheme)://\(HostPolicy.host(of: authority)):\(http.address.port)"
    }

    private func isBeside(_ address: SocketAddress) -> Bool {
        listeners.contains { $0.name == AdminThread.name && $0.address.hasHost(of: address) }
    }

    /// Under which origins browsers know the page.
    static func origins(of addresses: [SocketAddress], isSecure: Bool, names: HostPolicy.Names) -> [String] {
        let scheme = isSecure ? "https" : "http"
        var origins: [String] = []
        for address in addresses {
            var hosts = ["localhost"]
            if case .listed(let list) = names { hosts += list }
            if address.isUnspecified {
                hosts += ["127.0.0.1", "[::1]"]
            } else {
                origins.append("\(scheme)://\(address)")
            }
            origins += hosts.map { "\(scheme)://\($0):\(address.port)" }
        }
        return origins
    }
}

/// What `/api/v1/info` tells beside figures.
struct BrokerInfo {
    var limits: Limits
    var listeners: [BoundListener]
    var httpOrigin: String?
}

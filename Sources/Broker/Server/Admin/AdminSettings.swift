// AdminSettings: what the admin listener knows about its broker from the start.

import Core
import EventLoop
import HTTP2

/// A listener of the broker.
struct BoundListener: Sendable {
    var name: String
    var address: SocketAddress
    /// Whether the listener uses TLS.
    var isSecure: Bool
}

struct AdminSettings: Sendable {
    var guarding: AdminGuard
    /// The broker's listeners, with protocol names as in the log.
    var listeners: [BoundListener]
    /// Start time on the monotonic clock.
    var started: UInt64

    /// Whether the admin listener uses TLS.
    var isSecure: Bool { listeners.contains { $0.name == AdminThread.name && $0.isSecure } }

    /// The origin of the broker's HTTP listener for a page loaded from `authority`; nil if there is none. For a
    /// listener on all addresses, the origin has the page's host name. The same applies to a TLS listener on the
    /// page's address, because its certificate may contain only the name.
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

    /// The origins that the page may have in browsers.
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

/// What `/api/v1/info` contains besides statistics.
struct BrokerInfo {
    var limits: Limits
    var listeners: [BoundListener]
    var httpOrigin: String?
}

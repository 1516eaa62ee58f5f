// Listener: a listening socket for one protocol, and the error thrown if a broker cannot start.

import Core
import EventLoop
import Glibc
import Store

/// A bound socket and the protocol of its clients. The last owner closes it.
struct Listener: Sendable {
    var socket: Int32
    var wireProtocol: WireProtocol
    /// Whether clients use TLS.
    var isSecure = false

    /// Opens a listener for each address of `endpoint`. If a name has several addresses, those that this machine does
    /// not have are skipped, and port 0 becomes the same port for all.
    static func open(_ wireProtocol: WireProtocol, on endpoint: Endpoint, isSecure: Bool = false) throws(SystemError)
        -> [Listener]
    {
        try bind(endpoint).map { Listener(socket: $0, wireProtocol: wireProtocol, isSecure: isSecure) }
    }

    /// Like `open`, but for the admin listener, which is not a `WireProtocol`.
    static func bind(_ endpoint: Endpoint) throws(SystemError) -> [Int32] {
        var sockets: [Int32] = []
        var port = endpoint.port
        var last = SystemError("cannot listen on \(endpoint)", cause: "it has no address")
        for var address in try endpoint.resolve() {
            do throws(SystemError) {
                address.port = port
                let socket = try Socket.listen(on: address)
                sockets.append(socket)
                port = Socket.localAddress(socket)?.port ?? port
            } catch {
                last = error
                if [EADDRNOTAVAIL, EAFNOSUPPORT].contains(error.code) { continue }
                for socket in sockets { close(socket) }
                throw error
            }
        }
        if sockets.isEmpty { throw last }
        return sockets
    }

    /// Names of all listeners, used in the log and for passed sockets.
    static var names: [String] { WireProtocol.all.map(\.name) + [AdminThread.name] }

    static func closeAll(_ listeners: [Listener]) {
        for listener in listeners { close(listener.socket) }
    }
}

extension WireProtocol {
    /// All protocols, in the order in which listeners are bound and reported.
    static let all: [WireProtocol] = [.rsocket, .http]

    /// The protocol's name in the log.
    var name: String {
        switch self {
        case .rsocket: "rsocket"
        case .http: "http"
        }
    }

    /// The protocol's name in a sentence.
    var title: String {
        switch self {
        case .rsocket: "RSocket"
        case .http: "HTTP"
        }
    }

    /// The option for the address of the protocol's listener.
    var option: String {
        switch self {
        case .rsocket: "--listen"
        case .http: "--http"
        }
    }

    /// The default address of the protocol's listener: loopback only.
    var defaultEndpoint: Endpoint {
        switch self {
        case .rsocket: Endpoint(host: "127.0.0.1", port: 7690)
        case .http: Endpoint(host: "127.0.0.1", port: 7691)
        }
    }
}

/// Why a broker did not start.
public struct StartError: Error, CustomStringConvertible, Sendable {
    /// The listener that could not be bound; nil if something else failed.
    public var listener: WireProtocol?
    /// Whether the admin listener failed.
    public var isAdmin = false
    /// Whether the configuration is at fault, on any machine.
    public var isConfiguration = false
    /// Why the store cannot be opened, if that failed.
    public var store: StoreError?
    public var cause: SystemError

    public var description: String {
        if isAdmin { return "--admin: \(cause)" }
        return listener.map { "\($0.option): \(cause)" } ?? cause.description
    }
}

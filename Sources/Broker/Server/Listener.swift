// Listener: a socket that takes connections in for one protocol, and why a broker could not start.

import Core
import EventLoop
import Glibc

/// A bound socket, and what those speak who connect to it. Whoever has it last closes it.
struct Listener: Sendable {
    var socket: Int32
    var wireProtocol: WireProtocol
    /// They speak it over TLS.
    var isSecure = false

    /// A listener for each address of `endpoint`. When a name has several, what this machine does not have is left out,
    /// and port 0 becomes one port for all.
    static func open(_ wireProtocol: WireProtocol, on endpoint: Endpoint, isSecure: Bool = false) throws(SystemError)
        -> [Listener]
    {
        try bind(endpoint).map { Listener(socket: $0, wireProtocol: wireProtocol, isSecure: isSecure) }
    }

    /// The same for who is none of the faces.
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

    /// The words for all listeners in the log, by which sockets are passed too.
    static var names: [String] { WireProtocol.all.map(\.name) + [AdminThread.name] }

    static func closeAll(_ listeners: [Listener]) {
        for listener in listeners { close(listener.socket) }
    }
}

extension WireProtocol {
    /// Every protocol, in the order in which its listeners are bound and told.
    static let all: [WireProtocol] = [.rsocket, .http]

    /// The word for it in the log.
    var name: String {
        switch self {
        case .rsocket: "rsocket"
        case .http: "http"
        }
    }

    /// The word for it in a sentence.
    var title: String {
        switch self {
        case .rsocket: "RSocket"
        case .http: "HTTP"
        }
    }

    /// The option that tells where its listener is.
    var option: String {
        switch self {
        case .rsocket: "--listen"
        case .http: "--http"
        }
    }

    /// Where its listener is unless told otherwise: on this machine only.
    var defaultEndpoint: Endpoint {
        switch self {
        case .rsocket: Endpoint(host: "127.0.0.1", port: 7690)
        case .http: Endpoint(host: "127.0.0.1", port: 7691)
        }
    }
}

/// Why a broker did not start.
public struct StartError: Error, CustomStringConvertible, Sendable {
    /// The listener that could not be bound; nil when it was something else.
    public var listener: WireProtocol?
    /// It was the admin listener.
    public var isAdmin = false
    /// The configuration asks for what is not done, whatever the machine has.
    public var isConfiguration = false
    public var cause: SystemError

    public var description: String {
        if isAdmin { return "--admin: \(cause)" }
        return listener.map { "\($0.option): \(cause)" } ?? cause.description
    }
}

// Explaining: turns a start error into a sentence that says what to do and quotes settings as they were written.

import Core
import EventLoop
import Glibc
import Store

extension StartError {
    /// The key of the listener that failed.
    var key: String? { isAdmin ? "admin" : listener.map { $0 == .http ? "http" : "listen" } }
}

extension Options {
    subscript(listener key: String) -> Endpoint? {
        switch key {
        case "listen": listen
        case "http": http
        default: admin
        }
    }
}

extension Broker {
    /// Whether the cause is the configuration and not the machine.
    static func isUsage(_ error: StartError, _ options: Options) -> Bool {
        switch error.store {
        case .foreign, .newer: true
        default: error.isConfiguration || rival(error, options) != nil
        }
    }

    /// Why the store cannot be used, and what to do.
    static func explain(_ error: StoreError, _ loaded: Loaded) -> String {
        let other = loaded.written("store", "DIR")
        let remedy =
            switch error {
            case .inUse: "stop that process, or set \(other) to another directory"
            case .foreign: "set \(other) to a directory that is empty or does not exist"
            case .newer: "use a version of forebayd that is at least as new, or set \(other) to another directory"
            case .unusable(let text) where text.contains("damaged") || text.contains("cannot read"):
                "examine it with forebayd store check, and restore a copy"
            default: "set \(other) to a directory on a local disk to which the broker's user can write"
            }
        return "\(loaded.subject("store")): \(error); \(remedy)"
    }

    static func explain(_ error: StartError, _ loaded: Loaded) -> String {
        let options = loaded.options
        if let store = error.store { return explain(store, loaded) }
        guard let key = error.key, let endpoint = options[listener: key] else { return error.description }
        let title = error.listener?.title ?? "the admin listener"
        let port = endpoint.port
        func choose(_ host: String, _ port: UInt16) -> String {
            loaded.written(key, Endpoint(host: host, port: port).description)
        }
        if error.isConfiguration {
            let open = loaded.written("allow-anonymous", "true", like: key)
            return "\(loaded.subject(key)): \(error.cause); configure users, listen on 127.0.0.1, or set \(open)"
        }
        if let rival = rival(error, options) {
            return
                "\(loaded.subject(rival)) and \(loaded.subject(key)) both use port \(port): choose different ports"
        }
        switch error.cause.code {
        case EADDRINUSE:
            let off = error.isAdmin ? ", or turn it off with \(loaded.written(key, "off"))" : ""
            return
                "port \(port) for \(title) is in use: stop the other process or set \(choose(endpoint.host, 0))\(off)"
        case EADDRNOTAVAIL:
            return "this machine has no address \(endpoint.host): set \(choose("127.0.0.1", port))"
        case EACCES where port > 0 && port < 1024:
            let unprivileged = (error.listener?.defaultEndpoint ?? Options.defaultAdmin).port
            return "port \(port) requires privileges: set \(choose(endpoint.host, unprivileged))"
        default: return "\(loaded.subject(key)): \(error.cause)"
        }
    }

    /// Another listener of this broker that was bound first and uses the port.
    private static func rival(_ error: StartError, _ options: Options) -> String? {
        guard error.cause.code == EADDRINUSE, let key = error.key, let endpoint = options[listener: key],
            endpoint.port > 0
        else { return nil }
        return ["listen", "http", "admin"].first { other in
            other != key && options[listener: other].map { endpoint.excludes($0) } == true
        }
    }
}

extension Endpoint {
    /// Whether only one of the two endpoints can be bound: they have the same port, and the same or a wildcard address.
    fileprivate func excludes(_ other: Endpoint) -> Bool {
        guard port == other.port else { return false }
        if host == other.host { return true }
        guard let own = try? resolve(), let others = try? other.resolve() else { return false }
        return own.contains { address in
            others.contains {
                address.isIPv6 == $0.isIPv6
                    && (address.isUnspecified || $0.isUnspecified || address.hasHost(of: $0))
            }
        }
    }
}

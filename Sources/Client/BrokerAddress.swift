// BrokerAddress: where a broker is, read from a URL such as rsocket://127.0.0.1:7690.

/// The host and port of a broker's RSocket listener.
public struct BrokerAddress: Equatable, Sendable {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    public var host: String
    public var port: UInt16

    public static let defaultPort: UInt16 = 7690

    public init(host: String, port: UInt16 = defaultPort) {
        self.host = host
        self.port = port
    }

    /// Reads `rsocket://HOST[:PORT][/]`; a bare `HOST[:PORT]` is taken as that. IPv6 addresses stand in brackets.
    /// - Throws: `.badURL` with a sentence for a scheme that this version does not speak, or a bad host or port.
    public init(url: String) throws(ClientError) {
        var rest = Substring(url)
        if let scheme = Self.scheme(of: url) {
            switch scheme.lowercased() {
            case "rsocket", "tcp": break
            case "http":
                throw ClientError(
                    .badURL, "This version speaks RSocket only, not HTTP/2: give a URL like rsocket://127.0.0.1:7690.")
            case "rsockets", "https", "ws", "wss":
                throw ClientError(
                    .badURL,
                    "This version does not speak \(scheme)://: give a URL like rsocket://127.0.0.1:7690.")
            default:
                throw ClientError(
                    .badURL, "The URL '\(url)' has an unknown scheme: give one like rsocket://127.0.0.1:7690.")
            }
            rest = rest.dropFirst(scheme.count + 3)
        }
        if rest.last == "/" { rest = rest.dropLast() }
        let bad = ClientError(
            .badURL, "The URL '\(url)' does not name a host and port: give one like rsocket://127.0.0.1:7690.")
        var host = rest
        var portText: Substring?
        if rest.first == "[" {
            guard let close = rest.firstIndex(of: "]") else { throw bad }
            host = rest[rest.index(after: rest.startIndex)..<close]
            let after = rest[rest.index(after: close)...]
            if !after.isEmpty {
                guard after.first == ":" else { throw bad }
                portText = after.dropFirst()
            }
        } else if let colon = rest.lastIndex(of: ":") {
            host = rest[..<colon]
            portText = rest[rest.index(after: colon)...]
            guard !host.contains(":") else { throw bad }
        }
        guard !host.isEmpty, !host.contains(where: { "/?#@ ".contains($0) || !$0.isASCII }) else { throw bad }
        self.host = String(host)
        port = Self.defaultPort
        if let portText {
            guard portText.allSatisfy({ $0.isASCII && $0.isNumber }), let number = UInt16(portText), number > 0 else {
                throw bad
            }
            port = number
        }
    }

    private static func scheme(of url: String) -> String? {
        let bytes = Array(url.utf8)
        guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")), colon > 0, bytes.count >= colon + 3,
            bytes[colon + 1] == UInt8(ascii: "/"), bytes[colon + 2] == UInt8(ascii: "/")
        else { return nil }
        return String(decoding: bytes[..<colon], as: UTF8.self)
    }
}

extension BrokerAddress: CustomStringConvertible {
    public var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

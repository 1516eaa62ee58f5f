// BrokerAddress: where a broker is and which protocol to use, parsed from a URL such as rsocket://127.0.0.1:7690.

import Bytes
import TLS

/// The host and port of a broker's listener.
public struct BrokerAddress: Equatable, Sendable {
    public enum Transport: String, Sendable {
        /// RSocket over TCP.
        case rsocket
        /// gRPC over HTTP/2 with prior knowledge.
        case http

        /// The port on which brokers listen by default.
        public var defaultPort: UInt16 { self == .rsocket ? 7690 : 7691 }
    }

    public var transport: Transport
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    public var host: String
    public var port: UInt16
    /// How the broker is verified over TLS; nil means no TLS.
    public var tls: TLSClientSettings?
    /// The client's credentials, if any.
    public var credentials: Credentials?

    public init(host: String, port: UInt16? = nil, transport: Transport = .rsocket) {
        self.transport = transport
        self.host = host
        self.port = port ?? transport.defaultPort
    }

    private static let example = "use a URL such as rsocket://127.0.0.1:7690 or http://127.0.0.1:7691."

    /// Parses `rsocket://HOST[:PORT][/]` or `http://HOST[:PORT][/]`; a bare `HOST[:PORT]` means the former. `rsockets`
    /// and `https` use TLS with the system's trusted certificates. IPv6 addresses are in brackets. A percent-encoded
    /// `USER:PASSWORD@` may precede the host.
    /// - Throws: `.badURL` with a sentence for an unsupported scheme, or an invalid host or port.
    public init(url: String) throws(ClientError) {
        var rest = Substring(url)
        transport = .rsocket
        if let scheme = Self.scheme(of: url) {
            switch scheme.lowercased() {
            case "rsocket", "tcp": break
            case "http": transport = .http
            case "rsockets": tls = TLSClientSettings()
            case "https":
                transport = .http
                tls = TLSClientSettings()
            case "ws", "wss":
                throw ClientError(.badURL, "This version does not support \(scheme)://; \(Self.example)")
            default:
                throw ClientError(.badURL, "The URL has an unknown scheme, '\(scheme)'; \(Self.example)")
            }
            rest = rest.dropFirst(scheme.count + 3)
        }
        if rest.last == "/" { rest = rest.dropLast() }
        if let at = rest.lastIndex(of: "@") {
            credentials = try Self.credentials(rest[..<at])
            rest = rest[rest.index(after: at)...]
        }
        // Do not show a password.
        let shown = credentials == nil ? Substring(url) : rest
        let bad = ClientError(.badURL, "The URL '\(shown)' does not have a host and port; \(Self.example)")
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
        guard !host.isEmpty, !host.contains(where: { "/?#@ []".contains($0) || !$0.isASCII }) else { throw bad }
        self.host = String(host)
        port = transport.defaultPort
        if let portText {
            guard portText.allSatisfy({ $0.isASCII && $0.isNumber }), let number = UInt16(portText), number > 0 else {
                throw bad
            }
            port = number
        }
    }

    private static func credentials(_ text: Substring) throws(ClientError) -> Credentials {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let user = try? parts[0].percentDecoded(),
            let password = try? parts[1].percentDecoded()
        else {
            throw ClientError(
                .badURL, "The part of the URL before the '@' is not USER:PASSWORD; write an '@' in it as %40.")
        }
        return .password(user: user, password: password)
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

// NATSServerAddress: one server, as named by a URL in the settings or by INFO.

import Bytes
import Glibc

/// Where a NATS server is, and how to connect to it.
public struct NATSServerAddress: Equatable, Sendable, CustomStringConvertible, CustomReflectable {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    public var host: String
    public var port: UInt16
    /// Whether the URL begins with tls://.
    public var requiresTLS = false
    /// The name for which the server's certificate must be valid.
    public var tlsName: String
    /// What the URL has before an @; `none` if there is nothing.
    public var credentials = NATSCredentials.none

    public static let defaultPort: UInt16 = 4222

    public init(host: String, port: UInt16 = defaultPort) {
        self.host = host
        self.port = port
        tlsName = host
    }

    /// Parses `[nats://|tls://][USER:PASSWORD@|TOKEN@]HOST[:PORT]`, with an IPv6 address in brackets. User, password
    /// and token may be percent-encoded.
    /// - Throws: if the text has another form. The error does not contain it, because it may have a password.
    public init(parsing text: some StringProtocol) throws(NATSError) {
        var rest = Substring(text)
        var requiresTLS = false
        if let end = rest.firstRange(of: "://") {
            switch rest[..<end.lowerBound].lowercased() {
            case "nats": break
            case "tls": requiresTLS = true
            default: throw .call(.unsupported, "The URL of a NATS server must begin with nats:// or tls://.")
            }
            rest = rest[end.upperBound...]
        }
        if rest.hasSuffix("/") { rest = rest.dropLast() }
        var credentials = NATSCredentials.none
        if let at = rest.lastIndex(of: "@") {
            credentials = try NATSServerAddress.credentials(rest[..<at])
            rest = rest[rest.index(after: at)...]
        }
        var port = NATSServerAddress.defaultPort
        if let colon = rest.lastIndex(of: ":"), !rest[colon...].contains("]") {
            let digits = rest[rest.index(after: colon)...].utf8
            let bytes = Array(digits)
            guard let number = bytes.withUnsafeBytes({ $0.decimal }), let value = UInt16(exactly: number), value > 0
            else {
                throw .call(.invalid, "The URL of a NATS server has a port that is not a number from 1 to 65535.")
            }
            port = value
            rest = rest[..<colon]
        }
        var isValid = !rest.isEmpty && rest.utf8.count <= 255
        if rest.hasPrefix("["), rest.hasSuffix("]"), rest.utf8.count > 2 {
            rest = rest.dropFirst().dropLast()
            isValid = isValid && NATSServerAddress.isIPv6(String(rest))
        } else {
            isValid = isValid && rest.utf8.allSatisfy(NATSServerAddress.isOfName)
        }
        guard isValid else {
            throw .call(
                .invalid,
                "The URL of a NATS server must have the form nats://HOST:PORT; put IPv6 addresses in brackets.")
        }
        self.init(host: String(rest), port: port)
        self.requiresTLS = requiresTLS
        self.credentials = credentials
    }

    private static func credentials(_ text: Substring) throws(NATSError) -> NATSCredentials {
        do throws(PercentFault) {
            guard let colon = text.firstIndex(of: ":") else { return .token(try text.percentDecoded()) }
            return .password(
                user: try text[..<colon].percentDecoded(),
                password: try text[text.index(after: colon)...].percentDecoded())
        } catch {
            throw .call(.invalid, "The user, password or token in the URL of a NATS server is not percent-encoded.")
        }
    }

    private static func isOfName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
            true
        default: false
        }
    }

    private static func isIPv6(_ text: String) -> Bool {
        var address = in6_addr()
        return inet_pton(AF_INET6, text, &address) == 1
    }

    /// Whether the host is an IP address.
    public var isIP: Bool { NATSServerAddress.isIP(host) }

    static func isIP(_ host: String) -> Bool {
        var address = in_addr()
        return inet_pton(AF_INET, host, &address) == 1 || isIPv6(host)
    }

    /// The URL without credentials.
    public var description: String {
        "\(requiresTLS ? "tls" : "nats")://\(host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host):\(port)"
    }

    public var customMirror: Mirror { Mirror(self, children: []) }

    /// Whether both are the same socket address; names are compared without regard to case.
    func isSame(as other: NATSServerAddress) -> Bool {
        port == other.port && host.lowercased() == other.host.lowercased()
    }
}

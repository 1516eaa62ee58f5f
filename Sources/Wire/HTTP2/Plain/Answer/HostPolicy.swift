// HostPolicy: the host names by which plain HTTP may be addressed. It prevents DNS rebinding: a foreign page lets its
// own name resolve to an address of this machine, and the browser then treats the broker as part of that page. Host
// still contains that name, so the request can be rejected. Addresses are safe, since they do not resolve to anything
// else.

/// The names that a request's Host may contain.
public struct HostPolicy: Equatable, Sendable {
    public enum Names: Equatable, Sendable {
        case any
        /// Addresses, localhost, and these names, in lower case.
        case listed([String])
    }

    public var names: Names

    public init(_ names: Names = .any) { self.names = names }

    /// - Parameter authority: host and port that the request was sent to; nil over HTTP/1.0, which no browser uses.
    /// - Throws: the refusal.
    public func check(_ authority: String?) throws(Problem) {
        guard case .listed(let list) = names, let authority else { return }
        let host = HostPolicy.host(of: authority)
        guard !HostPolicy.isAddress(host), host != "localhost", !host.hasSuffix(".localhost"), !list.contains(host)
        else { return }
        throw Problem(
            .foreignHost,
            "This broker does not accept the host name '\(host)'; use its address, or start it with "
                + "--host-name \(host).")
    }

    /// Whether `text` can be a host name.
    public static func isName(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.count <= 253
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
                default: "-._".utf8.contains(byte)
                }
            }
    }

    /// The host without port and without a trailing dot.
    public static func host(of authority: String) -> String {
        let text = authority.lowercased()
        if text.hasPrefix("["), let end = text.firstIndex(of: "]") { return String(text[...end]) }
        let host = text.prefix { $0 != ":" }
        return String(host.hasSuffix(".") ? host.dropLast() : host)
    }

    /// Whether the host is an address as browsers write it: four decimal numbers, or anything in brackets.
    private static func isAddress(_ host: String) -> Bool {
        if host.hasPrefix("[") { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts.allSatisfy { UInt8($0) != nil && !$0.hasPrefix("+") }
    }
}

// NATSInfo: what a server says about itself and its cluster, in the JSON of INFO.

import Bytes
import JSONParsing

/// The contents of INFO. Members that this module does not use are ignored, and so are members of the wrong type.
public struct NATSInfo: Equatable, Sendable {
    /// The server's id, name and version; empty if INFO does not name them.
    public var serverID = ""
    public var serverName = ""
    public var version = ""
    /// The server's id for this connection; 0 if INFO does not name it.
    public var clientID: UInt64 = 0
    /// The most bytes of headers and payload in a message that is published; the server closes the connection for
    /// more. 1 MiB if INFO does not name it.
    public var maxPayload = 1 << 20
    /// Whether messages may have headers.
    public var hasHeaders = false
    /// Whether JetStream is enabled on this server.
    public var hasJetStream = false
    /// Whether clients must use TLS, and whether they may.
    public var requiresTLS = false
    public var offersTLS = false
    /// Whether clients must authenticate themselves.
    public var requiresAuthentication = false
    /// What clients with a key must sign.
    public var nonce: String?
    /// Addresses of servers of the cluster, at most `NATSLimits.maxURLs`.
    public var urls: [String] = []
    /// Whether the server is about to shut down, and clients should move to another one.
    public var isLameDuck = false

    public init() {}

    /// - Throws: if `json` is not a JSON object in UTF-8, or has a name twice. The connection ends.
    public init(json: UnsafeRawBufferPointer) throws(NATSError) {
        guard let root = JSONDocument(json)?.root else { throw .protocol("The server's INFO is not a JSON object.") }
        func string(_ name: String) -> String? { root[name]?.string }
        func isTrue(_ name: String) -> Bool { root[name]?.isTrue == true }
        serverID = string("server_id") ?? ""
        serverName = string("server_name") ?? ""
        version = string("version") ?? ""
        clientID = root["client_id"]?.integer.flatMap { UInt64(exactly: $0) } ?? 0
        if let size = root["max_payload"]?.integer, size > 0 { maxPayload = size }
        hasHeaders = isTrue("headers")
        hasJetStream = isTrue("jetstream")
        requiresTLS = isTrue("tls_required")
        offersTLS = requiresTLS || isTrue("tls_available")
        requiresAuthentication = isTrue("auth_required")
        nonce = string("nonce")
        isLameDuck = isTrue("ldm")
        urls = (root["connect_urls"]?.elements ?? []).prefix(NATSLimits.maxURLs).compactMap(\.string)
    }

    /// The first two numbers of the version; nil if it has another form.
    public var release: (major: Int, minor: Int)? {
        let parts = version.split(separator: ".", maxSplits: 2)
        guard parts.count >= 2, let major = Int(parts[0]), let minor = Int(parts[1]) else { return nil }
        return (major, minor)
    }
}

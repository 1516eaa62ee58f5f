// NATSInfo: what a server says about itself and its cluster, in the JSON of INFO.

import Bytes
import CJansson

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
        // JSON contains no NUL (RFC 8259, 2), but Jansson skips one after a number.
        let root =
            json.contains(0)
            ? nil
            : json_loadb(
                json.baseAddress?.assumingMemoryBound(to: CChar.self), json.count, Int(JSON_REJECT_DUPLICATES), nil)
        defer { json_decref(root) }
        guard let root, root.pointee.type == JSON_OBJECT else {
            throw .protocol("The server's INFO is not a JSON object.")
        }
        func member(_ name: String) -> UnsafeMutablePointer<json_t>? { json_object_get(root, name) }
        func isTrue(_ name: String) -> Bool { member(name)?.pointee.type == JSON_TRUE }
        func number(_ name: String) -> Int? {
            member(name).flatMap { $0.pointee.type == JSON_INTEGER ? Int(json_integer_value($0)) : nil }
        }
        serverID = NATSInfo.string(member("server_id")) ?? ""
        serverName = NATSInfo.string(member("server_name")) ?? ""
        version = NATSInfo.string(member("version")) ?? ""
        clientID = number("client_id").flatMap { UInt64(exactly: $0) } ?? 0
        if let size = number("max_payload"), size > 0 { maxPayload = size }
        hasHeaders = isTrue("headers")
        hasJetStream = isTrue("jetstream")
        requiresTLS = isTrue("tls_required")
        offersTLS = requiresTLS || isTrue("tls_available")
        requiresAuthentication = isTrue("auth_required")
        nonce = NATSInfo.string(member("nonce"))
        isLameDuck = isTrue("ldm")
        if let list = member("connect_urls"), list.pointee.type == JSON_ARRAY {
            for index in 0..<min(json_array_size(list), NATSLimits.maxURLs) {
                if let url = NATSInfo.string(json_array_get(list, index)) { urls.append(url) }
            }
        }
    }

    private static func string(_ value: UnsafeMutablePointer<json_t>?) -> String? {
        guard let value, value.pointee.type == JSON_STRING, let text = json_string_value(value) else { return nil }
        return UnsafeRawBufferPointer(start: text, count: json_string_length(value)).text
    }

    /// The first two numbers of the version; nil if it has another form.
    public var release: (major: Int, minor: Int)? {
        let parts = version.split(separator: ".", maxSplits: 2)
        guard parts.count >= 2, let major = Int(parts[0]), let minor = Int(parts[1]) else { return nil }
        return (major, minor)
    }
}

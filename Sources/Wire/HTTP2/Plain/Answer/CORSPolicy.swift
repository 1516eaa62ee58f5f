// CORSPolicy: the other origins whose pages a browser allows to access the broker. Off unless configured.
// https://fetch.spec.whatwg.org/#http-cors-protocol

/// Cross-origin rules for plain HTTP.
public struct CORSPolicy: Equatable, Sendable {
    public enum Origins: Equatable, Sendable {
        /// No other origin: no CORS header is ever sent.
        case none
        /// Every origin, without credentials.
        case any
        /// These origins, as browsers write them: `https://example.org`, with a port unless it is the default.
        case listed([String])
    }

    public var origins: Origins
    /// The broker's own pages on another listener. They are never revealed to any other origin.
    public var ownPages: [String] = []
    /// Headers that a page may send, in lower case; message headers (`forebay-header-…`) are allowed too.
    public var requestHeaders = ["accept", "authorization", "content-type", "last-event-id"]
    /// Response headers that a page may read.
    public var exposedHeaders = [PlainHeader.subscription, "retry-after"]
    /// Seconds for which a browser may cache the response to a preflight.
    public var maxAge = 600

    public init(_ origins: Origins = .none) { self.origins = origins }

    /// Whether `text` is an origin as browsers write it: scheme and host in lower case, a port if it is not the
    /// scheme's default, and nothing else.
    public static func isOrigin(_ text: String) -> Bool {
        let scheme = ["https://", "http://"].first { text.hasPrefix($0) }
        guard let scheme, text.utf8.count <= 512, !text.hasSuffix(scheme == "https://" ? ":443" : ":80") else {
            return false
        }
        let host = text.utf8.dropFirst(scheme.utf8.count)
        return !host.isEmpty
            && host.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
                default: "-.:[]_".utf8.contains(byte)
                }
            }
    }

    /// Whether a page of `origin` may access the broker. The broker's own origin always may.
    ///
    /// - Parameter authority: host and port that the request was sent to.
    public func allows(origin: String, authority: String?) -> Bool {
        if case .any = origins { return true }
        return ownPages.contains(origin) || isListed(origin) || CORSPolicy.isOwn(origin, authority)
    }

    /// Headers to add to the response to a request from `origin`.
    func headers(origin: String?) -> [PlainHeader] {
        guard var headers = grant(origin) else { return varying(origin) }
        headers.append(PlainHeader("access-control-expose-headers", exposedHeaders.joined(separator: ", ")))
        return headers + varying(origin)
    }

    /// Headers to add to the response to OPTIONS if it is a preflight; `allow` lists the methods of its path.
    func preflightHeaders(_ request: PlainRequest, allow: String) -> [PlainHeader] {
        guard var headers = grant(request.origin), request.preflightMethod != nil else {
            return varying(request.origin)
        }
        headers.append(PlainHeader("access-control-allow-methods", allow))
        let wanted = Field.split(request.preflightHeaders ?? "", at: UInt8(ascii: ","))
            .map { Field.trim($0).lowercased() }
            .filter { requestHeaders.contains($0) || CORSPolicy.isMessageHeader($0) }
        if !wanted.isEmpty {
            headers.append(PlainHeader("access-control-allow-headers", wanted.joined(separator: ", ")))
        }
        headers.append(PlainHeader("access-control-max-age", String(maxAge)))
        return headers + varying(request.origin)
    }

    /// The headers that give the origin access; nil if it has none.
    private func grant(_ origin: String?) -> [PlainHeader]? {
        if let origin, ownPages.contains(origin) { return [PlainHeader("access-control-allow-origin", origin)] }
        switch origins {
        case .none: return nil
        case .any: return [PlainHeader("access-control-allow-origin", "*")]
        case .listed:
            guard let origin, isListed(origin) else { return nil }
            return [PlainHeader("access-control-allow-origin", origin)]
        }
    }

    /// Tells caches that the response depends on the origin, whether or not this one has access.
    private func varying(_ origin: String?) -> [PlainHeader] {
        var isVarying = false
        if case .listed = origins { isVarying = true }
        if let origin, ownPages.contains(origin) { isVarying = true }
        return isVarying ? [PlainHeader("vary", "origin")] : []
    }

    private func isListed(_ origin: String) -> Bool {
        if case .listed(let list) = origins { return list.contains(origin) }
        return false
    }

    private static func isOwn(_ origin: String, _ authority: String?) -> Bool {
        guard let authority, !authority.isEmpty else { return false }
        let text = origin.lowercased()
        return text == "http://\(authority.lowercased())" || text == "https://\(authority.lowercased())"
    }

    private static func isMessageHeader(_ name: String) -> Bool {
        let prefix = PlainRequest.messageHeaderPrefix
        // The name is echoed in a header, so it must be a token and contain nothing that could end a header.
        return name.hasPrefix(prefix) && name.utf8.count > prefix.utf8.count
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
                default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
                }
            }
    }
}

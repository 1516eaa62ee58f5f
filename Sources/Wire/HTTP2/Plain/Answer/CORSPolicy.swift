// CORSPolicy: which pages of other origins a browser lets talk to the broker. Off unless configured.
// https://fetch.spec.whatwg.org/#http-cors-protocol

/// Cross-origin rules of the plain face.
public struct CORSPolicy: Equatable, Sendable {
    public enum Origins: Equatable, Sendable {
        /// Of no other origin: no header of CORS is ever sent.
        case none
        /// Of every origin; without credentials.
        case any
        /// Of these, each as a browser writes it: `https://example.org`, a port if it is not the scheme's own.
        case listed([String])
    }

    public var origins: Origins
    /// Pages of the broker's own, on another listener. Nothing is told of them to any other origin.
    public var ownPages: [String] = []
    /// Headers that a page may send, in lower case; those of messages (`forebay-header-…`) are allowed beside them.
    public var requestHeaders = ["accept", "authorization", "content-type", "last-event-id"]
    /// Headers of answers that a page may read.
    public var exposedHeaders = [PlainHeader.subscription, "retry-after"]
    /// Seconds for which a browser may keep the answer to a preflight.
    public var maxAge = 600

    public init(_ origins: Origins = .none) { self.origins = origins }

    /// Whether a browser could write `text` for an origin: scheme and host in lower case, a port that is not the
    /// scheme's own, and nothing else.
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

    /// Whether a page of `origin` may talk to the broker. The broker's own origin may always.
    ///
    /// - Parameter authority: host and port that the request was sent to.
    public func allows(origin: String, authority: String?) -> Bool {
        if case .any = origins { return true }
        return ownPages.contains(origin) || isListed(origin) || CORSPolicy.isOwn(origin, authority)
    }

    /// What to add to an answer for a request from `origin`.
    func headers(origin: String?) -> [PlainHeader] {
        guard var headers = grant(origin) else { return varying(origin) }
        headers.append(PlainHeader("access-control-expose-headers", exposedHeaders.joined(separator: ", ")))
        return headers + varying(origin)
    }

    /// What to add to the answer to OPTIONS where it is a preflight; `allow` are the methods there are at its path.
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

    /// Nil where the origin is given nothing.
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

    /// The answer depends on the origin, whether this one was given something or not: caches have to know.
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
        // What is sent back goes into a header: a token, and nothing that could end one.
        return name.hasPrefix(prefix) && name.utf8.count > prefix.utf8.count
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
                default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
                }
            }
    }
}

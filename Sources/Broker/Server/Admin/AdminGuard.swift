// AdminGuard: protects the admin listener from foreign web pages. The listener is meant for people and programs on this
// machine, and a browser there may show a malicious page:
//
//     the page's own name resolves to this machine        unknown Host                   HostPolicy
//     the page sends a request, ignoring the answer       Origin, Sec-Fetch-Site         refused unless our own
//     an old browser sends a form without these headers   POST without a JSON type       refused
//
// AdminLogin identifies the user.

import Core
import HTTP2

/// A request's head, with a header about its origin that `PlainRequest` does not keep.
struct AdminHead: Sendable {
    var plain: PlainRequest
    /// The `Sec-Fetch-Site` header of browsers.
    var fetchSite: String?
}

struct AdminGuard: Sendable {
    var hosts: HostPolicy

    /// - Throws: the error to respond with.
    func check(_ head: AdminHead, for call: AdminCall) throws(Problem) {
        try hosts.check(head.plain.authority)
        if let origin = head.plain.origin, !CORSPolicy().allows(origin: origin, authority: head.plain.authority) {
            throw Problem(.foreignOrigin, "Pages from \(origin) may not use the admin listener.")
        }
        if let site = head.fetchSite, !["same-origin", "none"].contains(site), !call.isReading {
            throw Problem(.foreignOrigin, "Pages from other sites may not use the admin listener.")
        }
        if !call.isReading, head.plain.method == "POST", !AdminGuard.isJSON(head.plain.contentType) {
            throw Problem(
                .invalid, "A POST to the admin listener needs the header content-type: application/json.")
        }
    }

    private static func isJSON(_ type: String?) -> Bool {
        guard let type else { return false }
        return type.prefix { $0 != ";" && $0 != " " }.lowercased() == "application/json"
    }
}

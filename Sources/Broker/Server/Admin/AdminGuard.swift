// AdminGuard: who may ask the admin listener for what. It is meant for people and programs on this machine, so the
// danger is a browser there that shows somebody else's page:
//
//     the page's own name resolves to this machine       Host is none of ours          HostPolicy
//     the page sends a request here, reading no answer    Origin, Sec-Fetch-Site         refused unless our own
//     so does an old browser's form, without either       POST without a JSON type       refused
//
// Who it is that asks is found out in AdminLogin.

import Core
import HTTP2

/// What a request says of where it comes from, beside what `PlainRequest` keeps.
struct AdminHead: Sendable {
    var plain: PlainRequest
    /// What a browser says of the page that asks.
    var fetchSite: String?
}

struct AdminGuard: Sendable {
    var hosts: HostPolicy

    /// - Throws: the refusal.
    func check(_ head: AdminHead, for call: AdminCall) throws(Problem) {
        try hosts.check(head.plain.authority)
        if let origin = head.plain.origin, !CORSPolicy().allows(origin: origin, authority: head.plain.authority) {
            throw Problem(.foreignOrigin, "Pages of \(origin) may not use the admin listener.")
        }
        if let site = head.fetchSite, !["same-origin", "none"].contains(site), !call.isReading {
            throw Problem(.foreignOrigin, "Pages of other sites may not use the admin listener.")
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

// AdminGuard: who may ask the admin listener for what. It is meant for people and programs on this machine, so the
// danger is a browser there that shows somebody else's page:
//
//     the page's own name resolves to this machine       Host is none of ours          HostPolicy
//     the page sends a request here, reading no answer    Origin, Sec-Fetch-Site         refused unless our own
//     so does an old browser's form, without either       POST without a JSON type       refused
//
// What else is to be known about who asks – users, passwords, tokens – goes into `AdminAccess`.

import Core
import HTTP2

/// Whether whoever sent a request may do what it asks for, by what it says of who that is.
struct AdminAccess: Sendable {
    /// Called on the admin's thread with the value of Authorization, the peer's address, and whether the call only
    /// looks. Returns the refusal.
    var check: @Sendable (_ authorization: String?, _ peer: String, _ isReading: Bool) -> Problem?

    /// Everyone who can connect.
    static let everyone = AdminAccess { _, _, _ in nil }
}

/// What a request says of where it comes from, beside what `PlainRequest` keeps.
struct AdminHead: Sendable {
    var plain: PlainRequest
    /// What a browser says of the page that asks.
    var fetchSite: String?
    var peer: String
}

struct AdminGuard: Sendable {
    var hosts: HostPolicy
    var access: AdminAccess

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
        if call.isProbe { return }
        if let problem = access.check(head.plain.authorization, head.peer, call.isReading) { throw problem }
    }

    private static func isJSON(_ type: String?) -> Bool {
        guard let type else { return false }
        return type.prefix { $0 != ";" && $0 != " " }.lowercased() == "application/json"
    }
}

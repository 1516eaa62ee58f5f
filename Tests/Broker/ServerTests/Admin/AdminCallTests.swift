// What the admin listener understands, and which clients it refuses.

import Core
import EventLoop
import HTTP2
import Testing

@testable import Server

struct AdminCallTests {
    private func call(_ method: String, _ target: String) throws(Problem) -> AdminCall {
        try AdminCall(PlainRequest(method: method, target: target))
    }

    private func problem(_ body: () throws -> Void) -> Problem? {
        do { try body() } catch { return error as? Problem }
        return nil
    }

    @Test(arguments: [
        ("GET", "/"), ("GET", "/index.html"), ("GET", "/style.css"), ("GET", "/script.js"), ("GET", "/kit.js"),
        ("GET", "/tables.js"), ("GET", "/tail.js"), ("GET", "/icon.svg"), ("HEAD", "/"), ("GET", "/healthz"),
        ("GET", "/readyz"), ("HEAD", "/readyz"), ("GET", "/metrics"), ("GET", "/metrics?topics=0"),
        ("GET", "/metrics?topics=1000&subscriptions=1"), ("GET", "/api/v1/info"), ("GET", "/api/v1/stats"),
        ("GET", "/api/v1/overview?topics=9&topics_skip=9991&topics_find=a%20b&topics_sort=bytes"),
        ("GET", "/api/v1/overview?subscriptions_skip=5&subscriptions_find=x&subscriptions_sort=credit"),
        ("GET", "/api/v1/overview?subscriptions_slow=1&topics_find="),
        ("GET", "/api/v1/overview"), ("GET", "/api/v1/overview?topics=5&subscriptions=0"), ("GET", "/api/v1/topics"),
        ("GET", "/api/v1/subscriptions?limit=1"), ("GET", "/api/v1/connections?limit=1000&cursor=3-17"),
        ("GET", "/api/v1/topics/orders.eu"), ("GET", "/api/v1/topics/$SYS.stats"),
    ])
    func whatOnlyLooks(method: String, target: String) throws {
        #expect(try call(method, target).isReading)
    }

    @Test(arguments: [
        ("DELETE", "/api/v1/topics/orders"), ("POST", "/api/v1/topics/orders/complete"),
        ("POST", "/api/v1/topics/orders/fail"), ("POST", "/api/v1/topics/orders/fail?message=gone%20away"),
        ("DELETE", "/api/v1/connections/0-1-2"), ("DELETE", "/api/v1/subscriptions/17"),
    ])
    func whatChangesSomething(method: String, target: String) throws {
        #expect(try !call(method, target).isReading)
    }

    @Test(arguments: [
        ("GET", "/nothing", 404), ("GET", "/api/v1", 404), ("GET", "/api/v1/", 404), ("GET", "/api/v2/info", 404),
        ("GET", "/api/v1/topics/a/b", 404), ("GET", "/metrics/", 404), ("GET", "//", 404), ("POST", "/", 405),
        ("POST", "/metrics", 405), ("GET", "/api/v1/topics/a/complete", 405), ("PUT", "/api/v1/topics/a", 405),
        ("GET", "/api/v1/connections/0-1-2", 405), ("GET", "/metrics?topics=1001", 400),
        ("GET", "/metrics?topics=x", 400), ("GET", "/metrics?subscriptions=2", 400), ("GET", "/metrics?a=b", 400),
        ("GET", "/api/v1/overview?topics=9&topics_skip=9992", 400), ("GET", "/api/v1/overview?topics_sort=credit", 400),
        ("GET", "/api/v1/overview?subscriptions_sort=trouble", 400),
        ("GET", "/healthz?a=b", 400), ("GET", "/api/v1/topics?limit=0", 400), ("GET", "/api/v1/topics?limit=1001", 400),
        ("GET", "/api/v1/topics?cursor=1", 400), ("GET", "/api/v1/topics?cursor=-1-0", 400),
        ("GET", "/api/v1/topics?cursor=9999999999-0", 400), ("GET", "/api/v1/topics/a%20b", 400),
        ("DELETE", "/api/v1/topics/$SYS.stats", 403), ("DELETE", "/api/v1/connections/1", 400),
        ("DELETE", "/api/v1/subscriptions/x", 400), ("GET", "/api/v1/topics/%zz", 400), ("OPTIONS", "*", 405),
        ("GET", "/" + String(repeating: "a", count: AdminLimits.target), 414),
    ])
    func refusesTheRest(method: String, target: String, status: Int) {
        #expect(problem { _ = try call(method, target) }?.status == status)
    }

    @Test func aRefusedMethodTellsThoseThereAre() {
        #expect(problem { _ = try call("POST", "/api/v1/topics/a") }?.allow == "GET, HEAD, DELETE")
    }

    @Test func aCursorIsReadAsItWasWritten() {
        let cursor = ListCursor(shard: 3, place: 4096)
        #expect(ListCursor(cursor.text) == cursor)
    }

    // Authorization

    private struct Case: Sendable {
        var method = "GET"
        var target = "/api/v1/stats"
        var host: String? = "127.0.0.1:7692"
        var origin: String?
        var site: String?
        var type: String?
        /// Nil if the call is allowed.
        var refused: Problem.Kind?
    }

    private static let post = "/api/v1/topics/a/complete"

    @Test(arguments: [
        Case(), Case(host: "localhost:7692"), Case(host: "[::1]:7692"), Case(host: nil), Case(host: "10.0.0.7"),
        Case(host: "a.localhost"), Case(host: "BROKER.example:7692"), Case(host: "broker.example."),
        Case(host: "evil.example", refused: .foreignHost), Case(host: "127.0.0.1.evil.example", refused: .foreignHost),
        Case(host: "127.0.0.1@evil.example", refused: .foreignHost), Case(host: "", refused: .foreignHost),
        Case(host: "1.2.3", refused: .foreignHost), Case(host: "1.2.3.256", refused: .foreignHost),
        Case(target: "/healthz", host: "evil.example", refused: .foreignHost),
        Case(origin: "http://127.0.0.1:7692"), Case(origin: "http://evil.example", refused: .foreignOrigin),
        Case(origin: "null", refused: .foreignOrigin), Case(origin: "http://127.0.0.1:7691", refused: .foreignOrigin),
        Case(method: "POST", target: post, type: "application/json"),
        Case(method: "POST", target: post, type: "application/json; charset=utf-8"),
        Case(method: "POST", target: post, refused: .invalid),
        Case(method: "POST", target: post, type: "text/plain", refused: .invalid),
        Case(method: "POST", target: post, site: "cross-site", type: "application/json", refused: .foreignOrigin),
        Case(method: "POST", target: post, site: "same-site", type: "application/json", refused: .foreignOrigin),
        Case(method: "POST", target: post, site: "same-origin", type: "application/json"),
        Case(method: "DELETE", target: "/api/v1/topics/a", site: "none"),
        Case(method: "DELETE", target: "/api/v1/topics/a", site: "cross-site", refused: .foreignOrigin),
        Case(site: "cross-site"),
    ])
    private func pagesOfOthersAreRefused(this: Case) throws {
        let guarding = AdminGuard(hosts: HostPolicy(.listed(["broker.example"])))
        let head = head(this)
        let call = try AdminCall(head.plain)
        #expect(problem { try guarding.check(head, for: call) }?.kind == this.refused, "\(this)")
    }

    private func head(_ this: Case) -> AdminHead {
        var plain = PlainRequest(method: this.method, target: this.target)
        if let host = this.host { plain.add("host", host) }
        if let origin = this.origin { plain.add("origin", origin) }
        if let type = this.type { plain.add("content-type", type) }
        return AdminHead(plain: plain, fetchSite: this.site)
    }

    @Test(
        arguments: [
            ("GET", "/", nil), ("GET", "/script.js", nil), ("GET", "/healthz", nil), ("GET", "/readyz", nil),
            ("GET", "/metrics", "$SYS.stats"), ("GET", "/api/v1/overview", "$SYS.stats"),
            ("GET", "/api/v1/connections", "$SYS.connections"), ("GET", "/api/v1/topics/a", "a"),
            ("DELETE", "/api/v1/topics/a", "a"), ("DELETE", "/api/v1/connections/0-1-2", "$SYS.connections"),
            ("DELETE", "/api/v1/subscriptions/1", "$SYS.subscriptions"),
        ] as [(String, String, String?)])
    func eachTakesThePermissionToControlSomething(method: String, target: String, needed: String?) throws {
        #expect(try call(method, target).permitted == needed)
    }

    @Test func anAnswerByRulesOfThePastIsNotTaken() throws {
        let log = try silentLog()
        defer { log.close() }
        var login = AdminLogin(
            LoopContext(
                limits: Limits(), memory: MemoryBudget(limit: 1 << 20), inboxes: [], acceptor: try Inbox(),
                connections: ConnectionCount(limit: 1), log: log))
        let outcome = LoginOutcome.accepted(Principal(user: "gone", permissions: .all, proof: .password("hash")))
        login.access = AccessTable(users: [], anonymous: nil, keys: ["another's"])
        guard case .refuse(let problem) = login.check(outcome, .none, for: .stats) else {
            Issue.record("It was accepted.")
            return
        }
        #expect(problem.problem.kind == .unauthenticated)
    }
}

// Responses: problems, heads of streams, and CORS headers for pages of other origins.

import ForebayWire
import Testing

@testable import HTTP2

struct AnswerTests {
    private let page = "https://example.org"

    private func value(_ answer: PlainAnswer, _ name: String) -> String? {
        answer.headers.first { $0.name == name }?.value
    }

    @Test(arguments: Problem.Kind.allCases)
    func problemsAreJSON(kind: Problem.Kind) throws {
        var problem = Problem(kind, "The \"topic\"\n\u{1}é is odd.")
        problem.instance = "/v1/topics/x/messages"
        let answer = PlainProtocol().answer(problem, to: request("GET", "/"))
        #expect(answer.status == kind.status && (400...599).contains(answer.status))
        #expect(value(answer, "content-type") == "application/problem+json")
        let object = try json(answer.body)
        #expect(object["type"] as? String == "/problems/\(kind.rawValue)")
        #expect(object["title"] as? String == kind.title)
        #expect(object["status"] as? Int == kind.status)
        #expect(object["detail"] as? String == problem.detail)
        #expect(object["instance"] as? String == problem.instance)
        #expect(object.count == 5)
        #expect((value(answer, "retry-after") != nil) == [429, 503].contains(kind.status))
        #expect((value(answer, "www-authenticate") != nil) == (kind.status == 401))
    }

    @Test func statusesAreThoseOfTheContract() {
        let statuses = Problem.Kind.allCases.map { "\($0.rawValue) \($0.status)" }
        for expected in [
            "invalid 400", "unauthenticated 401", "forbidden 403", "not-found 404", "ended 409", "too-large 413",
            "limit 429", "draining 503", "blocked 503",
        ] {
            #expect(statuses.contains(expected))
        }
    }

    @Test func aMethodThatIsNotThereGetsThoseThatAre() throws {
        let head = request("DELETE", "/v1/topics/a/messages")
        let answer = PlainProtocol().answer(try #require(refusal(head)), to: head)
        #expect(answer.status == 405)
        #expect(value(answer, "allow") == "GET, HEAD, POST, OPTIONS")
    }

    @Test func streamsHaveTheirHead() {
        let id = SubscriptionID(high: 0, low: 1)
        let answer = PlainProtocol().streamHead(.jsonLines, id: id, to: request("GET", "/"))
        #expect(
            answer.headers == [
                PlainHeader("content-type", "application/x-ndjson"), PlainHeader("x-accel-buffering", "no"),
                PlainHeader("vary", "accept"), PlainHeader("forebay-subscription", id.text),
                PlainHeader("cache-control", "no-store"), PlainHeader("x-content-type-options", "nosniff"),
            ])
        let head = PlainProtocol().streamHead(.eventStream, id: nil, to: request("HEAD", "/"))
        #expect(head.omitsBody && value(head, "forebay-subscription") == nil)
        #expect(value(head, "content-type") == "text/event-stream")
    }

    @Test func publishesAreAnswered() throws {
        let answer = PlainProtocol().answerPublished(sequence: 42, epoch: .max, origin: nil)
        #expect(text(answer.body) == "{\"sequence\":42,\"epoch\":\"18446744073709551615\"}\n")
        #expect(answer.status == 200 && value(answer, "content-type") == "application/json")
        #expect(PlainProtocol().answerEmpty(to: request("POST", "/")).status == 204)
    }

    @Test func withoutConfigurationOtherOriginsGetNothing() throws {
        let plain = PlainProtocol()
        let head = request("POST", "/v1/topics/a/messages", [("origin", page), ("host", "127.0.0.1:7691")])
        let problem = try #require(refusal(head))
        #expect(problem.kind == .foreignOrigin)
        #expect(plain.answer(problem, to: head).headers.allSatisfy { !$0.name.hasPrefix("access-control") })
        let preflight = request(
            "OPTIONS", "/v1/topics/a/messages", [("origin", page), ("access-control-request-method", "POST")])
        #expect(try plain.call(preflight) == .options(allow: "GET, HEAD, POST, OPTIONS"))
        let answer = plain.answerOptions(allow: "POST", to: preflight)
        #expect(answer.headers == [PlainHeader("allow", "POST")])
    }

    @Test(arguments: ["http://127.0.0.1:7691", "HTTPS://127.0.0.1:7691"])
    func theOwnOriginIsAllowed(origin: String) throws {
        let head = request("POST", "/v1/topics/a/messages", [("host", "127.0.0.1:7691"), ("origin", origin)])
        #expect(refusal(head) == nil)
    }

    @Test(arguments: [
        "null", "http://127.0.0.1", "http://127.0.0.1:76910", "https://example.org.evil", "https://example.or",
        "https://EXAMPLE.org", "", "http://", "https://example.org:443", "*",
    ])
    func unlistedOriginsAreNeverNamed(origin: String) throws {
        let plain = PlainProtocol(cors: CORSPolicy(.listed([page])))
        let head = request("GET", "/v1/topics/a/messages", [("host", "127.0.0.1:7691"), ("origin", origin)])
        let problem = try #require(refusal(head, by: plain))
        let answers = [
            plain.answer(problem, to: head), plain.answerPublished(sequence: 1, epoch: 1, origin: head.origin),
            plain.answerOptions(
                allow: "GET",
                to: request("OPTIONS", "/", [("origin", origin), ("access-control-request-method", "GET")])),
        ]
        for answer in answers {
            #expect(answer.headers.allSatisfy { !$0.name.hasPrefix("access-control") })
            #expect(value(answer, "vary") == "origin")
        }
    }

    @Test func listedOriginsAreNamed() throws {
        let plain = PlainProtocol(cors: CORSPolicy(.listed(["https://other.org", page])))
        let head = request("GET", "/v1/topics/a/messages", [("origin", page)])
        #expect(refusal(head, by: plain) == nil)
        let answer = plain.streamHead(.eventStream, id: SubscriptionID(high: 0, low: 1), to: head)
        #expect(value(answer, "access-control-allow-origin") == page)
        #expect(value(answer, "access-control-expose-headers") == "forebay-subscription, retry-after")
        #expect(answer.headers.contains(PlainHeader("vary", "origin")))
        let same = plain.answerPublished(sequence: 1, epoch: 1, origin: nil)
        #expect(same.headers.allSatisfy { !$0.name.hasPrefix("access-control") })
        #expect(value(same, "vary") == "origin")
    }

    @Test func preflightsAreAnswered() throws {
        let plain = PlainProtocol(cors: CORSPolicy(.listed([page])))
        let preflight = request(
            "OPTIONS", "/v1/topics/a/messages",
            [
                ("origin", page), ("access-control-request-method", "POST"),
                (
                    "access-control-request-headers",
                    "Content-Type, x-secret,forebay-header-unit, forebay-header-, forebay-header-\"a"
                ),
            ])
        let answer = plain.answerOptions(allow: "GET, HEAD, POST, OPTIONS", to: preflight)
        #expect(
            answer.headers == [
                PlainHeader("allow", "GET, HEAD, POST, OPTIONS"), PlainHeader("access-control-allow-origin", page),
                PlainHeader("access-control-allow-methods", "GET, HEAD, POST, OPTIONS"),
                PlainHeader("access-control-allow-headers", "content-type, forebay-header-unit"),
                PlainHeader("access-control-max-age", "600"), PlainHeader("vary", "origin"),
            ])
    }

    @Test func everyOriginMayBeAllowed() throws {
        let plain = PlainProtocol(cors: CORSPolicy(.any))
        let head = request("GET", "/v1/topics/a/messages", [("origin", page)])
        #expect(refusal(head, by: plain) == nil)
        let answer = plain.answerEmpty(to: head)
        #expect(value(answer, "access-control-allow-origin") == "*")
        #expect(value(answer, "access-control-allow-credentials") == nil)
    }
}

// Which request is which call, and how requests are refused.

import ForebayWire
import Testing

@testable import HTTP2

struct RoutingTests {
    private func subscribe(
        _ options: [(String, String)], demand: UInt32 = 2_147_483_647, format: StreamFormat = .eventStream,
        isHead: Bool = false, topic: String = "a.b"
    ) -> PlainCall {
        .subscribe(
            SubscribeCall(
                topic: topic, options: options.map { QueryOption($0.0, $0.1) } + [QueryOption("meta", "on")],
                demand: demand, format: format, isHead: isHead))
    }

    @Test func subscriptionsAreRead() throws {
        let plain = PlainProtocol()
        #expect(try plain.call(request("GET", "/v1/topics/a.b/messages")) == subscribe([]))
        #expect(try plain.call(request("HEAD", "/v1/topics/a.b/messages?")) == subscribe([], isHead: true))
        #expect(
            try plain.call(request("GET", "/v1/topics/a%2Eb/messages?replay=5&request=3&overflow=latest"))
                == subscribe([("replay", "5"), ("overflow", "latest")], demand: 3))
        #expect(
            try plain.call(request("GET", "/v1/topics/a.b/messages?&x=%C3%A9+%3D&&y==&meta=on"))
                == subscribe([("x", "é+="), ("y", "=")]))
        #expect(
            try plain.call(request("GET", "http://127.0.0.1:7691/v1/topics/a.b/messages?x=/v1?"))
                == subscribe([("x", "/v1?")]))
        #expect(
            try plain.call(request("GET", "/v1/topics/a%2Fb/messages", [("Accept", "application/x-ndjson")]))
                == subscribe([], format: .jsonLines, topic: "a/b"))
        #expect(
            try plain.call(request("GET", "/v1/topics/a.b/messages?request=2147483647"))
                == subscribe([], demand: 2_147_483_647))
    }

    @Test func whatWasSeenWinsOverTheQuery() throws {
        let call = try PlainProtocol().call(
            request(
                "GET", "/v1/topics/a.b/messages?replay=all&from=3&buffer=9&epoch=5&request=2",
                [("Last-Event-ID", " 18446744073709551615-42 ")]))
        #expect(
            call
                == subscribe(
                    [("buffer", "9"), ("from", "43"), ("epoch", "18446744073709551615")], demand: 2))
        #expect(
            try PlainProtocol().call(request("GET", "/v1/topics/a.b/messages", [("last-event-id", "")]))
                == subscribe([]))
        #expect(
            refusal(request("GET", "/v1/topics/a.b/messages", [("last-event-id", "1-18446744073709551615")]))?.status
                == 400)
    }

    @Test func publishesAndCreditAreRead() throws {
        let plain = PlainProtocol()
        let publish = request(
            "POST", "/v1/topics/a.b/messages",
            [
                ("content-type", "text/csv"), ("Forebay-Header-Unit", " celsius "), ("content-length", "1048576"),
                ("content-encoding", "gzip"), ("user-agent", "x"), ("expect", "100-Continue"),
            ])
        #expect(
            try plain.call(publish)
                == .publish(
                    PublishCall(
                        topic: "a.b", contentType: "text/csv",
                        headers: [PlainHeader("unit", "celsius"), PlainHeader("content-encoding", "gzip")])))
        #expect(publish.expectsContinue)
        let id = SubscriptionID(high: 0, low: 0xAB)
        #expect(try plain.call(request("POST", "/v1/subscriptions/\(id.text)/request?n=5")) == .request(id, 5))
    }

    @Test(arguments: ["/v1/topics/a/messages", "/v1/subscriptions/x/request", "*"])
    func optionsAreAnswered(target: String) throws {
        let plain = PlainProtocol()
        let head = request("OPTIONS", target)
        guard case .options(let allow) = try plain.call(head) else { throw Problem(.invalid, "not OPTIONS") }
        let answer = plain.answerOptions(allow: allow, to: head)
        #expect(answer.status == 204 && answer.body.isEmpty)
        let expected = target.hasPrefix("/v1/subs") ? "POST, OPTIONS" : "GET, HEAD, POST, OPTIONS"
        #expect(answer.headers == [PlainHeader("allow", expected)])
    }

    @Test(arguments: [
        ("GET", "/", 404), ("GET", "/v1", 404), ("GET", "/v1/topics", 404), ("GET", "/v1/topics/a", 404),
        ("GET", "/v1/topics/a/messages/", 404), ("GET", "/v1/topics/a/b/messages", 404),
        ("GET", "/v2/topics/a/messages", 404), ("GET", "//v1/topics/a/messages", 404),
        ("GET", "/V1/topics/a/messages", 404), ("GET", "http://host", 404), ("OPTIONS", "/x", 404),
        ("POST", "/v1/subscriptions/0123/request?n=1", 404), ("GET", "v1/topics/a/messages", 400), ("GET", "", 400),
        ("GET", "*", 400), ("GET", "/v1/topics/%/messages", 400), ("GET", "/v1/topics/%4/messages", 400),
        ("GET", "/v1/topics/%4g/messages", 400), ("GET", "/v1/topics/%+1/messages", 400),
        ("GET", "/v1/topics/%C3/messages", 400), ("GET", "/v1/topics/%ED%A0%80/messages", 400),
        ("GET", "/v1/topics/é/messages", 400), ("GET", "/v1/topics/a b/messages", 400),
        ("GET", "/v1/topics/a/messages#x", 400), ("GET", "/v1/topics/a/messages?x=%zz", 400),
        ("GET", "/v1/topics/a/messages?replay", 400), ("GET", "/v1/topics/a/messages?x=1&%78=2", 400),
        ("GET", "/v1/topics/a/messages?request=0", 400), ("GET", "/v1/topics/a/messages?request=", 400),
        ("GET", "/v1/topics/a/messages?request=-1", 400), ("GET", "/v1/topics/a/messages?request=2147483648", 400),
        ("GET", "/v1/topics/a/messages?request=99999999999999999999", 400),
        ("GET", "/v1/topics/a/messages?meta=off", 400), ("POST", "/v1/topics/a/messages?complete=true", 400),
        ("POST", "/v1/subscriptions/0123/request", 400), ("POST", "/v1/subscriptions/0123/request?n=0", 400),
        ("POST", "/v1/subscriptions/0123/request?n=1&x=2", 400), ("PUT", "/v1/topics/a/messages", 405),
        ("get", "/v1/topics/a/messages", 405), ("GET", "/v1/subscriptions/0123/request?n=1", 405),
        ("GET", "/" + String(repeating: "a", count: 8192), 414),
        ("GET", "/v1/topics/a/messages?" + (0..<33).map { "o\($0)=1&" }.joined(), 400),
    ])
    func othersAreRefused(method: String, target: String, status: Int) throws {
        let problem = try #require(refusal(request(method, target)))
        #expect(problem.status == status, "\(problem)")
        #expect((problem.allow != nil) == (status == 405))
        #expect(problem.detail.hasSuffix(".") && problem.detail.utf8.count > 20, "\(problem.detail)")
    }

    @Test(
        arguments: [
            ([("content-length", "1048577")], 413), ([("content-length", "99999999999999999999999")], 400),
            ([("content-length", "-1")], 400), ([("content-length", "1"), ("content-length", "2")], 400),
            ([("content-type", "a/b"), ("content-type", "a/b")], 400), ([("content-type", "text/é")], 400),
            ([("content-type", String(repeating: "a", count: 129))], 400), ([("forebay-header-", "x")], 400),
            ([("forebay-header-a", "x"), ("Forebay-Header-A", "y")], 400), ([("expect", "coffee")], 417),
            ((0..<257).map { ("forebay-header-\($0)", "x") }, 431),
            ([("forebay-header-a", String(repeating: "x", count: 65_536))], 431),
        ] as [([(String, String)], Int)])
    func headersOfAPublishAreChecked(headers: [(String, String)], status: Int) throws {
        let problem = try #require(refusal(request("POST", "/v1/topics/a/messages", headers)))
        #expect(problem.status == status, "\(problem)")
    }

    @Test func headersThatAreNotUTF8AreRefused() throws {
        var head = request("POST", "/v1/topics/a/messages")
        Array("forebay-header-a".utf8).withUnsafeBytes { name in
            [UInt8(0xE9)].withUnsafeBytes { head.add(name, $0) }
        }
        #expect(refusal(head)?.status == 400)
    }

    /// RFC 9113, section 8.3.1: `:authority` counts, not Host; and no header can replace a pseudo-header.
    @Test func theAuthorityHasPrecedence() {
        var head = PlainRequest(method: "GET", target: "/a", authority: "one")
        head.add("host", "two")
        head.add(":path", "/b")
        head.add(":authority", "three")
        #expect(head.authority == "one" && head.target == "/a")
        #expect(request("GET", "/", [("Host", "two")]).authority == "two")
    }

    @Test func bodiesAreMeasured() throws {
        var limits = PlainLimits()
        limits.body = 10
        try PlainBody.check(10, limits)
        #expect(throws: Problem.self) { try PlainBody.check(11, limits) }
    }

    /// Any request is a call or a refusal.
    @Test func damagedRequestsAreCallsOrRefusals() {
        var random = PlainRandom(11)
        let seeds = [
            "/v1/topics/a%2Eb/messages?request=3&replay=all&from=1", "/v1/subscriptions/00ff/request?n=5",
            "http://h/v1/topics/x/messages?x=%41", "*",
        ]
        var statuses: Set<Int> = []
        for _ in 0..<4000 {
            var bytes = Array(seeds.randomElement(using: &random)!.utf8)
            for _ in 0..<Int.random(in: 0...3, using: &random) where !bytes.isEmpty {
                let index = Int.random(in: 0..<bytes.count, using: &random)
                switch random.next() % 3 {
                case 0: bytes.remove(at: index)
                case 1: bytes.insert("%/?&=#*0a-".utf8.randomElement(using: &random)!, at: index)
                default: bytes[index] = UInt8.random(in: 0...255, using: &random)
                }
            }
            let method = ["GET", "HEAD", "POST", "OPTIONS", "PUT"].randomElement(using: &random)!
            let id = ["1-1", "1-2-end", "x", "18446744073709551615-18446744073709551615"].randomElement(using: &random)!
            let head = request(method, text(bytes), random.next() % 2 == 0 ? [("last-event-id", id)] : [])
            statuses.insert(refusal(head)?.status ?? 200)
        }
        #expect(statuses == [200, 400, 404, 405])
    }
}

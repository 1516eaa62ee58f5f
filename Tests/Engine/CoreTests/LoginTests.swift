// How peers are authenticated: RSocket once by SETUP, HTTP by each request, with the slow part done elsewhere.

import Bytes
import HTTP2
import RSocket
import Testing

@testable import Core

@Suite struct LoginTests {
    private let table = AccessTable.users(["alice": .all, "bob": .none])
    private let basic = "Basic YWxpY2U6c2VjcmV0"

    // RSocket

    @Test func withoutCredentialsSetupIsRejected() {
        let broker = TestBroker(access: table)
        let client = broker.greet()
        let lines = client.received()
        #expect(lines.count == 1 && lines[0].hasPrefix("0:! 3 unauthenticated: This broker requires credentials"))
        #expect(client.isClosed && broker.logins.isEmpty)
    }

    @Test func requestsWaitUntilTheAnswerIsThere() throws {
        let broker = TestBroker(access: table)
        let client = broker.greet(user: "alice")
        #expect(broker.logins.count == 1 && !client.isRead)
        #expect(broker.logins[0].request.credential == .password(user: "alice", Array("secret".utf8)))
        #expect(broker.logins[0].request.address == "127.0.0.1")
        var route = ByteBuffer()
        try CompositeMetadata.appendRoute(["t"], into: &route)
        client.send {
            FrameWriter.requestResponse(
                stream: 1, metadata: route.readable, data: UnsafeRawBufferPointer(start: nil, count: 0),
                fragment: 1 << 20, into: &$0)
        }
        // The check may take any length of time.
        broker.advance(seconds: 8)
        #expect(client.received().isEmpty && !client.isClosed)
        broker.answerLogin(.user("alice", of: table))
        #expect(client.received() == ["1:1|"] && client.isRead)
    }

    @Test(arguments: [
        (LoginOutcome.wrong, "0:! 3 unauthenticated: The credentials are wrong"),
        (.expired(user: "x"), "0:! 3 unauthenticated: The token has expired"),
        (.notYetValid, "0:! 3 unauthenticated: The token is not valid yet"),
        (.slowed(seconds: 7), "0:! 3 limit: Too many logins failed"),
        (.busy, "0:! 3 unavailable: The broker is busy"),
    ])
    func whoIsNotLetInIsToldAndCutOff(_ outcome: LoginOutcome, _ text: String) {
        let broker = TestBroker(access: table)
        let client = broker.greet(user: "alice")
        broker.answerLogin(outcome)
        let lines = client.received()
        #expect(lines.count == 1 && lines[0].hasPrefix(text), "\(lines)")
        #expect(client.isClosed)
    }

    @Test func aTokenIsHandedOverAsItIs() {
        let broker = TestBroker(access: table)
        _ = broker.greet(token: "a.b.c")
        #expect(broker.logins.map(\.request.credential) == [.token(Array("a.b.c".utf8))])
    }

    @Test func credentialsThatCannotBeReadAreRefused() {
        for bytes: [UInt8] in [[], [0x80], [0x80, 0, 9, 0x61], [0x82, 1], [0x80, 0, 1, 0xFF, 0x61]] {
            let broker = TestBroker(access: table)
            let client = TestClient(broker, 0)
            var setup = SetupRequest()
            setup.metadataMime = MimeType.authentication
            bytes.withUnsafeBytes { metadata in
                client.send { FrameWriter.setup(setup, metadata: metadata, into: &$0) }
            }
            let lines = client.received()
            #expect(
                lines.count == 1 && lines[0].hasPrefix("0:! 3 unauthenticated: The credentials are malformed"),
                "\(bytes) \(lines)")
            #expect(broker.logins.isEmpty)
        }
    }

    @Test func anOpenBrokerLooksAtNoCredentials() {
        let broker = TestBroker()
        let client = broker.greet(user: "alice")
        #expect(broker.logins.isEmpty && client.isRead && client.received().isEmpty)
    }

    @Test func whoHasGoneIsForgotten() {
        let broker = TestBroker(access: table)
        let client = broker.greet(user: "alice")
        client.disconnect()
        broker.answerLogin(.user("alice", of: table))
        // By now another client has the slot.
        let other = broker.greet(user: "bob")
        #expect(other.received().isEmpty && broker.logins.count == 1)
    }

    @Test func anAnswerByRulesOfThePastIsNotTaken() {
        let broker = TestBroker(access: table)
        let client = broker.greet(user: "alice")
        broker.reload(AccessTable.users(["bob": .all]))
        broker.answerLogin(.user("alice", of: table))
        #expect(client.received().first?.hasPrefix("0:! 3 unauthenticated: The credentials are wrong") == true)
    }

    @Test func aCertificateLetsItsUserIn() {
        let users = [("alice", "CN=alice,O=x"), ("bob", "bob")].map {
            AccessTable.User(name: $0, certificate: $1, permissions: .all)
        }
        let broker = TestBroker(access: AccessTable(users: users, anonymous: nil))
        for (certificate, isLetIn) in [
            (PeerCertificate(user: "alice", subject: "CN=alice,O=x"), true),
            (PeerCertificate(user: "alice", subject: "CN=alice,O=other"), false),
            (PeerCertificate(user: "bob", subject: "CN=bob,O=x"), true),
            // A name that looks like the whole subject of another certificate.
            (PeerCertificate(user: "CN=alice,O=x", subject: "CN=CN\\=alice\\,O\\=x,O=other"), false),
            (PeerCertificate(user: "eve", subject: "CN=eve"), false), (PeerCertificate(user: nil, subject: ""), false),
        ] {
            let client = TestClient(broker, 0)
            broker.shards[0].secured(client.id, certificate: certificate, now: broker.now)
            client.send { FrameWriter.setup(SetupRequest(), into: &$0) }
            #expect(client.isClosed == !isLetIn, "\(certificate)")
        }
    }

    // HTTP/2

    @Test func eachCallSaysWhoMakesIt() {
        let broker = TestBroker(access: table)
        let client = GRPCClient(broker)
        let open = field(1, "t") + [0x12, 3, 0x12, 1, 0x61]
        let unknown = client.call(.publishOne, open)
        #expect(client.answer(unknown).status == "16")
        let known = client.call(.publishOne, open, authorization: basic)
        #expect(client.answer(known).status == "none" && broker.logins.count == 1)
        broker.answerLogin(.user("alice", of: table))
        #expect(client.answer(known).status == "0")
        // The same credentials are cached for this connection.
        let again = client.call(.publishOne, open, authorization: basic)
        #expect(client.answer(again).status == "0" && broker.logins.isEmpty)
        // Other credentials are not.
        let other = client.call(.publishOne, open, authorization: "Bearer x")
        #expect(client.answer(other).status == "none" && broker.logins.count == 1)
        broker.answerLogin(.wrong)
        #expect(client.answer(other).status == "16")
        #expect(client.answer(other).text.hasPrefix("unauthenticated: The credentials are wrong"))
    }

    @Test func aCallThatWaitsHoldsUpNoOther() {
        let broker = TestBroker(access: AccessTable.users(["alice": .all], anonymous: .all))
        let client = GRPCClient(broker)
        let waiting = client.call(.topicInfo, field(1, "$SYS.events"), authorization: basic)
        let other = client.call(.info)
        #expect(client.answer(other).status == "0" && client.answer(waiting).status == "none")
        client.reset(waiting)
        broker.answerLogin(.wrong)
        #expect(client.answer(waiting).status == "none")
    }

    @Test func whatComesBeforeTheAnswerIsKeptAndBounded() {
        var limits = Limits()
        limits.reassembly = 64 << 10
        let broker = TestBroker(limits: limits, access: table)
        let client = GRPCClient(broker)
        let stream = client.call(.publish, [0x0A, 3, 0x0A, 1, 0x74], end: false, authorization: basic)
        for _ in 0..<20 { client.send(client.data(stream, [UInt8](repeating: 0, count: 8 << 10))) }
        #expect(client.answer(stream).status == "8")
        broker.answerLogin(.user("alice", of: table))
        #expect(client.answer(stream).status == "8")
    }

    @Test func healthAndReflectionAskForNoCredentials() {
        let broker = TestBroker(access: table)
        let client = GRPCClient(broker)
        #expect(client.answer(client.call(.healthCheck)).status == "0")
        #expect(client.answer(client.call(.healthList)).status == "0")
    }

    // HTTP/1.1

    @Test func aRequestWithoutCredentialsIsToldWhichThereAre() throws {
        let broker = HTTP1Broker(access: table)
        let peer = HTTP1Peer(broker)
        peer.send("GET", "/v1/topics/t/messages")
        let answer = try #require(peer.answer())
        #expect(answer.status == 401)
        let challenges = answer.headers.filter { $0.name == "www-authenticate" }.map(\.value)
        #expect(challenges.count == 2 && challenges[0].hasPrefix("Basic ") && challenges[1].hasPrefix("Bearer "))
        peer.over()
        peer.send("OPTIONS", "/v1/topics/t/messages")
        #expect(peer.answer()?.status == 204)
    }

    @Test func aBodyThatComesBeforeTheAnswerIsPublished() {
        for isLate in [false, true] {
            let broker = HTTP1Broker(access: table)
            let peer = HTTP1Peer(broker)
            peer.send("POST", "/v1/topics/t/messages", [("Content-Length", "4"), ("Authorization", basic)])
            peer.body(Array("ab".utf8))
            broker.turn()
            if isLate { broker.answerLogin(.user("alice", of: table)) }
            peer.body(Array("cd".utf8))
            peer.endRequest()
            if !isLate {
                #expect(peer.answer() == nil)
                broker.answerLogin(.user("alice", of: table))
            }
            #expect(peer.answer()?.status == 200)
            #expect(peer.read().text.hasPrefix("{\"sequence\":1"))
        }
    }

    @Test(arguments: [(LoginOutcome.wrong, 401), (.slowed(seconds: 7), 429), (.expired(user: nil), 401)])
    func aRequestThatIsNotLetInIsAnswered(_ outcome: LoginOutcome, _ status: Int) throws {
        let broker = HTTP1Broker(access: table)
        let peer = HTTP1Peer(broker)
        peer.send("GET", "/v1/topics/t/messages", [("Authorization", basic)])
        #expect(peer.answer() == nil)
        broker.answerLogin(outcome)
        let answer = try #require(peer.answer())
        #expect(answer.status == status)
        if status == 429 { #expect(answer.headers.contains { $0 == ("retry-after", "7") }) }
    }

    @Test(arguments: ["Digest x", "Basic", "Basic !", "Basic YWxpY2U=", "Bearer", "Bearer a b", "Basic YWxpY2U6/w"])
    func authorizationThatCannotBeReadIsRefused(_ text: String) {
        let broker = HTTP1Broker(access: table)
        let peer = HTTP1Peer(broker)
        peer.send("GET", "/v1/topics/t/messages", [("Authorization", text)])
        #expect(peer.answer()?.status == 401 && broker.logins.isEmpty)
    }

    // Reports of refused logins

    private func refusals(_ broker: TestBroker) -> [String] {
        broker.log.filter { $0.message == "login refused" && $0.level >= .warning && $0.isFrequent }.map { record in
            record.fields.map { "\($0.key)=\($0.value)" }.joined(separator: " ")
        }
    }

    @Test func refusedLoginsAreLoggedAndCounted() throws {
        let broker = TestBroker(access: table)
        _ = broker.greet()
        _ = broker.greet(user: "hunter2", password: "hunter3")
        broker.answerLogin(.wrong)
        _ = broker.greet(user: "bob", password: "hunter3")
        broker.answerLogin(.wrong)
        let client = GRPCClient(broker)
        let open = field(1, "t") + [0x12, 3, 0x12, 1, 0x61]
        client.call(.publishOne, open)
        client.call(.publishOne, open, authorization: "Basic !")
        client.call(.publishOne, open, authorization: "Bearer hunter2")
        broker.answerLogin(.expired(user: "carol"))
        client.call(.publishOne, open, authorization: "Bearer hunter2")
        broker.answerLogin(.slowed(seconds: 7))
        _ = broker.logIn("alice", of: table)
        let lines = refusals(broker)
        // An existing user is named; any other name may be a password.
        let ends = [
            ("are wrong", " unknown-user=yes protocol=rsocket"), ("are wrong", " user=bob protocol=rsocket"),
            ("are malformed", " protocol=http"), ("has expired", " user=carol protocol=http"),
            ("Too many logins", " protocol=http"),
        ]
        #expect(lines.count == ends.count)
        for (line, (cause, end)) in zip(lines, ends) {
            #expect(line.hasPrefix("cause=") && line.contains(cause), "\(line)")
            #expect(line.hasSuffix("\(end) address=127.0.0.1") && !line.contains("hunter"), "\(line)")
        }
        #expect(lines.count { $0.contains("user=") } == 3)
        let counters = broker.shards[0].counters
        #expect(counters.loginsAccepted == 1 && counters.loginsRefused == 4 && counters.loginsSlowed == 1)
        // A request without credentials is not a login.
        #expect(counters.loginsMissing == 2)
    }

    /// Clients that reach a limit have been authenticated, and the refusal names the limit.
    @Test func whoReachesALimitIsNoLoginRefused() {
        var limits = Limits()
        limits.connectionsPerUser = 1
        let broker = TestBroker(limits: limits, access: table)
        _ = broker.logIn("alice", of: table)
        let second = broker.logIn("alice", of: table)
        #expect(second.received().first?.contains("the maximum") == true)
        let counters = broker.shards[0].counters
        #expect(counters.loginsAccepted == 2 && counters.loginsRefused == 0 && refusals(broker).isEmpty)
    }

    @Test func statisticsTellOfLogins() {
        let broker = TestBroker(access: table)
        for outcome in [LoginOutcome.wrong, .wrong, .slowed(seconds: 1)] {
            _ = broker.greet(user: "alice")
            broker.answerLogin(outcome)
        }
        let client = broker.logIn("alice", of: table)
        client.subscribe("$SYS.stats")
        broker.advance(seconds: 2)
        let text = "\"logins_accepted\":1,\"logins_refused\":2,\"logins_slowed\":1,\"logins_missing\":0,"
        #expect(client.received().last?.contains(text) == true)
    }

    @Test func secretsHaveNoDescription() {
        let credential = Credential.password(user: "alice", Array("secret".utf8))
        var dumped = ""
        dump(credential, to: &dumped)
        for text in ["\(credential)", String(reflecting: credential), dumped] { #expect(!text.contains("115")) }
    }
}

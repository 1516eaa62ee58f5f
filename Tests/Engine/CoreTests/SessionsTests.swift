// Limits on resumable connections, what ends them, and who owns them.

import Bytes
import HTTP2
import RSocket
import Testing

@testable import Core

@Suite struct SessionsTests {
    private func broker(shards: Int = 1, _ change: (inout Limits) -> Void = { _ in }) -> TestBroker {
        var limits = Limits()
        change(&limits)
        return TestBroker(shards: shards, limits: limits)
    }

    private func token(_ number: UInt8) -> [UInt8] { [UInt8](repeating: number, count: 16) }

    private static let noSession = "4 not-found: The session does not exist, or has ended; reconnect with SETUP."

    // Time

    @Test func whoDoesNotComeBackHasLeft() {
        let broker = broker { $0.resumeTime = 5 * Limits.second }
        let other = broker.connect()
        let client = ResumingClient(broker)
        client.subscribe("a", n: 9, stream: 1)
        client.request("b?complete=true&on-loss=fail", "1") {
            FrameWriter.requestChannel(
                stream: 3, initialN: 9, complete: false, metadata: $0, data: $1, fragment: 0, into: &$2)
        }
        other.subscribe("b?replay=all", stream: 1)
        client.lose()
        broker.advance(seconds: 4.5)
        #expect(other.received() == ["1:1"])
        #expect(broker.shards[0].subscriptions.count == 2 && broker.shards[0].currentCounters().detached == 1)
        broker.advance(seconds: 1)
        #expect(other.received().first?.hasPrefix("1:! 201 topic failed") == true)
        #expect(broker.shards[0].subscriptions.count == 0 && broker.shards[0].currentCounters().detached == 0)
        #expect(broker.shards[0].counters.limits[.resumeTime] == 1)
        client.resume()
        #expect(client.refusal == Self.noSession)
        other.disconnect()
        broker.advance(seconds: 3)
        #expect(broker.quotas.connections.value == 0 && broker.quotas.sessions.count == 0)
    }

    @Test func aSilentSocketIsGivenUpWithoutAWord() {
        let broker = broker { $0.lifetime = Limits.second...(2 * Limits.second) }
        let client = ResumingClient(broker)
        client.subscribe("a", n: 9, stream: 1)
        client.answers = false
        broker.advance(seconds: 2.5)
        client.take()
        #expect(client.socket.isClosed && client.refusal == nil)
        broker.connect().publish("a", "1")
        client.resume()
        #expect(client.resumed == 1 && client.lines == ["1:1"])
    }

    // What ends a session

    @Test func anErrorEndsIt() {
        let broker = broker()
        let client = ResumingClient(broker)
        client.subscribe("a", n: 9, stream: 1)
        // A request on stream 0.
        client.send { $0.append([0, 0, 6, 0, 0, 0, 0, 0x10, 0]) }
        #expect(client.refusal?.hasPrefix("101 ") == true)
        client.resume()
        #expect(client.refusal == Self.noSession)
    }

    @Test func aBrokerThatDrainsKeepsNobodyAndTakesNobodyBack() {
        let broker = broker()
        let gone = ResumingClient(broker, token: token(1))
        let here = ResumingClient(broker, token: token(2))
        here.subscribe("a?buffer=5", n: 1, stream: 1)
        for n in 1...2 { broker.connect().publish("a", "\(n)") }
        gone.lose()
        broker.shards[0].drain(now: broker.now)
        broker.run()
        #expect(broker.shards[0].currentCounters().detached == 0)
        #expect(broker.quotas.sessions.count == 1)
        here.lose()
        #expect(broker.quotas.sessions.count == 0)
    }

    @Test func aSocketThatIsUnderWayWhenItsSessionEndsIsRefused() {
        let broker = broker(shards: 2) { $0.resumeTime = Limits.second }
        let client = ResumingClient(broker)
        client.lose()
        broker.shards[0].drain(now: broker.now)
        client.resume(on: 1)
        #expect(client.refusal == Self.noSession && client.resumed == 0)
    }

    @Test func aRefusedSocketIsClosedAndCountsNoMore() {
        let broker = broker(shards: 2)
        let client = ResumingClient(broker)
        client.subscribe("a", n: 9, stream: 1)
        client.lose()
        for _ in 0..<3 { client.resume(on: 1, has: 5) }
        #expect(
            client.refusal
                == "4 gap: The session cannot continue from position 5, which is ahead of the 0 bytes that were sent; "
                + "reconnect with SETUP.")
        client.resume(on: 1, first: 1_000_000)
        #expect(client.refusal?.hasPrefix("4 gap: The client no longer has the data from position ") == true)
        broker.run()
        #expect(broker.quotas.connections.value == 0)
        #expect(broker.shards.map { $0.counters.resumptionsRefused } == [4, 0])
        client.resume(on: 0)
        #expect(client.resumed == 1 && client.lines.isEmpty)
    }

    // Ownership

    private let users = AccessTable.users(["alice": .all, "bob": .all])

    /// A session of a user, on plain-text routes.
    private func session(_ broker: TestBroker, _ user: String, token: [UInt8], expires: Int64? = nil) -> TestClient {
        let client = TestClient(broker, 0)
        var setup = SetupRequest()
        setup.metadataMime = MimeType.authentication
        setup.lifetime = 600_000
        setup.resumeToken = token
        var metadata = ByteBuffer()
        metadata.append([0x80, 0, UInt8(user.utf8.count)] + Array(user.utf8) + Array("secret".utf8))
        client.send { FrameWriter.setup(setup, metadata: metadata.readable, into: &$0) }
        broker.answerLogin(.user(user, of: users, expires: expires))
        return client
    }

    private func resume(_ broker: TestBroker, token: [UInt8], on shard: Int = 0) -> TestClient {
        let client = TestClient(broker, shard)
        client.send {
            FrameWriter.resume(
                token: token, lastReceivedServerPosition: 0, firstAvailableClientPosition: 0, into: &$0)
        }
        return client
    }

    @Test func aSessionStaysItsUsers() {
        let broker = TestBroker(access: users)
        let client = session(broker, "alice", token: token(1))
        client.subscribe("a")
        client.disconnect()
        let again = resume(broker, token: token(1))
        #expect(again.received() == ["RESUME_OK"])
        #expect(broker.shards[0].find(again.id)?.principal?.user == "alice")
        #expect(broker.shards[0].rateLimiter.rateLimit(of: "alice").account.connections.value == 1)
    }

    @Test(arguments: [false, true]) func whoIsNotLetInAnyMoreDoesNotComeBack(byTime: Bool) {
        let broker = TestBroker(access: users)
        let expires = byTime ? broker.now.wall + 2_000_000_000 : nil
        session(broker, "alice", token: token(1), expires: expires).disconnect()
        session(broker, "bob", token: token(2)).disconnect()
        if byTime {
            broker.advance(seconds: 3)
        } else {
            broker.reload(AccessTable.users(["bob": .all]))
        }
        #expect(resume(broker, token: token(1)).received() == ["0:! \(Self.noSession)"])
        #expect(resume(broker, token: token(2)).received() == ["RESUME_OK"])
        broker.advance(seconds: 1)
        #expect(broker.shards[0].currentCounters().detached == 0)
    }

    @Test func theSocketMustShowWhatTheFirstOneDid() {
        let alice = PeerCertificate(user: "alice", subject: "CN=alice")
        let bob = PeerCertificate(user: "bob", subject: "CN=bob")
        let kinds: [(isSecured: Bool, certificate: PeerCertificate?)] = [
            (false, nil), (true, nil), (true, alice), (true, bob),
        ]
        for (number, first) in kinds.enumerated() {
            for (other, second) in kinds.enumerated() {
                let broker = TestBroker(shards: 2)
                let client = TestClient(broker, 0)
                if first.isSecured {
                    broker.shards[0].secured(client.id, certificate: first.certificate, now: broker.now)
                }
                var setup = SetupRequest()
                setup.resumeToken = token(1)
                client.send { FrameWriter.setup(setup, into: &$0) }
                client.disconnect()
                let again = TestClient(broker, 1)
                if second.isSecured {
                    broker.shards[1].secured(again.id, certificate: second.certificate, now: broker.now)
                }
                again.send {
                    FrameWriter.resume(
                        token: token(1), lastReceivedServerPosition: 0, firstAvailableClientPosition: 0, into: &$0)
                }
                #expect(again.received() == [number == other ? "RESUME_OK" : "0:! \(Self.noSession)"])
            }
        }
    }

    // Numbers

    @Test func tokensAreNeitherShortNorLongNorShared() {
        let broker = broker()
        for count in [0, 15, 129] {
            let client = ResumingClient(broker, token: [UInt8](repeating: 7, count: count))
            client.take()
            #expect(client.refusal?.hasPrefix("3 invalid: The resume token has \(count) bytes; use 16 to 128") == true)
        }
        let first = ResumingClient(broker, token: token(1))
        let second = ResumingClient(broker, token: token(1))
        second.take()
        #expect(second.refusal?.hasPrefix("3 invalid: The resume token is in use by another") == true)
        first.publish("a", "1", stream: 1)
        #expect(first.lines == ["1:1|"] && first.refusal == nil)
        _ = ResumingClient(broker, token: [UInt8](repeating: 9, count: 128))
        #expect(broker.quotas.sessions.count == 2)
    }

    @Test func thereAreSoManyInAllAndOfAUser() {
        let inAll = broker {
            $0.sessions = 2
        }
        let some = (1...3).map { ResumingClient(inAll, token: token($0)) }
        some[2].take()
        #expect(some[2].refusal?.hasPrefix("3 limit: The broker has 2 resumable connections") == true)
        #expect(inAll.shards[0].counters.limits[.sessions] == 1)
        // A client that does not ask for resumption is accepted.
        inAll.connect().publish("a", "1")
        let ofUser = broker { $0.sessionsPerUser = 1 }
        _ = ResumingClient(ofUser, token: token(1))
        let second = ResumingClient(ofUser, token: token(2))
        second.take()
        #expect(second.refusal?.hasPrefix("3 limit: Anonymous clients have 1 resumable connection,") == true)
        #expect(ofUser.shards[0].counters.limits[.sessionsPerUser] == 1 && ofUser.quotas.sessions.count == 1)
    }

    @Test func nobodyIsKeptWhereResumptionIsOff() {
        let broker = broker { $0.resumeTime = 0 }
        let client = ResumingClient(broker)
        client.take()
        #expect(client.refusal == "3 unsupported: Resumption is not enabled; connect without a resume token.")
    }

    // Kept data

    private func output(_ client: ResumingClient) -> (count: Int, unacknowledged: Int) {
        let connection = client.broker.shards[client.socket.shard].find(client.socket.id)!
        return (connection.output.count, connection.output.unacknowledged)
    }

    @Test func messagesWaitUntilEarlierOnesAreAcknowledged() {
        let broker = broker { $0.resumeBuffer = 1000 }
        let client = ResumingClient(broker)
        client.answers = false
        client.subscribe("a?buffer=1000", n: 1000, stream: 1)
        let other = broker.connect()
        let text = String(repeating: "x", count: 91)
        for n in 0..<50 { other.publish("a", text, stream: UInt32(3 + 2 * n)) }
        client.take()
        #expect(client.lines.count == 10 && output(client) == (0, 1000))
        #expect(broker.shards[0].counters.limits[.resumeBuffer] == 1)
        client.acknowledge()
        #expect(client.lines.count == 20 && broker.shards[0].counters.limits[.resumeBuffer] == 2)
        // A client that acknowledges is never held up.
        client.answers = true
        client.acknowledge()
        #expect(client.lines.count == 50)
    }

    /// The last message may exceed the buffer, which is then full until it is acknowledged.
    @Test func aMessageLargerThanTheBufferGoesAlone() {
        let broker = broker { $0.resumeBuffer = 1000 }
        let client = ResumingClient(broker)
        client.answers = false
        client.subscribe("a", n: 1000, stream: 1)
        let other = broker.connect()
        for n in 0..<3 { other.publish("a", String(repeating: "x", count: 5000), stream: UInt32(3 + 2 * n)) }
        client.take()
        #expect(client.lines.count == 1 && output(client) == (0, 5009))
        // RESUME acknowledges as well.
        client.lose()
        client.resume()
        #expect(client.lines.count == 2)
        client.acknowledge()
        #expect(client.lines.count == 3)
    }

    @Test func answersAreNotHeldUpAndPushOutTheOldest() {
        let broker = broker { $0.resumeBuffer = 4096 }
        let client = ResumingClient(broker)
        client.answers = false
        // Refusals of about 100 bytes each, none of which is acknowledged.
        for n in 0..<2000 { client.publish("not a name", "", stream: UInt32(1 + 2 * n)) }
        #expect(client.lines.count == 2000)
        let kept = output(client).unacknowledged
        #expect(kept > 60_000 && kept <= 4096 + Limits().controlOutput)
        #expect(broker.memory.used < 4 * kept)
        client.lose()
        client.resume(has: 0)
        #expect(client.refusal?.hasPrefix("4 gap: The session cannot continue from position 0") == true)
        client.resume()
        client.publish("a", "1", stream: 5001)
        #expect(client.resumed == 1 && client.lines.last == "5001:1|")
    }

    @Test func memoryThatIsShortGoesToNobodyForKeepingMore() {
        let broker = broker { $0.memory = 1 << 20 }
        let client = ResumingClient(broker)
        client.answers = false
        client.subscribe("a?buffer=1000", n: 1000, stream: 1)
        let other = broker.connect()
        other.publish("a", "1", stream: 1)
        client.take()
        #expect(client.lines.count == 1)
        broker.memory.limit = 1
        other.publish("b", "1", stream: 3)
        let before = broker.memory.used
        for n in 0..<20 { other.publish("a", String(repeating: "x", count: 30), stream: UInt32(5 + 2 * n)) }
        client.take()
        let count = client.lines.count
        #expect(count <= 2 && broker.memory.used - before < 64 << 10)
        broker.memory.limit = 1 << 20
        broker.advance(seconds: 0.5)
        other.publish("a", "on", stream: 99)
        client.take()
        #expect(client.lines.last == "1:on")
    }

    @Test func whatWasKeptIsGivenBack() {
        let broker = broker()
        let before = broker.memory.used
        let client = ResumingClient(broker)
        client.subscribe("a", n: 1000, stream: 1)
        for n in 0..<5 { client.publish("a", String(repeating: "x", count: 20_000), stream: UInt32(3 + 2 * n)) }
        let topic = broker.shards[0].topics["a"]!.log.memory
        #expect(broker.memory.used > before + topic + 100_000)
        client.lose()
        broker.advance(seconds: 31)
        #expect(broker.memory.used <= before + topic + 32 << 10)
    }

    // In flight

    @Test func whatFollowsResumeIsDealtWith() {
        let broker = broker(shards: 2)
        let client = ResumingClient(broker)
        client.lose()
        let again = TestClient(broker, 1)
        again.send { buffer in
            FrameWriter.resume(
                token: client.token, lastReceivedServerPosition: 0, firstAvailableClientPosition: 0, into: &buffer)
            Array("hi".utf8).withUnsafeBytes {
                FrameWriter.keepalive(respond: true, position: 0, data: $0, into: &buffer)
            }
            buffer.append([0, 0])
        }
        #expect(again.received() == ["RESUME_OK", "keepalive hi"])
        // The rest of a frame that had begun.
        again.send { $0.append([6, 0, 0, 0, 9, 0x24, 0]) }
        #expect(broker.shards[0].find(again.id)?.rsocket.received == 6)
    }

    /// The time limit of an incomplete request does not run while there is no socket.
    @Test func unfinishedRequestsAreNotBlamedForTheSocket() {
        let broker = broker { $0.reassemblyTime = 3 * Limits.second }
        let client = ResumingClient(broker)
        var frames = ByteBuffer()
        let route = Array("a".utf8)
        let data = [UInt8](repeating: 120, count: 100)
        route.withUnsafeBytes { route in
            data.withUnsafeBytes {
                FrameWriter.requestResponse(stream: 1, metadata: route, data: $0, fragment: 64, into: &frames)
            }
        }
        let first = 3 + frames.readable.u24(at: 0)
        client.send { $0.append(frames.readable.slice(0..<first)) }
        client.lose()
        broker.advance(seconds: 10)
        client.resume()
        broker.advance(seconds: 2)
        client.send { $0.append(frames.readable.slice(first..<frames.count)) }
        #expect(client.lines == ["1:1|"])
    }

    @Test func oneThatIsDetachedIsListedAndCanBeClosed() {
        let broker = broker()
        let client = ResumingClient(broker)
        client.subscribe("a", n: 9, stream: 1)
        client.lose()
        let other = broker.connect()
        other.subscribe("$SYS.connections", stream: 1)
        let rows = other.received()
        #expect(rows.filter { $0.contains("\"state\":\"detached\"") && $0.contains("\"unacknowledged\":0") }.count == 1)
        #expect(rows.filter { $0.contains("\"state\":\"attached\"") }.count == 1)
        other.publish("$SYS.connection.close?id=0-0-\(client.socket.id.generation)", "", stream: 3)
        #expect(other.received().first?.contains("detached") == true)
        #expect(broker.shards[0].subscriptions.count == 0 && broker.quotas.connections.value == 1)
    }
}

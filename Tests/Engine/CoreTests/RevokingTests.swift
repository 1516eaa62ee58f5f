// What ends when permissions are withdrawn, users removed, or tokens expire; everything else continues.

import Bytes
import HTTP2
import RSocket
import Testing

@testable import Core

@Suite struct RevokingTests {
    private let before = AccessTable.users(["alice": .all, "bob": .all])

    @Test(arguments: [1, 2]) func streamsThatAreNoLongerAllowedEnd(shards: Int) {
        let broker = TestBroker(shards: shards, access: before)
        let client = broker.logIn("alice", of: before)
        let other = broker.logIn("bob", of: before, shard: shards - 1)
        client.subscribe("a", stream: 11)
        client.subscribe("b", stream: 13)
        client.subscribe("c?overflow=block", stream: 15)
        client.channel("a", "1", stream: 17)
        client.channel("b", "1", stream: 19)
        other.subscribe("a", stream: 11)
        _ = (client.received(), other.received())
        broker.reload(
            AccessTable.users([
                "alice": Permissions(publish: topics("a", "c"), subscribe: topics("b", "c")), "bob": .all,
            ]))
        let lines = client.received()
        let ended = lines.filter { $0.contains("! 202 forbidden: User 'alice' may not ") }.compactMap {
            $0.split(separator: ":").first
        }
        #expect(ended.sorted() == ["11", "15", "19"], "\(lines)")
        // The remaining streams continue.
        other.publish("b", "2", stream: 21)
        client.items(["2"], stream: 17)
        #expect(client.received().contains("13:2"))
        #expect(other.received().contains("11:2"))
        // New requests are checked against the new rules.
        client.subscribe("a", stream: 23)
        client.publish("b", "x", stream: 25)
        #expect(client.received().filter { $0.contains("may not") }.count == 2)
    }

    @Test func whatEndsIsCounted() {
        let broker = TestBroker(access: before)
        let clients = ["alice", "alice", "bob"].map { broker.logIn($0, of: before) }
        for client in clients {
            client.subscribe("a", stream: 11)
            client.channel("b", "1", stream: 13)
        }
        func reviewed(_ table: AccessTable) -> [Int] {
            broker.reload(table)
            broker.runAll()
            let review = broker.shards[0].effects.reviewed
            broker.shards[0].effects.reviewed = nil
            return review.map { $0.access === table ? [$0.streams, $0.connections] : [] } ?? []
        }
        #expect(reviewed(AccessTable.users(["alice": .all, "bob": .all])) == [0, 0])
        #expect(reviewed(AccessTable.users(["alice": Permissions(subscribe: topics("a")), "bob": .all])) == [2, 0])
        #expect(reviewed(AccessTable.users(["bob": .all])) == [2, 2])
        #expect(reviewed(AccessTable.users(["bob": .all])) == [0, 0])
    }

    /// A review that starts while another is in progress reports for both.
    @Test func whatEndedForEarlierPermissionsIsCountedWithTheNext() {
        let broker = TestBroker(access: before)
        let client = broker.logIn("alice", of: before)
        for stream in 0..<300 { client.subscribe("a", stream: UInt32(11 + 2 * stream)) }
        let shard = broker.shards[0]
        shard.reload(AccessTable.users(["alice": .none]), now: broker.now)
        #expect(shard.hasWork && shard.effects.reviewed == nil)
        shard.reload(AccessTable.users(["alice": .none]), now: broker.now)
        broker.runAll()
        #expect(shard.effects.reviewed?.streams == 300)
    }

    /// A review that ends in the same turn as the previous one, before that was reported, reports for both.
    @Test func whatTwoReviewsOfOneTurnEndedIsCounted() {
        let broker = TestBroker(access: before)
        let clients = ["alice", "bob"].map { broker.logIn($0, of: before) }
        for client in clients { client.subscribe("a", stream: 11) }
        let shard = broker.shards[0]
        shard.reload(AccessTable.users(["alice": .none, "bob": .all]), now: broker.now)
        #expect(shard.effects.reviewed?.streams == 1)
        let last = AccessTable.users(["alice": .none, "bob": .none])
        shard.reload(last, now: broker.now)
        #expect(shard.effects.reviewed?.streams == 2 && shard.effects.reviewed?.access === last)
        broker.runAll()
    }

    @Test func whoPublishedBeforeIsAskedAgain() {
        let broker = TestBroker(access: before)
        let client = broker.logIn("alice", of: before)
        client.publish("a", "1")
        broker.reload(AccessTable.users(["alice": .none]))
        client.publish("a", "2", stream: 7)
        #expect(client.received().last?.hasPrefix("7:! 202 forbidden: User 'alice' may not publish") == true)
    }

    @Test func aUserWhoIsGoneIsCutOff() {
        let broker = TestBroker(access: before)
        let client = broker.logIn("alice", of: before)
        let other = broker.logIn("bob", of: before)
        client.subscribe("a")
        broker.reload(AccessTable.users(["bob": .all]))
        #expect(client.received().last == "1:! 202 unauthenticated: The user was removed from this broker.")
        client.publish("a", "x")
        #expect(client.received().last?.hasPrefix("3:! 202 ") == true)
        broker.advance(seconds: 0.5)
        #expect(client.received().last?.hasPrefix("0:! 101 unauthenticated: The user was removed from") == true)
        #expect(client.isClosed && !other.isClosed)
    }

    @Test func aNewPasswordMakesItsUserLogInAnew() {
        let broker = TestBroker(access: before)
        let client = broker.logIn("alice", of: before)
        let same = AccessTable.User(name: "alice", password: "hash-alice", permissions: .all)
        let new = AccessTable.User(name: "alice", password: "another", permissions: .all)
        broker.reload(AccessTable(users: [same], anonymous: nil))
        broker.advance(seconds: 0.5)
        #expect(!client.isClosed)
        broker.reload(AccessTable(users: [new], anonymous: nil))
        broker.advance(seconds: 0.5)
        #expect(client.isClosed)
    }

    @Test func callsEndAndConnectionsGoOn() {
        let broker = TestBroker(access: before)
        let client = GRPCClient(broker)
        let basic = "Basic YWxpY2U6c2VjcmV0"
        let a = client.call(.subscribe, [0x0A, 5, 0x0A, 1, 0x61, 0x10, 1], end: false, authorization: basic)
        broker.answerLogin(.user("alice", of: before))
        let b = client.call(.subscribe, [0x0A, 5, 0x0A, 1, 0x62, 0x10, 1], end: false, authorization: basic)
        let after = AccessTable.users(["alice": Permissions(subscribe: topics("b"))])
        broker.reload(after)
        #expect(client.answer(a).status == "7" && client.answer(b).status == "none")
        // Credentials are checked again.
        let again = client.call(.subscribe, [0x0A, 5, 0x0A, 1, 0x62, 0x10, 1], end: false, authorization: basic)
        #expect(broker.logins.count == 1)
        broker.answerLogin(.user("alice", of: after))
        #expect(client.answer(again).status == "none" && client.answer(again).message != nil)
    }

    @Test func anExpiredTokenEndsItsConnection() {
        let broker = TestBroker(access: before)
        let expires = broker.now.wall + 10_000_000_000
        let client = broker.logIn("alice", of: before, expires: expires)
        client.subscribe("a")
        broker.advance(seconds: 9)
        #expect(client.received().isEmpty && !client.isClosed)
        broker.advance(seconds: 1.5)
        #expect(
            client.received() == ["0:! 101 unauthenticated: The token has expired; get a new one."] && client.isClosed)
    }

    @Test func anExpiredTokenEndsItsCalls() {
        let broker = TestBroker(access: before)
        let expires = broker.now.wall + 10_000_000_000
        let client = GRPCClient(broker)
        let open: [UInt8] = [0x0A, 5, 0x0A, 1, 0x61, 0x10, 1]
        let short = client.call(.subscribe, open, end: false, authorization: "Bearer x")
        broker.answerLogin(.user("alice", of: before, expires: expires))
        let long = client.call(.subscribe, open, end: false, authorization: "Bearer y")
        broker.answerLogin(.user("bob", of: before))
        broker.advance(seconds: 10.5)
        #expect(
            client.answer(short).status == "16"
                && client.answer(short).text.hasPrefix("unauthenticated: The token has expired"))
        #expect(client.answer(long).status == "none")
        // What was cached for the token is gone.
        let again = client.call(.subscribe, open, end: false, authorization: "Bearer x")
        #expect(client.answer(again).status == "none" && broker.logins.count == 1)
    }

    @Test func anExpiredTokenEndsAnEventStream() throws {
        let broker = HTTP1Broker(access: before)
        let peer = HTTP1Peer(broker)
        peer.send("GET", "/v1/topics/t/messages", [("Authorization", "Bearer x")])
        broker.turn()
        broker.answerLogin(.user("alice", of: before, expires: broker.now.wall + 5_000_000_000))
        _ = try #require(peer.answer())
        _ = peer.read()
        broker.now.wall += 6_000_000_000
        broker.advance(0.5)
        let rest = peer.read()
        #expect(
            rest.text.contains("event: failed") && rest.text.contains("unauthenticated: The token has expired")
                && rest.end == .end)
    }

    // Cached permissions

    @Test func severalTopicsAreRememberedAsAllowed() {
        var allowed = AllowedTargets()
        let targets = (0..<6).map { PublishTarget(name: "t\($0)", owner: 0) }
        for target in targets { allowed.insert(target) }
        #expect(targets.map { allowed.contains($0) } == [false, false, true, true, true, true])
    }

    @Test func whatIsRememberedAsAllowedIsForgottenWithAReload() {
        let before = AccessTable.users(["alice": .all])
        let broker = TestBroker(access: before)
        let client = broker.logIn("alice", of: before)
        for round in 0..<3 {
            client.publish("a", "1", stream: UInt32(4 * round + 1))
            client.publish("b", "1", stream: UInt32(4 * round + 3))
        }
        #expect(client.received().allSatisfy { !$0.contains("!") })
        broker.reload(AccessTable.users(["alice": Permissions(publish: topics("b"))]))
        client.publish("a", "2", stream: 101)
        client.publish("b", "2", stream: 103)
        #expect(client.received().map { $0.contains("may not publish") } == [true, false])
    }
}

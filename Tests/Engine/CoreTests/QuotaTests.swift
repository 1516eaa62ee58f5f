// What is counted over all shards of a broker, and per user: limits are reached, are counted separately, and become
// free again.

import Bytes
import RSocket
import Testing

@testable import Core

@Suite struct QuotaTests {
    private let table = AccessTable.users(["alice": .all, "bob": .all])

    private func broker(shards: Int = 2, access: AccessTable? = nil, _ set: (inout Limits) -> Void) -> TestBroker {
        var limits = Limits()
        set(&limits)
        return TestBroker(shards: shards, limits: limits, access: access ?? table)
    }

    private func reached(_ limit: LimitReached, _ broker: TestBroker) -> UInt64 {
        broker.shards.reduce(0) { $0 + $1.counters.limits[limit] }
    }

    private func open(_ broker: TestBroker, _ shard: Int, _ peer: String) -> ConnectionID? {
        broker.shards[shard].open(peer: peer, wireProtocol: .rsocket, now: broker.now)
    }

    // Connections

    @Test func connectionsAreCountedOverAllShards() throws {
        let broker = broker(access: .open) { $0.connections = 3 }
        // All connections are on one shard, whose share of the limit would be two.
        let ids = (0..<3).map { open(broker, 0, "10.0.0.\($0):1") }
        #expect(ids.allSatisfy { $0 != nil })
        #expect(open(broker, 1, "10.0.0.9:1") == nil)
        #expect(reached(.connections, broker) == 1)
        broker.shards[0].lost(try #require(ids[1]), reason: "test", now: broker.now)
        #expect(open(broker, 1, "10.0.0.9:1") != nil)
        #expect(open(broker, 0, "10.0.0.9:1") == nil)
    }

    /// A short network outage cuts all sockets, and all clients reconnect.
    @Test(arguments: [\Limits.connections, \Limits.connectionsPerAddress])
    func aBrokerThatIsFullLetsThoseBackWhoWereThere(_ limit: WritableKeyPath<Limits, Int> & Sendable) {
        let broker = broker(access: .open) { $0[keyPath: limit] = 3 }
        let clients = (0..<3).map { number in
            ResumingClient(broker, shard: number % 2, token: [UInt8](repeating: UInt8(number), count: 16))
        }
        for (n, client) in clients.enumerated() { client.subscribe("a", n: 9, stream: UInt32(1 + 2 * n)) }
        #expect(open(broker, 0, "127.0.0.1:1") == nil)
        for client in clients { client.lose() }
        #expect(broker.quotas.connections.value == 0)
        for client in clients { client.resume() }
        #expect(clients.allSatisfy { $0.resumed == 1 } && broker.quotas.connections.value == 3)
        #expect(open(broker, 0, "127.0.0.1:1") == nil)
        for client in clients { client.lose() }
        broker.advance(seconds: 31)
        #expect(broker.quotas.connections.value == 0 && broker.quotas.sessions.count == 0)
        #expect((0..<3).allSatisfy { open(broker, 0, "127.0.0.1:\($0)") != nil })
    }

    @Test func anAddressIsCountedOverAllShards() throws {
        let broker = broker(access: .open) { $0.connectionsPerAddress = 2 }
        let first = open(broker, 0, "10.0.0.1:1")
        #expect(first != nil && open(broker, 1, "10.0.0.1:2") != nil)
        #expect(open(broker, 0, "10.0.0.1:3") == nil && open(broker, 1, "10.0.0.1:4") == nil)
        #expect(reached(.connectionsPerAddress, broker) == 2)
        #expect(open(broker, 1, "10.0.0.2:1") != nil, "another address is not affected")
        broker.shards[0].lost(try #require(first), reason: "test", now: broker.now)
        #expect(open(broker, 1, "10.0.0.1:5") != nil)
        #expect(broker.quotas.connections.value == 3)
    }

    /// An IPv6 host can use a whole /64: it counts as one address.
    @Test func addressesOfOneNetworkAreCountedTogether() throws {
        let broker = broker(access: .open) { $0.connectionsPerAddress = 2 }
        let first = open(broker, 0, "[2001:db8:0:1::1]:1")
        #expect(first != nil && open(broker, 1, "[2001:db8:0:1:ffff::2]:2") != nil)
        #expect(open(broker, 0, "[2001:db8:0:1::3]:3") == nil)
        #expect(open(broker, 0, "[2001:db8:0:2::1]:1") != nil, "another network is not affected")
        broker.shards[0].lost(try #require(first), reason: "test", now: broker.now)
        #expect(open(broker, 1, "[2001:db8:0:1::4]:4") != nil)
    }

    @Test(arguments: [
        ("127.0.0.1", "127.0.0.1"), ("[2001:db8:1:2:3:4:5:6]", "2001:db8:1:2::/64"),
        ("[2001:db8::1]", "2001:db8:0:0::/64"),
        ("[::1]", "0:0:0:0::/64"), ("[fe80::1%eth0]", "fe80:0:0:0::/64"), ("[::ffff:10.0.0.1]", "[::ffff:10.0.0.1]"),
        ("[::]", "0:0:0:0::/64"), ("[", "["), ("", ""),
    ]) func anAddressOfIPv6StandsForItsNetwork(_ address: String, _ block: String) {
        #expect(AddressBlock.of(address) == block)
    }

    @Test func connectionsOfAUser() {
        let broker = broker { $0.connectionsPerUser = 2 }
        let first = broker.logIn("alice", of: table, shard: 0)
        let second = broker.logIn("alice", of: table, shard: 1)
        let third = broker.logIn("alice", of: table, shard: 1)
        let lines = third.received()
        #expect(lines.count == 1 && lines[0].hasPrefix("0:! 3 limit: User 'alice' has 2 connections"), "\(lines)")
        #expect(third.isClosed && !first.isClosed && !second.isClosed)
        #expect(reached(.connectionsPerUser, broker) == 1)
        // Other users are not affected, and closed connections free their slots.
        #expect(!broker.logIn("bob", of: table, shard: 1).isClosed)
        first.disconnect()
        #expect(!broker.logIn("alice", of: table, shard: 1).isClosed)
    }

    @Test func theAnonymousAreOneUser() {
        let table = AccessTable.users(["alice": .all], anonymous: .all)
        let broker = broker(access: table) { $0.connectionsPerUser = 2 }
        #expect(!broker.connect(0).isClosed && !broker.connect(1).isClosed)
        #expect(broker.connect(0).isClosed)
        #expect(!broker.logIn("alice", of: table).isClosed)
    }

    @Test func overHTTPARequestIsRefused() throws {
        let open = AccessTable.open
        let broker = broker(access: open) { $0.connectionsPerUser = 1 }
        let first = TestGRPC(broker)
        let one = first.publishOne("t", "a")
        #expect(first.calls[one]?.status == "0")
        let second = TestGRPC(broker, 1)
        let two = second.publishOne("t", "b")
        #expect(second.calls[two]?.status == "8")
        #expect(reached(.connectionsPerUser, broker) == 1)
        // Only the request was refused: the connection continues.
        first.client.disconnect()
        let three = second.publishOne("t", "c")
        #expect(second.calls[three]?.status == "0")
    }

    /// A call that subscribes to "t" and continues.
    private func subscribe(_ client: GRPCClient, as authorization: String) -> UInt32 {
        client.call(.subscribe, [0x0A, 5, 0x0A, 1, 0x74, 0x10, 1], end: false, authorization: authorization)
    }

    private func count(_ broker: TestBroker, _ user: String) -> Int {
        broker.quotas.account(of: user, now: broker.now.monotonic).connections.value
    }

    @Test func aConnectionCountsForEachWhoHasARequestUnderWay() {
        let broker = broker(shards: 1) { $0.connectionsPerUser = 1 }
        let client = GRPCClient(broker)
        let stream = subscribe(client, as: "Bearer a")
        broker.answerLogin(.user("alice", of: table))
        // Another user's request does not free the slot while alice's continues.
        let other = client.call(.publishOne, field(1, "t") + [0x12, 3, 0x12, 1, 0x61], authorization: "Bearer b")
        broker.answerLogin(.user("bob", of: table))
        #expect(client.answer(other).status == "0" && count(broker, "alice") == 1 && count(broker, "bob") == 1)
        #expect(broker.logIn("alice", of: table).isClosed)
        #expect(reached(.connectionsPerUser, broker) == 1)
        // The slot is free once her request has ended: the connection is then only bob's.
        client.reset(stream)
        #expect(count(broker, "alice") == 0 && count(broker, "bob") == 1)
        #expect(!broker.logIn("alice", of: table).isClosed && broker.logIn("bob", of: table).isClosed)
        client.client.disconnect()
        #expect(count(broker, "alice") == 1 && count(broker, "bob") == 0)
    }

    @Test func aConnectionThatEndsCountsForNobody() {
        let broker = broker(shards: 1) { $0.connectionsPerUser = 5 }
        let client = GRPCClient(broker)
        for (token, user) in [("a", "alice"), ("b", "bob"), ("a", "alice"), ("b", "bob")] {
            _ = subscribe(client, as: "Bearer \(token)")
            broker.answerLogin(.user(user, of: table))
            #expect(count(broker, user) == 1)
        }
        client.client.disconnect()
        #expect(count(broker, "alice") == 0 && count(broker, "bob") == 0)
        #expect(broker.quotas.isUnused)
    }

    // Subscriptions

    @Test func subscriptionsAreCountedOverAllShards() {
        let broker = broker(access: .open) { $0.subscriptions = 2 }
        let client = broker.connect(0)
        client.subscribe("a", stream: 1)
        client.subscribe("b", stream: 3)
        let other = broker.connect(1)
        other.subscribe("a", stream: 1)
        #expect(client.received() == [])
        #expect(other.received().map { $0.prefix(7) } == ["1:! 202"])
        #expect(reached(.subscriptions, broker) == 1)
        client.cancel(stream: 1)
        other.subscribe("c", stream: 3)
        #expect(other.received() == [])
        // Existing subscriptions are unaffected.
        other.fireAndForget("b", "x")
        #expect(client.received() == ["3:x"])
    }

    @Test func subscriptionsOfAUser() {
        let broker = broker { $0.subscriptionsPerUser = 2 }
        let alice = (0..<2).map { broker.logIn("alice", of: table, shard: $0) }
        for client in alice { client.subscribe("t", stream: 1) }
        alice[0].subscribe("u", stream: 3)
        #expect(alice[0].received().first?.hasPrefix("3:! 202 limit: User 'alice' has 2 subscriptions") == true)
        #expect(reached(.subscriptionsPerUser, broker) == 1)
        let bob = broker.logIn("bob", of: table)
        bob.subscribe("t", stream: 1)
        #expect(bob.received() == [])
        alice[1].disconnect()
        alice[0].subscribe("u", stream: 5)
        #expect(alice[0].received() == [])
        #expect(broker.quotas.subscriptions.value == 3)
    }

    /// A subscription that fails is not counted.
    @Test func aSubscriptionThatFailsIsNotCounted() {
        let broker = broker(shards: 1, access: .open) { $0.topics = 2 }
        let client = broker.connect()
        client.subscribe("a", stream: 1)
        client.subscribe("b", stream: 3)
        #expect(client.received().map { $0.prefix(7) } == ["3:! 202"])
        #expect(broker.quotas.subscriptions.value == 1)
        client.cancel(stream: 1)
        #expect(broker.quotas.subscriptions.value == 0)
    }

    // Topics

    @Test func topicsAreCountedOverAllShards() {
        let broker = broker(access: .open) { $0.topics = 7 }
        let client = broker.connect()
        // The broker's own topic of events is one of them. The distribution over shards does not matter.
        for index in 0..<6 { client.publish("t\(index)", "x", stream: UInt32(2 * index + 1)) }
        #expect(client.received().allSatisfy { !$0.contains("!") })
        client.publish("more", "x", stream: 101)
        #expect(client.received().first?.hasPrefix("101:! 202 limit: The broker has 7 topics") == true)
        #expect(reached(.topics, broker) == 1)
        client.publish("t3", "x", stream: 103)
        client.publish("$SYS.topic.delete?name=t1", "", stream: 105)
        client.publish("more", "x", stream: 107)
        #expect(client.received().allSatisfy { !$0.contains("!") })
        #expect(broker.quotas.topics.value == 7)
    }

    @Test func topicsOfAUser() {
        let broker = broker { $0.topicsPerUser = 3 }
        let alice = (0..<2).map { broker.logIn("alice", of: table, shard: $0) }
        alice[0].publish("a", "x", stream: 1)
        alice[1].subscribe("b", stream: 1)
        alice[0].channel("c", "x", stream: 3)
        alice[1].publish("d", "x", stream: 3)
        #expect(
            alice[1].received().contains { $0.hasPrefix("3:! 202 limit: User 'alice' has created 3 topics") })
        alice[0].fireAndForget("e", "x", stream: 5)
        #expect(reached(.topicsPerUser, broker) == 2)
        // Bob may create topics, and Alice may use them.
        let bob = broker.logIn("bob", of: table)
        bob.publish("d", "x", stream: 1)
        #expect(bob.received() == ["1:1|"])
        alice[1].publish("d", "x", stream: 5)
        #expect(alice[1].received() == ["5:2|"])
        bob.publish("$SYS.topic.delete?name=a", "", stream: 3)
        alice[1].publish("f", "x", stream: 7)
        #expect(alice[1].received() == ["7:1|"])
    }

    // Accounts

    @Test func accountsAreForgotten() {
        let quotas = Quotas()
        let second: UInt64 = 1_000_000_000
        let rate = TokenRate(perSecond: 10, burst: second)!
        let held = quotas.account(of: "held", now: 0)
        quotas.account(of: "busy", now: 0).messages.update { $0.owe(100, at: 0, rate) }
        for index in 0..<1000 { _ = quotas.account(of: "user\(index)", now: second) }
        #expect(quotas.accountCount < 8)
        #expect(quotas.account(of: "held", now: second) === held)
        #expect(quotas.account(of: "busy", now: second).messages.bucket.fullAt == 10 * second)
        for index in 0..<1000 { _ = quotas.account(of: "user\(index)", now: 11 * second) }
        #expect(quotas.account(of: "busy", now: 11 * second).messages.bucket.fullAt == 0)
    }
}

// Publish rates of users: channels are slowed, acknowledged publishes parked, fire-and-forget publishes dropped, and
// nobody else is affected.

import Bytes
import RSocket
import Testing

@testable import Core

@Suite struct RateLimiterTests {
    private let table = AccessTable.users(["alice": .all, "bob": .all])

    private func broker(shards: Int = 1, _ set: (inout Limits) -> Void) -> TestBroker {
        var limits = Limits()
        set(&limits)
        return TestBroker(shards: shards, limits: limits, access: table)
    }

    private func counters(_ broker: TestBroker) -> ShardCounters {
        var sum = ShardCounters()
        for shard in broker.shards { sum.add(shard.counters) }
        return sum
    }

    private func published(_ broker: TestBroker, _ topic: String = "t") -> UInt64 {
        broker.shards.reduce(0) { $0 + ($1.topics[topic]?.published ?? 0) }
    }

    /// Credit granted since the last call.
    private func granted(_ client: TestClient, stream: UInt32 = 5) -> Int {
        var sum = 0
        for line in client.received() {
            #expect(!line.contains("!"), "\(line)")
            if line.hasPrefix("\(stream):+") { sum += Int(line.dropFirst("\(stream):+".count))! }
        }
        return sum
    }

    // Fire-and-forget

    @Test(arguments: [1, 3])
    func fireIsDroppedAndCounted(_ shards: Int) {
        let broker = broker(shards: shards) { $0.publishRate = 10 }
        let alice = broker.logIn("alice", of: table)
        for _ in 0..<15 { alice.fireAndForget("t", "x") }
        #expect(published(broker) == 10)
        #expect(counters(broker).fireAndForgetDropped == 5 && counters(broker).limits[.publishRate] == 5)
        let bob = broker.logIn("bob", of: table)
        for _ in 0..<10 { bob.fireAndForget("t", "x") }
        #expect(published(broker) == 20, "another user is not affected")
        broker.advance(seconds: 0.5)
        for _ in 0..<10 { alice.fireAndForget("t", "x") }
        #expect(published(broker) == 25)
    }

    /// A user who is held back is named once a minute, however often that happens.
    @Test func theLogNamesWhoIsHeldBack() {
        let broker = broker { $0.publishRate = 10 }
        let (alice, bob) = (broker.logIn("alice", of: table), broker.logIn("bob", of: table))
        func reported() -> [String] {
            broker.log.filter { $0.message == "publishing slowed" }.map { record in
                record.fields.map { "\($0.key)=\($0.value)" }.joined(separator: " ")
            }
        }
        for client in [alice, bob] { for _ in 0..<10 { client.fireAndForget("t", "x") } }
        #expect(reported() == [])
        for client in [alice, bob, alice] { client.fireAndForget("t", "x") }
        #expect(reported() == ["limit=publish-rate user=alice", "limit=publish-rate user=bob"])
        broker.advance(seconds: 59)
        for _ in 0..<30 { alice.fireAndForget("t", "x") }
        #expect(reported().count == 2)
        broker.advance(seconds: 2)
        for _ in 0..<30 { alice.fireAndForget("t", "x") }
        #expect(reported().count == 3)
    }

    @Test func aUserIsOneOnAllShards() {
        let broker = broker(shards: 3) { $0.publishRate = 100 }
        let clients = (0..<3).map { broker.logIn("alice", of: table, shard: $0) }
        for _ in 0..<100 { for client in clients { client.fireAndForget("t", "x") } }
        #expect(published(broker) == 100)
        broker.advance(seconds: 0.25)
        for _ in 0..<100 { for client in clients { client.fireAndForget("t", "x") } }
        #expect(published(broker) == 125)
    }

    @Test func bytesCountToo() {
        let broker = broker(shards: 1) { $0.publishBytes = 1000 }
        let alice = broker.logIn("alice", of: table)
        let text = String(repeating: "x", count: 300)
        for _ in 0..<5 { alice.fireAndForget("t", text) }
        #expect(published(broker) == 3)
        #expect(counters(broker).limits[.publishBytes] == 2 && counters(broker).limits[.publishRate] == 0)
        for _ in 0..<100 { alice.fireAndForget("t", "") }
        #expect(published(broker) == 103, "the tenth part is still there, byte by byte")
        // A message larger than the maximum allowance waits until that allowance is saved up.
        broker.advance(seconds: 1)
        alice.fireAndForget("t", String(repeating: "x", count: 5000))
        #expect(published(broker) == 104)
        broker.advance(seconds: 3.75)
        alice.fireAndForget("t", "x")
        #expect(published(broker) == 104)
        broker.advance(seconds: 0.5)
        alice.fireAndForget("t", "x")
        #expect(published(broker) == 105)
    }

    // Acknowledged

    @Test(arguments: [1, 2])
    func acknowledgedPublishesWait(_ shards: Int) {
        let broker = broker(shards: shards) { $0.publishRate = 8 }
        let alice = broker.logIn("alice", of: table)
        for index in 0..<14 { alice.publish("t", "\(index)", stream: UInt32(2 * index + 1)) }
        #expect(alice.received() == (0..<8).map { "\(2 * $0 + 1):\($0 + 1)|" })
        let bob = broker.logIn("bob", of: table)
        bob.publish("t", "bob", stream: 1)
        #expect(bob.received() == ["1:9|"], "another user is not affected")
        broker.advance(seconds: 0.25)
        #expect(alice.received() == ["17:10|", "19:11|"])
        broker.advance(seconds: 0.5)
        #expect(alice.received() == (10..<14).map { "\(2 * $0 + 1):\($0 + 2)|" })
        #expect(counters(broker).limits[.publishRate] >= 6)
        #expect(broker.shards[0].connections.at(0)!.input.parkedCount == 0)
    }

    @Test func whatWaitsTooLongIsRefused() {
        let broker = broker {
            $0.publishRate = 1
            $0.parkTime = 2 * Limits.second
        }
        let alice = broker.logIn("alice", of: table)
        for index in 0..<6 { alice.publish("t", "x", stream: UInt32(2 * index + 1)) }
        #expect(alice.received() == ["1:1|"])
        broker.advance(seconds: 1.5)
        #expect(alice.received() == ["3:2|"])
        broker.advance(seconds: 1)
        let lines = alice.received()
        #expect(lines.contains("5:3|"))
        #expect(
            lines.count { $0.contains("! 202 limit: User 'alice' may publish 1 message per second") } == 3, "\(lines)")
        #expect(!alice.isClosed && published(broker) == 3)
        broker.advance(seconds: 2)
        alice.publish("t", "x", stream: 21)
        #expect(alice.received() == ["21:4|"])
    }

    @Test func whoLeavesWaitsNoMore() {
        let broker = broker(shards: 2) { $0.publishRate = 4 }
        let used = broker.memory.used
        let alice = broker.logIn("alice", of: table)
        for index in 0..<8 { alice.publish("t", "\(index)", stream: UInt32(2 * index + 1)) }
        _ = alice.received()
        alice.cancel(stream: 9)
        broker.advance(seconds: 0.25)
        #expect(alice.received() == ["11:5|"])
        alice.disconnect()
        #expect(broker.shards[0].rateLimiter["alice"]?.parked.isEmpty != false && broker.memory.used < used + 100_000)
        broker.advance(seconds: 2)
        #expect(published(broker) == 5)
        #expect(broker.shards[0].rateLimiter["alice"] == nil, "a user without local state is forgotten")
    }

    @Test func aDrainRefusesWhatWaits() {
        let broker = broker { $0.publishRate = 1 }
        let alice = broker.logIn("alice", of: table)
        alice.publish("t", "x", stream: 1)
        alice.publish("t", "x", stream: 3)
        for shard in broker.shards { shard.drain(now: broker.now) }
        broker.run()
        #expect(alice.received().last?.contains("shutting down") == true)
    }

    // Channels

    @Test(arguments: [1, 2])
    func aChannelIsSlowedAndNotBroken(_ shards: Int) {
        let broker = broker(shards: shards) { $0.publishRate = 100 }
        let alice = broker.logIn("alice", of: table)
        alice.channel("t", "first")
        var sent = 1
        var quarters: [Int] = []
        for _ in 0..<12 {
            let credit = granted(alice)
            quarters.append(credit)
            alice.items((0..<credit).map { "\($0)" })
            sent += credit
            broker.advance(seconds: 0.25)
        }
        // One second's allowance had been saved up; after that, a quarter of it accrues in each step.
        #expect(quarters[0] >= 49 && quarters[0] <= 99, "\(quarters)")
        #expect(sent >= 345 && sent <= 100 + 300, "\(quarters)")
        #expect(published(broker) == UInt64(sent))
        #expect(counters(broker).limits[.publishRate] > 0)
        alice.complete()
        #expect(alice.received().last?.hasSuffix("|") == true)
    }

    @Test func channelsOfAUserShare() {
        let broker = broker { $0.publishRate = 100 }
        let alice = broker.logIn("alice", of: table)
        let bob = broker.logIn("bob", of: table)
        for stream in [5, 7, 9] { alice.channel("t\(stream)", "x", stream: UInt32(stream)) }
        bob.channel("b", "x")
        var sums: [Substring: Int] = [:]
        for _ in 0..<20 {
            for line in alice.received() where line.contains(":+") {
                let parts = line.split(separator: ":")
                let stream = String(parts[0])
                let credit = Int(parts[1].dropFirst())!
                sums[parts[0].prefix(9), default: 0] += credit
                alice.items(Array(repeating: "y", count: credit), stream: UInt32(stream)!)
            }
            broker.advance(seconds: 0.25)
        }
        let total = sums.values.reduce(0, +)
        #expect(total > 450 && total <= 600, "\(sums)")
        #expect(sums.count == 3 && sums.values.min()! > total / 6, "\(sums)")
        #expect(granted(bob) >= 50, "another user is not affected")
    }

    @Test func aChannelOfLargeMessagesIsSlowedByBytes() {
        let broker = broker { $0.publishBytes = 100_000 }
        let alice = broker.logIn("alice", of: table)
        let text = String(repeating: "x", count: 5000)
        alice.channel("t", text)
        var sent = 1
        for _ in 0..<40 {
            let credit = min(granted(alice), 1000)
            for _ in 0..<credit { alice.items([text]) }
            sent += credit
            broker.advance(seconds: 0.25)
        }
        // Over ten seconds, the initial credit, given when nothing was known of the messages, is paid for later.
        #expect(sent >= 190 && sent <= 320, "\(sent)")
        #expect(published(broker) == UInt64(sent))
    }

    @Test func creditThatIsNotUsedIsTheUsersAgain() {
        let broker = broker { $0.publishRate = 100 }
        let alice = broker.logIn("alice", of: table)
        alice.channel("t", "first")
        #expect(granted(alice) > 0)
        alice.cancel(stream: 5)
        for _ in 0..<200 { alice.fireAndForget("t", "x") }
        #expect(published(broker) == 100)
    }

    @Test func theFirstMessageOfAChannelWaitsToo() {
        let broker = broker(shards: 2) { $0.publishRate = 4 }
        let alice = broker.logIn("alice", of: table)
        for stream in 0..<5 { alice.channel("t\(stream)", "x", stream: UInt32(2 * stream + 1), complete: true) }
        #expect(alice.received().count { $0.hasSuffix("|") } == 4)
        #expect(published(broker, "t4") == 0)
        broker.advance(seconds: 0.25)
        #expect(published(broker, "t4") == 1)
        #expect(alice.received().last?.hasSuffix("|") == true, "it had completed meanwhile")
    }

    @Test func aChannelThatWaitsCanEndItsTopic() {
        let broker = broker(shards: 2) { $0.publishRate = 1 }
        let bob = broker.logIn("bob", of: table)
        bob.subscribe("t")
        let alice = broker.logIn("alice", of: table)
        alice.fireAndForget("u", "x")
        alice.channel("t?on-loss=fail", "x")
        alice.disconnect()
        #expect(bob.received().first?.hasPrefix("1:! 201 topic failed") == true)
    }

    // gRPC sends its first message without credit, after the opening.

    @Test func aCallsFirstMessageWaits() {
        var limits = Limits()
        limits.publishRate = 4
        let broker = TestBroker(shards: 1, limits: limits)
        let peer = TestGRPC(broker)
        for index in 0..<4 {
            let one = peer.publishOne("t", "\(index)")
            #expect(peer.calls[one]?.status == "0")
        }
        let call = peer.channel("t")
        peer.sendMessage(call, TestGRPC.item("early"))
        #expect(published(broker) == 4 && peer.calls[call]?.status == nil)
        broker.advance(seconds: 0.5)
        #expect(published(broker) == 5)
        let greedy = peer.channel("t")
        let more = peer.channel("t")
        peer.sendMessage(more, TestGRPC.item("one"), TestGRPC.item("two"))
        #expect(peer.calls[more]?.status == "9", "beyond its credit")
        peer.cancel(greedy)
        broker.advance(seconds: 2)
        #expect(published(broker) == 5)
    }

    // Limits that change

    @Test func aPaymentIsBounded() {
        let broker = broker { $0.publishRate = 1 }
        let alice = broker.logIn("alice", of: table)
        let count = 2 * RateLimiter.payments + 100
        for index in 0..<count { alice.publish("t", "x", stream: UInt32(2 * index + 1)) }
        #expect(published(broker) == 1)
        broker.shards[0].adopt(Limits(), now: broker.now)
        #expect((2...UInt64(RateLimiter.payments) + 1).contains(published(broker)), "one step of the work")
        for _ in 0..<3 { broker.advance(seconds: 0.02) }
        #expect(published(broker) == UInt64(count), "the rest of it")
    }

    @Test func aBrokerThatEndsRefusesThoseWhoWaitInSlices() {
        let broker = broker { $0.publishRate = 1 }
        let alice = broker.logIn("alice", of: table)
        let count = 2 * RateLimiter.payments + 100
        for index in 0..<count { alice.publish("t", "x", stream: UInt32(2 * index + 1)) }
        _ = alice.received()
        broker.shards[0].drain(now: broker.now)
        broker.run()
        #expect((1...RateLimiter.payments).contains(alice.received().count))
        for _ in 0..<3 { broker.advance(seconds: 0.02) }
        #expect(published(broker) == 1 && alice.received().count > RateLimiter.payments)
    }

    @Test func newLimitsAreInForceAtOnce() {
        let broker = broker { $0.publishRate = 1 }
        let alice = broker.logIn("alice", of: table)
        for index in 0..<5 { alice.publish("t", "x", stream: UInt32(2 * index + 1)) }
        alice.channel("t", "x", stream: 21)
        #expect(published(broker) == 1)
        broker.shards[0].adopt(Limits(), now: broker.now)
        broker.run()
        #expect(published(broker) == 6)
        broker.advance(seconds: 0.25)
        #expect(granted(alice, stream: 21) > 1000)
        var limits = Limits()
        limits.publishRate = 10
        broker.shards[0].adopt(limits, now: broker.now)
        for _ in 0..<30 { alice.fireAndForget("t", "x") }
        #expect(published(broker) <= 16)
    }
}

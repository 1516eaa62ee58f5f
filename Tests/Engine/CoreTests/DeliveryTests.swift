// What subscriptions receive: credit, overflow, replay, ends – the same on one shard and across several.

import Replay
import RSocket
import Testing

@testable import Core

/// Subscriptions on one engine and across several: the results do not depend on a client's shard.
@Suite struct DeliveryTests {
    static let placements = [(1, 0, 0), (2, 0, 0), (2, 0, 1), (2, 1, 0), (3, 1, 2)]

    @Test(arguments: placements)
    func creditBoundsDelivery(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let subscriber = broker.connect(at)
        let publisher = broker.connect(from)
        subscriber.subscribe("orders", n: 2)
        for text in ["a", "b", "c", "d"] { publisher.fireAndForget("orders", text) }
        #expect(subscriber.received() == ["1:a", "1:b"])
        subscriber.requestN(1)
        #expect(subscriber.received() == ["1:c"])
        subscriber.requestN(5)
        publisher.fireAndForget("orders", "e")
        #expect(subscriber.received() == ["1:d", "1:e"])
    }

    @Test(arguments: placements)
    func overflowPolicies(_ shards: Int, _ at: Int, _ from: Int) {
        let expected: [(String, [String])] = [
            ("drop-oldest", ["1:[1]1", "1:[4-2]4", "1:[5]5"]),
            ("drop-newest", ["1:[1]1", "1:[2]2", "1:[3]3"]),
            ("replace-newest", ["1:[1]1", "1:[2]2", "1:[5-2]5"]),
            ("latest", ["1:[1]1", "1:[5-3]5"]),
            ("fail", ["1:[1]1", "1:[2]2", "1:[3]3", "1:! 201 overflow: the buffer of 2 messages was full"]),
        ]
        for (policy, deliveries) in expected {
            let broker = TestBroker(shards: shards)
            let subscriber = broker.connect(at)
            let publisher = broker.connect(from)
            subscriber.subscribe("t?overflow=\(policy)&buffer=2&meta=on", n: 1)
            for text in 1...5 { publisher.fireAndForget("t", String(text)) }
            subscriber.requestN(2)
            #expect(subscriber.received().map { String($0.prefix { $0 != "(" }).trimmed } == deliveries, "\(policy)")
        }
    }

    @Test(arguments: placements)
    func lateJoinersAreReplayed(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let publisher = broker.connect(from)
        for text in 1...5 { publisher.fireAndForget("t", String(text)) }
        let subscriber = broker.connect(at)
        subscriber.subscribe("t?replay=2", stream: 1)
        subscriber.subscribe("t?replay=all", n: 3, stream: 3)
        subscriber.subscribe("t?from=4&meta=on", stream: 5)
        subscriber.subscribe("t?from=9", stream: 7)
        let lines = subscriber.received()
        #expect(lines.filter { $0.hasPrefix("1:") } == ["1:4", "1:5"])
        #expect(lines.filter { $0.hasPrefix("3:") } == ["3:1", "3:2", "3:3"])
        #expect(lines.filter { $0.hasPrefix("5:") } == ["5:[4]4", "5:[5]5"])
        #expect(lines.filter { $0.hasPrefix("7:") }.first?.hasPrefix("7:! 202 gap: ") == true)
    }

    @Test(arguments: placements)
    func completionComesLastAndWithoutCredit(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let subscriber = broker.connect(at)
        subscriber.subscribe("t", n: 1)
        let publisher = broker.connect(from)
        publisher.channel("t?complete=true", "a")
        publisher.items(["b"])
        publisher.complete()
        #expect(subscriber.received() == ["1:a"])
        subscriber.requestN(1)
        #expect(subscriber.received() == ["1:b", "1:|"])
        #expect(publisher.received().last == "5:|" || publisher.received().isEmpty)
        subscriber.subscribe("t?replay=1", n: 9, stream: 3)
        #expect(subscriber.received() == ["3:b", "3:|"])
    }

    /// A publisher whose loss fails the topic is refused if another client has completed it: no topic ends twice.
    @Test(arguments: placements)
    func theFirstEndWins(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let publisher = broker.connect(from)
        publisher.channel("t?on-loss=fail", "a")
        let other = broker.connect(at)
        other.publish("$SYS.topic.complete?name=t", "")
        _ = other.received()
        #expect(publisher.received().last?.hasPrefix("5:! 202 ") == true)
        other.subscribe("t?replay=all")
        #expect(other.received() == ["1:a", "1:|"])
    }

    /// Messages published after the subscription, in the same read, are limited by the subscription's room.
    @Test func aBlockSubscriptionHoldsFromTheNextFrameOn() {
        let broker = TestBroker()
        let client = broker.connect()
        client.publish("t", "a", stream: 1)
        client.send { buffer in
            Array("t?overflow=block&buffer=2".utf8).withUnsafeBytes { route in
                FrameWriter.requestStream(
                    stream: 3, initialN: 1, metadata: route, data: UnsafeRawBufferPointer(start: nil, count: 0),
                    fragment: 1 << 20, into: &buffer)
            }
            Array("t".utf8).withUnsafeBytes { route in
                for _ in 0..<5 {
                    FrameWriter.requestFNF(
                        stream: 5, metadata: route, data: route, fragment: 1 << 20, into: &buffer)
                }
            }
        }
        let topic = broker.shards[0].topics["t"]!
        // One message was acknowledged, one requested, and two are waiting.
        #expect(topic.published == 4 && topic.losses.value.dropped == 2 && topic.publishers.overshoot == 0)
        #expect(client.received() == ["1:1|", "3:t"])
    }

    @Test(arguments: placements)
    func blockPacesPublishers(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let subscriber = broker.connect(at)
        subscriber.subscribe("t?overflow=block&buffer=3", n: 1)
        let publisher = broker.connect(from)
        publisher.channel("t", "0")
        let grants = publisher.received().filter { $0.hasPrefix("5:+") }
        #expect(grants.reduce(0) { $0 + Int($1.dropFirst(3))! } == 3, "\(grants)")
        publisher.items(["1", "2", "3"])
        #expect(publisher.received().filter { $0.hasPrefix("5:+") } == [])
        #expect(subscriber.received() == ["1:0"])
        subscriber.requestN(2)
        #expect(subscriber.received() == ["1:1", "1:2"])
        let more = publisher.received().filter { $0.hasPrefix("5:+") }
        #expect(more.reduce(0) { $0 + Int($1.dropFirst(3))! } == 2, "\(more)")
    }

    /// This holds whether or not other subscriptions still block.
    @Test(arguments: placements)
    func whoLeavesBlocksNoMore(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let small = broker.connect(at)
        small.subscribe("t?overflow=block&buffer=1", n: 1)
        let large = broker.connect(at)
        large.subscribe("t?overflow=block&buffer=2", n: 1)
        let publisher = broker.connect(from)
        for stream in [1, 3, 5, 7, 9] as [UInt32] { publisher.publish("t", "m", stream: stream) }
        #expect(publisher.received() == ["1:1|", "3:2|"])
        small.cancel()
        #expect(publisher.received() == ["5:3|"])
        large.cancel()
        #expect(publisher.received() == ["7:4|", "9:5|"])
    }

    /// Room is reserved for a channel's grant, but not if the channel does not use the grant.
    @Test(arguments: placements)
    func anIdleGrantHoldsNoRoom(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let subscriber = broker.connect(at)
        subscriber.subscribe("t?overflow=block&buffer=3", n: 1)
        let idle = broker.connect(from)
        idle.channel("t", "0")
        let publisher = broker.connect(from)
        publisher.publish("t", "1")
        #expect(publisher.received() == [])
        broker.advance(seconds: 1.5)
        #expect(publisher.received() == ["3:2|"])
    }

    /// More channels without credit than there is room for: the sum of their grants is the room.
    @Test(arguments: placements)
    func theRoomIsGrantedOnce(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = TestBroker(shards: shards)
        let subscriber = broker.connect(at)
        subscriber.subscribe("t?overflow=block&buffer=3", n: 8)
        let publisher = broker.connect(from)
        for stream in stride(from: 1, through: 15, by: 2) { publisher.channel("t", "m", stream: UInt32(stream)) }
        let topic = try #require(broker.shards.lazy.compactMap { $0.topics["t"] }.first)
        for _ in 0..<4 { broker.advance(seconds: 1.5) }
        #expect(topic.published == 8)
        // All channels use their grants, so the buffer is full and none has credit.
        let channels = topic.publishers.current.channels.all
        for channel in channels {
            let stream = try #require(broker.shards[channel.key.shard].streams[channel.key.handle]).stream
            publisher.items(Array(repeating: "n", count: channel.outstanding), stream: stream)
        }
        #expect(channels.allSatisfy { $0.outstanding == 0 } && topic.publishers.room.reserved == 0)
        subscriber.requestN(UInt32(topic.published) - 8)
        #expect(topic.publishers.room.reserved == 3 && channels.reduce(0) { $0 + $1.outstanding } == 3)
    }

    @Test(arguments: placements)
    func aGrantIsSizedByItsBytes(_ shards: Int, _ at: Int, _ from: Int) {
        var limits = Limits()
        limits.grantBytes = 10_000
        let broker = TestBroker(shards: shards, limits: limits)
        broker.connect(at).subscribe("t?overflow=block&buffer=1000")
        let publisher = broker.connect(from)
        let text = String(repeating: "x", count: 1000)
        publisher.channel("t", text)
        for _ in 0..<20 {
            let granted = publisher.received().filter { $0.hasPrefix("5:+") }.map { Int($0.dropFirst(3))! }
            #expect(granted.reduce(0, +) > 0 && granted.allSatisfy { $0 < 10 }, "\(granted)")
            publisher.items(Array(repeating: text, count: granted.reduce(0, +)))
        }
    }

    /// The bytes that one `block` subscription frees are granted at once, although another limits the messages.
    @Test(arguments: placements)
    func bytesThatBlockFreesAreGrantedAtOnce(_ shards: Int, _ at: Int, _ from: Int) {
        var limits = Limits()
        limits.retainBytes = 10_000
        let broker = TestBroker(shards: shards, limits: limits)
        let slow = broker.connect(at)
        let fast = broker.connect(at)
        slow.subscribe("t?overflow=block&buffer=1000", n: 1)
        fast.subscribe("t?overflow=block&buffer=100")
        let publisher = broker.connect(from)
        let text = String(repeating: "x", count: 1000)
        publisher.channel("t", text)
        func granted() -> Int {
            publisher.received().filter { $0.hasPrefix("5:+") }.reduce(0) { $0 + Int($1.dropFirst(3))! }
        }
        var credit = granted()
        while credit > 0 {
            publisher.items(Array(repeating: text, count: credit))
            credit = granted()
        }
        slow.requestN(4)
        #expect(granted() > 0)
    }

    @Test(arguments: placements)
    func aLongReasonIsCut(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let subscriber = broker.connect(at)
        let publisher = broker.connect(from)
        subscriber.subscribe("t")
        publisher.channel("t?complete=true", "a")
        let reason = String(repeating: "why ", count: 800)
        publisher.send { FrameWriter.error(stream: 5, code: .applicationError, message: reason, into: &$0) }
        let end = subscriber.received().last!
        #expect(end.hasPrefix("1:! 201 topic failed: why why") && end.utf8.count < 1100)
    }

    @Test(arguments: placements)
    func acknowledgedPublishesAreParkedInOrder(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let subscriber = broker.connect(at)
        subscriber.subscribe("t?overflow=block&buffer=1", n: 1)
        let publisher = broker.connect(from)
        for (index, text) in ["a", "b", "c", "d"].enumerated() {
            publisher.publish("t", text, stream: UInt32(3 + 2 * index))
        }
        #expect(publisher.received() == ["3:1|", "5:2|"])
        publisher.fireAndForget("t", "lost", stream: 21)
        subscriber.requestN(1)
        #expect(subscriber.received() == ["1:a", "1:b"])
        #expect(publisher.received() == ["7:3|"])
        broker.advance(seconds: 11)
        #expect(publisher.received().first?.hasPrefix("9:! 202 blocked: The topic 't' had no room") == true)
    }

    /// There is room for the small message, but none for the large one that arrived before it.
    @Test(arguments: placements)
    func aSmallPublishDoesNotOvertakeALargeOne(_ shards: Int, _ at: Int, _ from: Int) {
        var limits = Limits()
        limits.retainBytes = 4096
        let broker = TestBroker(shards: shards, limits: limits)
        let subscriber = broker.connect(at)
        subscriber.subscribe("t?overflow=block&buffer=10", n: 1)
        let publisher = broker.connect(from)
        let (medium, large) = (String(repeating: "m", count: 1000), String(repeating: "l", count: 3500))
        for (index, text) in [medium, medium, large, "small"].enumerated() {
            publisher.publish("t", text, stream: UInt32(3 + 2 * index))
        }
        #expect(publisher.received() == ["3:1|", "5:2|"])
        subscriber.requestN(9)
        #expect(publisher.received() == ["7:3|", "9:4|"])
        #expect(subscriber.received() == ["1:\(medium)", "1:\(medium)", "1:\(large)", "1:small"])
    }

    @Test(arguments: placements)
    func nothingAfterCancel(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let subscriber = broker.connect(at)
        let publisher = broker.connect(from)
        subscriber.subscribe("t")
        publisher.fireAndForget("t", "a")
        subscriber.cancel()
        publisher.fireAndForget("t", "b")
        subscriber.requestN(3)
        #expect(subscriber.received() == ["1:a"])
        #expect(broker.shards[at].subscriptions.count == 0)
    }

    @Test(arguments: placements)
    func deletingBeginsANewEpoch(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let subscriber = broker.connect(at)
        let publisher = broker.connect(from)
        subscriber.subscribe("t")
        publisher.fireAndForget("t", "a")
        publisher.publish("$SYS.topic.delete?name=t", "")
        #expect(subscriber.received() == ["1:a", "1:! 201 topic failed: deleted"])
        subscriber.subscribe("t?replay=all", stream: 3)
        publisher.fireAndForget("t", "b")
        #expect(subscriber.received() == ["3:b"])
    }

    @Test(arguments: placements)
    func aStalledSocketWaitsLikeOneWithoutCredit(_ shards: Int, _ at: Int, _ from: Int) {
        var limits = Limits()
        limits.output = 1000
        let broker = TestBroker(shards: shards, limits: limits)
        let stalled = broker.connect(at)
        let reader = broker.connect(at)
        let publisher = broker.connect(from)
        stalled.subscribe("t?buffer=5&meta=on", stream: 3)
        reader.subscribe("t?buffer=5")
        stalled.window = 0
        let text = String(repeating: "x", count: 100)
        for _ in 1...50 { publisher.fireAndForget("t", text) }
        #expect(reader.received().count == 50)
        #expect(stalled.received() == [])
        stalled.read(.max)
        let lines = stalled.received().map { $0.prefix { $0 != "x" } }
        // The client receives as many messages as the output held, then the newest five.
        #expect(
            lines == ["3:[1]", "3:[2]", "3:[3]", "3:[4]", "3:[5]", "3:[46-40]", "3:[47]", "3:[48]", "3:[49]", "3:[50]"])
    }

    /// Messages evicted by the byte limit are gone on every shard at once, not only with the next message.
    @Test(arguments: [0, 1])
    func shardsAgreeOnWhatIsLost(_ from: Int) {
        var limits = Limits()
        limits.retainBytes = 4096
        let broker = TestBroker(shards: 2, limits: limits)
        let subscribers = [broker.connect(0), broker.connect(1)]
        for subscriber in subscribers { subscriber.subscribe("t?meta=on", n: 1) }
        let publisher = broker.connect(from)
        for _ in 1...20 { publisher.fireAndForget("t", String(repeating: "x", count: 4032)) }
        // This includes subscriptions without credit, which could not find out otherwise.
        let topic = broker.shards.lazy.compactMap { $0.topics["t"] }.first!
        #expect(topic.views.dropped.total == 2 * 18)
        for subscriber in subscribers {
            subscriber.requestN(9)
            #expect(subscriber.received().map { $0.prefix { $0 != "x" } } == ["1:[1]", "1:[20-18]"])
        }
    }

    /// A subscriber loses several messages at once and then leaves.
    @Test(arguments: placements)
    func whatIsLostStaysCounted(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let subscriber = broker.connect(at)
        subscriber.subscribe("t?buffer=2", n: 1)
        let publisher = broker.connect(from)
        publisher.channel("t", "0")
        publisher.items((1...9).map(String.init))
        let topic = broker.shards.lazy.compactMap { $0.topics["t"] }.first!
        #expect(subscriber.received() == ["1:0"] && topic.views.dropped.total == 7)
        subscriber.cancel()
        #expect(topic.views.dropped.total == 7)
        #expect(broker.shards.reduce(0) { $0 + $1.counters.dropped[.dropOldest] } == 7)
    }

    /// Under `fail` nothing is accepted after a loss, and once nothing waits the end is sent without credit.
    @Test(arguments: placements)
    func failEndsAtALossOfBytes(_ shards: Int, _ at: Int, _ from: Int) {
        var limits = Limits()
        limits.retainBytes = 4096
        let broker = TestBroker(shards: shards, limits: limits)
        let subscriber = broker.connect(at)
        subscriber.subscribe("t?overflow=fail&buffer=100", n: 1)
        let publisher = broker.connect(from)
        for name in ["a", "b", "c", "d"] { publisher.fireAndForget("t", name + String(repeating: "x", count: 4031)) }
        let lines = subscriber.received()
        #expect(lines.count == 2 && lines.first?.hasPrefix("1:ax") == true)
        #expect(lines.last?.hasPrefix("1:! 201 overflow: bytes: ") == true)
    }

    /// Data larger than the scratch is sent in several writes, each requested only by the previous one.
    @Test(arguments: [(700, 1000), (3, 400_000)])
    func muchForAnotherStreamArrivesWithoutFurtherInput(_ count: Int, _ size: Int) {
        var limits = Limits()
        limits.output = 4 << 20
        let broker = TestBroker(limits: limits)
        let subscriber = broker.connect()
        subscriber.subscribe("t", stream: 3)
        let publisher = broker.connect()
        let texts = (0..<count).map { "\($0)." + String(repeating: "x", count: size) }
        publisher.channel("t", "first")
        #expect(count * size > 2 * Scratch.size)
        publisher.items(texts)
        // Long messages are fragmented.
        let received = subscriber.received().map { $0.dropFirst(2) }.joined()
        #expect((received == "first" + texts.joined()) == true)
    }
}

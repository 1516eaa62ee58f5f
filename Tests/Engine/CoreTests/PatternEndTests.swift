// The ends of topics in subscriptions to patterns: reported over gRPC and plain HTTP after all else of the topic, once
// each, without credit, and within the limits on what a client may leave unread.

import Bytes
import ForebayWire
import HTTP2
import HTTP2Frames
import Testing

@testable import Core

@Suite struct PatternEndTests {
    private func end(_ broker: TestBroker, _ call: String, shard: Int = 0) {
        let client = broker.connect(shard)
        client.publish("$SYS.topic." + call, "")
        #expect(client.received().first?.contains("\"name\":") == true)
        client.disconnect()
    }

    /// What a call has received: messages, and ends with what was lost before them.
    private func read(_ peer: TestGRPC, _ stream: UInt32) -> [String] {
        peer.read()
        return peer[stream].responses().flatMap { response in
            response.messages.map { "\($0.topic):\($0.text)" }
                + (response.ended.map { ["\($0.topic) \($0.failure)-\(response.dropped)"] } ?? [])
        }
    }

    @Test(arguments: DeliveryTests.placements)
    func endsFollowTheLastMessageAndNeedNoCredit(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        publish(broker, "old", to: ["t.idle", "t.gone"], shard: from)
        let peer = TestGRPC(broker, at)
        let stream = peer.subscribe("t.*", n: 3)
        for text in ["1", "2"] { publish(broker, text, to: ["t.a", "t.quiet"], shard: from) }
        end(broker, "complete?name=t.a", shard: from)
        #expect(Set(read(peer, stream)) == ["t.a:1", "t.quiet:1", "t.a:2", "t.a -0"])
        // Of the others nothing has arrived, or not for a while.
        peer.request(100, stream)
        #expect(read(peer, stream) == ["t.quiet:2"])
        broker.advance(seconds: 20)
        for call in ["fail?name=t.idle&message=broken", "delete?name=t.gone", "complete?name=t.quiet"] {
            end(broker, call, shard: from)
        }
        #expect(
            read(peer, stream) == [
                "t.idle topic failed: broken-0", "t.gone topic failed: deleted-0", "t.quiet -0",
            ])
        // A topic that comes back has an end of its own, and a deletion after the end is not another one.
        publish(broker, "new", to: ["t.gone"], shard: from)
        for call in ["complete?name=t.gone", "delete?name=t.a", "delete?name=t.gone"] {
            end(broker, call, shard: from)
        }
        #expect(read(peer, stream) == ["t.gone:new", "t.gone -0"])
        #expect(!peer[stream].isEnded)
    }

    @Test func theNoticeHasEpochLossAndCredit() throws {
        let broker = TestBroker(shards: 2)
        let peer = TestGRPC(broker, 1)
        let stream = peer.subscribe("t.*", n: 1, buffer: 1, overflow: .dropNewest)
        publish(broker, "x", to: ["t.a", "t.a", "t.a", "t.a"])
        peer.request(5, stream)
        let epoch = peer[stream].responses().last?.epoch
        end(broker, "complete?name=t.a")
        peer.read()
        let notice = try #require(peer[stream].responses().last)
        #expect(notice.ended?.topic == "t.a" && notice.messages.isEmpty)
        #expect(notice.dropped == 2 && notice.epoch == epoch && notice.outstanding == 4)
        // It has been reported, so the call's end does not.
        let pattern = try #require(broker.shards[1].streams.at(0)?.asPattern)
        #expect(pattern.sums.dropped == 2 && pattern.sums.droppedSinceDelivery == 0)
    }

    @Test func linesAndEvents() {
        let broker = TestBroker(shards: 2)
        let peer = TestGRPC(broker, 1)
        let lines = peer.listen("t.*")
        let events = peer.listen(
            "t.*", accept: "text/event-stream", options: "&request=1&buffer=1&overflow=drop-newest")
        publish(broker, "x", to: ["t.a", "t.a", "t.a"])
        let epoch = broker.shards.compactMap { $0.topics["t.a"] }.first?.epoch ?? 0
        end(broker, "fail?name=t.a&message=%22no%22")
        peer.read()
        let failure = #""failure":"topic failed: \"no\"""#
        #expect(peer[lines].text.hasSuffix("{\"topic_end\":\"t.a\",\"epoch\":\"\(epoch)\",\"dropped\":0,\(failure)}\n"))
        #expect(!peer[events].text.contains("topic-end"))
        let id = peer[events].heads.first?["forebay-subscription"] ?? ""
        _ = peer.plain("POST", "/v1/subscriptions/\(id)/request?n=1")
        let event = "event: topic-end\ndata: {\"topic\":\"t.a\",\"epoch\":\"\(epoch)\",\"dropped\":1,\(failure)}\n\n"
        #expect(peer[events].text.hasSuffix("data: x\n\n" + event))
        #expect(!peer[lines].isEnded && !peer[events].isEnded)
    }

    /// A subscription is notified of topics that had ended before if it wants what they retain, or was in them.
    @Test(arguments: DeliveryTests.placements)
    func endsBeforeTheSubscription(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let early = TestGRPC(broker, at)
        _ = early.subscribe("t.*")
        publish(broker, "x", to: ["t.a", "t.b"], shard: from)
        end(broker, "complete?name=t.a", shard: from)
        for isIdle in [false, true] {
            if isIdle { broker.advance(seconds: 20) }
            let peer = TestGRPC(broker, at)
            let (next, all) = (peer.subscribe("t.*"), peer.subscribe("t.*", all: true))
            #expect(read(peer, next) == [])
            #expect(read(peer, all).sorted() == ["t.a -0", "t.a:x", "t.b:x"])
            let epoch = broker.shards.compactMap { $0.topics["t.a"] }.first?.epoch ?? 0
            let position = Proto.field(13, Proto.field(1, "t.a") + Proto.field(2, epoch) + Proto.field(3, UInt64(2)))
            let resumed = peer.call(.subscribe)
            peer.sendMessage(resumed, Proto.field(1, Proto.field(1, "t.*") + Proto.field(2, UInt64(9)) + position))
            #expect(read(peer, resumed) == ["t.a -0"])
            peer.client.disconnect()
        }
    }

    /// What a topic that is not in use leaves behind is not an end, and RSocket has no notice.
    @Test(arguments: DeliveryTests.placements)
    func othersAreNotNotified(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let (peer, rsocket) = (TestGRPC(broker, at), broker.connect(at))
        let stream = peer.subscribe("t.*")
        rsocket.subscribe("t.*")
        publish(broker, "x", to: ["t.a", "t.b"], shard: from)
        end(broker, "complete?name=t.a", shard: from)
        #expect(Set(read(peer, stream)) == ["t.a:x", "t.b:x", "t.a -0"])
        #expect(rsocket.received().sorted() == ["1:[1]t.a:x", "1:[1]t.b:x"])
        for _ in 0..<3 { broker.advance(seconds: Double(Limits().topicIdle / Limits.second)) }
        #expect(broker.shards.allSatisfy { $0.topics["t.b"] == nil })
        #expect(read(peer, stream) == [] && !rsocket.received().contains { $0.hasPrefix("1:") })
    }

    /// Notices wait while the client does not read. The limit on positions applies to them.
    @Test(arguments: DeliveryTests.placements)
    func noticesWaitForTheWindow(_ shards: Int, _ at: Int, _ from: Int) {
        var limits = Limits()
        limits.matches = 300
        let broker = TestBroker(shards: shards, limits: limits)
        let peer = TestGRPC(broker, at, window: 1000, connectionWindow: 1 << 20)
        let streams = [peer.subscribe("t.*"), peer.listen("t.*")]
        peer.read()
        peer.closed = Set(streams)
        let topics = (0..<200).map { "t.\($0)" }
        let opener = broker.connect(from)
        for (index, topic) in topics.enumerated() {
            opener.channel(topic, "x", stream: UInt32(2 * index + 1))
            end(broker, "complete?name=\(topic)", shard: from)
        }
        broker.advance(seconds: 20)
        for stream in streams { #expect((peer.exchange(stream)?.body.count ?? 0) <= 1500) }
        #expect(broker.shards[at].views.attached.contains { !$0.isEmpty })
        peer.closed = []
        for stream in streams { peer.send(windowUpdate(stream, 1 << 20)) }
        #expect(read(peer, streams[0]).filter { $0.hasSuffix("-0") }.sorted() == topics.map { $0 + " -0" }.sorted())
        let lines = peer[streams[1]].text.split(separator: "\n").filter { $0.contains("topic_end") }
        #expect(lines.count == 200 && Set(lines).count == 200)
    }

    /// While notices of a deleted topic wait, its name is free, also on that shard.
    @Test(arguments: DeliveryTests.placements)
    func aDeletedTopicLeavesItsName(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        publish(broker, "old", to: ["t.a", "t.b"], shard: from)
        let peer = TestGRPC(broker, at, window: 1000, connectionWindow: 1 << 20)
        let stream = peer.subscribe("t.*")
        peer.read()
        peer.closed = [stream]
        publish(broker, String(repeating: "x", count: 2000), to: ["t.full"], shard: from)
        peer.read()
        end(broker, "delete?name=t.a", shard: from)
        // It has completed before it is deleted.
        end(broker, "complete?name=t.b", shard: from)
        end(broker, "delete?name=t.b", shard: from)
        let other = broker.connect(at)
        other.subscribe("t.a")
        publish(broker, "new", to: ["t.a"], shard: from)
        #expect(other.received() == ["1:new"])
        peer.closed = []
        peer.send(windowUpdate(stream, 1 << 20))
        #expect(
            Set(read(peer, stream).suffix(3)) == ["t.a topic failed: deleted-0", "t.b -0", "t.a:new"])
    }

    /// A call that can get no more messages ends after the notices that wait.
    @Test func spentCreditWaitsForNotices() {
        let broker = TestBroker(shards: 2)
        let peer = TestGRPC(broker, 1, window: 1000, connectionWindow: 1 << 20)
        let stream = peer.subscribe("t.*", n: 1)
        peer.read()
        peer.closed = [stream]
        publish(broker, String(repeating: "x", count: 2000), to: ["t.a"])
        peer.read()
        end(broker, "complete?name=t.a")
        peer.halfClose(stream)
        #expect(!peer[stream].isEnded)
        peer.closed = []
        peer.send(windowUpdate(stream, 1 << 20))
        #expect(read(peer, stream).last == "t.a -0" && peer[stream].end == "credit-spent")
    }

    /// Random topics, ends, windows and sockets: each end is reported once to all that were there.
    @Test(arguments: 0..<40) func eachEndIsReportedOnce(_ seed: Int) {
        var random = LedgerRandom(state: UInt64(seed))
        var limits = Limits()
        limits.output = random.pick([100, 3000, 256 << 10])
        let broker = TestBroker(shards: 1 + random.next(3), limits: limits)
        let peer = TestGRPC(
            broker, random.next(broker.shards.count), window: random.pick([1000, 65_535]), connectionWindow: 1 << 30)
        let streams = (0..<2).map { _ in peer.subscribe("t.*", n: 3, buffer: 10_000) }
        peer.client.window = 0
        var (sent, ended): (Int, [String]) = (0, [])
        var live: Set<String> = []
        for _ in 0..<150 {
            let topic = "t.\(random.next(6))"
            switch random.next(6) {
            case 0...2:
                publish(broker, String(repeating: "w", count: random.pick([1, 700])), to: [topic])
                sent += 1
                live.insert(topic)
            case 3 where live.contains(topic):
                end(broker, "delete?name=\(topic)")
                ended.append("\(topic) topic failed: deleted")
                live.remove(topic)
            case 4: broker.advance(seconds: random.pick([1, 6]))
            default:
                if random.next(2) == 0 { peer.client.window = random.next(50) }
                peer.client.read(random.pick([1, 9, 500, 17_000]))
                peer.request(UInt32(1 + random.next(5)), streams[random.next(2)])
            }
        }
        for stream in streams { peer.request(0x7FFF_FFFF, stream) }
        peer.client.read(.max)
        for stream in streams {
            let received = read(peer, stream)
            let notices = received.filter { $0.contains(" topic failed: deleted-") }
            #expect(notices.map { $0.prefix { $0 != "-" } }.sorted() == ended.map { $0[...] }.sorted())
            let lost = notices.reduce(0) { $0 + (Int($1.split(separator: "-").last ?? "") ?? 0) }
            let messages = received.filter { $0.contains(":w") }.count
            #expect(messages + lost == sent)
        }
    }

    /// A single topic's subscription may get the view that was sent for patterns, before that topic is deleted. Then
    /// the view of the topic's successor, which answers its request, serves the patterns.
    @Test(arguments: ["", "?replay=all"])
    func patternsUseAViewThatNothingElseNeeds(_ options: String) {
        let broker = TestBroker(shards: 2)
        let name = (0...).lazy.map { "t\($0)" }.first { broker.shards[0].owner(of: $0) == 1 }!
        let (subscriber, publisher) = (broker.connect(0), broker.connect(1))
        publisher.fireAndForget(name, "x")
        subscriber.subscribe("*", stream: 1)
        for client in [subscriber, publisher] { client.isFollowedByTurns = false }
        publisher.fireAndForget(name, "y")
        publisher.publish("$SYS.topic.delete?name=\(name)", "", stream: 9)
        subscriber.cancel(stream: 1)
        subscriber.subscribe(name, stream: 3)
        // The view of the deleted topic is on its way when its successor is made.
        broker.turn(0)
        broker.turn(1)
        publisher.subscribe(name, stream: 11)
        subscriber.subscribe("*" + options, stream: 5)
        broker.run()
        _ = subscriber.received()
        publisher.fireAndForget(name, "z")
        broker.run()
        #expect(subscriber.received() == ["5:[1]\(name):z"])
    }
}

// Subscriptions to patterns over plain HTTP: event streams and lines of JSON, whose messages name their topics.

import Bytes
import HTTP2
import HTTP2Frames
import Testing

@testable import Core

@Suite struct PlainPatternTests {
    private func expectNothingLeft(_ broker: TestBroker) {
        for shard in broker.shards {
            #expect(shard.connections.count == 0 && shard.streams.count == 0 && shard.views.count == 0)
            #expect(shard.subscriptions.streamCount == 0)
        }
        #expect(broker.quotas.patterns.value == 0 && broker.quotas.subscriptions.value == 0)
    }

    /// The part of a text between two others.
    private func part(of text: String, from: String, to end: Character) -> String {
        guard let range = text.ranges(of: from).first else { return "" }
        return String(text[range.upperBound...].prefix { $0 != end })
    }

    /// Topics and payloads of lines of JSON, in their order.
    private func lines(_ call: TestCall) -> [String] {
        call.text.split(separator: "\n").map { line in
            part(of: String(line), from: #""topic":""#, to: "\"") + ":"
                + part(of: String(line), from: #""payload":""#, to: "\"")
        }
    }

    /// Topics and payloads of events.
    private func events(_ call: TestCall) -> [String] {
        var topic = ""
        var found: [String] = []
        for event in call.text.split(separator: "\n\n") {
            if event.hasPrefix("event: topic") { topic = part(of: String(event), from: #""topic":""#, to: "\"") }
            if event.hasPrefix("data: ") { found.append("\(topic):\(event.dropFirst(6))") }
        }
        return found
    }

    @Test(arguments: DeliveryTests.placements)
    func linesNameTheirTopics(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        publish(broker, "before", to: ["orders.eu", "orders.us", "other.eu"], shard: from)
        let peer = TestGRPC(broker, at)
        let stream = peer.listen("orders.*", all: true)
        publish(broker, "x", to: ["orders.eu", "other.eu", "orders.asia"], shard: from)
        peer.read()
        #expect(peer[stream].heads.first?["content-type"] == "application/x-ndjson")
        #expect(
            lines(peer[stream]).sorted() == [
                "orders.asia:x", "orders.eu:before", "orders.eu:x", "orders.us:before",
            ])
        // An ordinary stream shares nothing with it.
        let plain = peer.listen("orders.eu", all: true)
        #expect(lines(peer[plain]) == [":before", ":x"])
    }

    @Test(arguments: DeliveryTests.placements)
    func eventsFollowTheNameOfTheirTopicAndHaveNoID(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let peer = TestGRPC(broker, at)
        let stream = peer.listen("t.*", accept: "text/event-stream", options: "&request=1&buffer=2")
        #expect(peer[stream].text.hasPrefix("retry: 1000\nevent: subscribed\ndata: {\"subscription\":\""))
        for text in 1...5 { publish(broker, "\(text)", to: ["t.a"], shard: from) }
        publish(broker, "1", to: ["t.b"], shard: from)
        peer.read()
        #expect(events(peer[stream]) == ["t.a:1"])
        // Credit can be given as usual.
        let id = peer[stream].heads.first?["forebay-subscription"] ?? ""
        let grant = peer.plain("POST", "/v1/subscriptions/\(id)/request?n=10")
        #expect(peer[grant].heads.first?[":status"] == "204")
        #expect(events(peer[stream]) == ["t.a:1", "t.a:4", "t.b:1", "t.a:5"])
        let text = peer[stream].text
        #expect(!text.contains("id: "))
        // The loss is that of the topic named before it.
        let gap = text.split(separator: "\n\n").firstIndex { $0 == "event: gap\ndata: {\"dropped\":2}" }
        #expect(gap == 4)
        let wrong = peer.plain("POST", "/v1/subscriptions/\(id)/request?n=0")
        #expect(peer[wrong].heads.first?[":status"] == "400")
        peer.client.disconnect()
        broker.advance(seconds: 1)
        expectNothingLeft(broker)
        let late = TestGRPC(broker)
        let gone = late.plain("POST", "/v1/subscriptions/\(id)/request?n=1")
        #expect(late[gone].heads.first?[":status"] == "404")
    }

    @Test(arguments: ["text/event-stream", "application/x-ndjson"])
    func aFailureEndsTheStream(_ accept: String) {
        let broker = TestBroker(shards: 2)
        let peer = TestGRPC(broker, 1)
        let stream = peer.listen("t.*", accept: accept, options: "&request=1&buffer=1&overflow=fail")
        for text in 1...3 { publish(broker, "\(text)", to: ["t.a"]) }
        let id = peer[stream].heads.first?["forebay-subscription"] ?? ""
        _ = peer.plain("POST", "/v1/subscriptions/\(id)/request?n=10")
        let end = "\"message\":\"overflow: topic 't.a': the buffer of 1 message was full\",\"dropped\":0}\n"
        #expect(peer[stream].isEnded && peer[stream].text.contains(end))
        // An EventSource that comes back with the end's id is stopped.
        if accept == "text/event-stream" {
            #expect(peer[stream].text.contains("id: 0-0-end\nevent: failed\n"))
        }
        #expect(broker.shards[1].subscriptions.streamCount == 0)
    }

    @Test(arguments: [
        ("t.*", "overflow=block", "400", "overflow=block is not allowed"),
        ("t.*", "from=3", "400", "from is not allowed for a pattern"),
        ("t.*", "opening=on", "400", "opening=on is not allowed"),
        ("t.%3E.x", "", "400", "is not the last token"),
        ("t.*", "", "200", ""),
        ("t.%3E", "buffer=3", "200", ""),
    ])
    func headIsAnsweredLikeGet(_ topic: String, _ options: String, _ status: String, _ reason: String) {
        let broker = TestBroker()
        for method in ["GET", "HEAD"] {
            let peer = TestGRPC(broker)
            let stream = peer.plain(method, "/v1/topics/\(topic)/messages\(options.isEmpty ? "" : "?")\(options)")
            #expect(peer[stream].heads.first?[":status"] == status)
            let isStream = status == "200" && method == "GET"
            #expect(peer[stream].isEnded != isStream)
            if method == "GET", !isStream { #expect(peer[stream].text.contains(reason)) }
            peer.client.disconnect()
        }
        broker.advance(seconds: 1)
        expectNothingLeft(broker)
    }

    @Test(arguments: DeliveryTests.placements, ["text/event-stream", "application/x-ndjson"])
    func aClosedWindowStopsAllTopicsUntilItOpens(_ place: (Int, Int, Int), _ accept: String) {
        let (shards, at, from) = place
        let broker = TestBroker(shards: shards)
        let peer = TestGRPC(broker, at, window: 1000, connectionWindow: 1 << 20)
        let stream = peer.listen("t.*", accept: accept)
        peer.read()
        peer.closed = [stream]
        let topics = (0..<7).map { "t.\($0)" }
        let text = String(repeating: "x", count: 300)
        for round in 0..<10 {
            publish(broker, "\(round).\(text)", to: topics, shard: from)
            peer.read()
            #expect((peer.exchange(stream)?.body.count ?? 0) <= 1000 + 1000 && peer.connection!.output.count == 0)
        }
        for _ in 0..<5 {
            peer.send(windowUpdate(stream, 400))
            peer.read()
        }
        peer.closed = []
        peer.send(windowUpdate(stream, 1 << 20))
        peer.read()
        let found = accept == "text/event-stream" ? events(peer[stream]) : lines(peer[stream])
        #expect(found.count == 70)
        for topic in topics {
            #expect(found.filter { $0.hasPrefix(topic) } == (0..<10).map { "\(topic):\($0).\(text)" })
        }
    }

    /// The client cancels, or its connection is lost, with more cursors than are removed at a time.
    @Test(arguments: [1, 3], [false, true]) func nothingRemainsOfManyCursors(_ shards: Int, _ cancels: Bool) {
        let broker = TestBroker(shards: shards)
        let topics = (0..<300).map { "t.\($0)" }
        for window: UInt32 in [65_535, 50] {
            let peer = TestGRPC(broker, shards - 1, window: window)
            let stream = peer.listen("t.*", options: "&request=10")
            peer.opensWindows = window > 50
            for _ in 0..<2 { publish(broker, "abcdefghijklmnopqrstuvwxyz", to: topics) }
            peer.read()
            if cancels {
                peer.cancel(stream)
                #expect(peer.http!.exchanges.count == 0 && peer.http!.bodies.memory == 0)
                publish(broker, "after", to: topics)
            }
            peer.client.disconnect()
            publish(broker, "after", to: topics)
            broker.advance(seconds: 1)
            expectNothingLeft(broker)
        }
    }

    @Test func aStreamOverHTTP1NamesItsTopics() throws {
        let broker = HTTP1Broker()
        let reader = HTTP1Peer(broker)
        reader.send("GET", "/v1/topics/t.*/messages", [("Accept", "application/x-ndjson")])
        #expect(reader.answer()?.isStream == true)
        for topic in ["t.a", "t.b", "u.a"] { #expect(HTTP1Peer(broker).publish("x", to: topic) == 200) }
        let text = reader.read().text
        #expect(text.contains(#""topic":"t.a""#) && text.contains(#""topic":"t.b""#) && !text.contains("u.a"))
        broker.stalled.insert(reader.id)
        for index in 0..<300 { #expect(HTTP1Peer(broker).publish("y", to: "t.\(index)") == 200) }
        // Views are made some at a time.
        while broker.shard.hasWork { broker.shard.goOn(now: broker.now) }
        broker.unstall(reader.id)
        var rest = ""
        while true {
            let more = reader.read().text
            if more.isEmpty { break }
            rest += more
        }
        #expect(rest.split(separator: "\n").filter { $0.contains(#""payload":"y""#) }.count == 300)
        reader.lose()
        // The cursors are removed some at a time.
        while broker.shard.hasWork { broker.shard.goOn(now: broker.now) }
        broker.advance(1)
        #expect(broker.shard.subscriptions.streamCount == 0 && broker.shard.views.count == 0)
    }
}

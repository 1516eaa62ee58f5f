// gRPC's services besides PubSub: responses and lists of Admin, reflection, and notifications to Health's watchers.

import HTTP2
import Testing

@testable import Core

@Suite struct AdminTests {
    /// A call, its request, and the expected outcome: the status, the prefix of its text, and fields of the message.
    struct Case: Sendable {
        var method: GRPCMethod
        var request: [UInt8]
        var status = "0"
        var text = ""
        var fields: [UInt32: String] = [:]

        init(_ method: GRPCMethod, _ request: [UInt8], _ status: String = "0", _ text: String = "") {
            (self.method, self.request, self.status, self.text) = (method, request, status, text)
        }

        init(_ method: GRPCMethod, _ request: [UInt8], _ fields: [UInt32: String]) {
            (self.method, self.request, self.fields) = (method, request, fields)
        }
    }

    /// On a topic with two messages, one call after the other. Field 4 of a topic is its state.
    private func calls(on topic: String) -> [Case] {
        let long = String(repeating: "x", count: ControlRequest.longestReason + 1)
        let live = [2: topic, 4: "1", 6: "1", 7: "3"] as [UInt32: String]
        let failed = [2: topic, 4: "3", 5: "aus – Ende", 6: "1", 7: "3"] as [UInt32: String]
        let ended: [GRPCMethod] = [.completeTopic, .failTopic, .deleteTopic]
        return [
            Case(.info, [], [2: Shard.version]),
            Case(.topicInfo, field(1, topic), live),
            Case(.failTopic, field(1, topic) + field(2, long), "3", "invalid: The message has more than 1024 bytes"),
            Case(.failTopic, field(1, topic) + field(2, "aus – Ende"), failed),
            Case(.topicInfo, field(1, topic), failed),
            Case(.failTopic, field(1, topic), "9", "ended: The topic '\(topic)' has failed (aus – Ende)"),
            Case(.completeTopic, field(1, topic), "9", "ended: The topic '\(topic)' has failed"),
            // The topic is unchanged.
            Case(.deleteTopic, field(1, topic), failed),
            Case(.topicInfo, field(1, topic), "5", "not-found: There is no topic '\(topic)'"),
            Case(.topicInfo, [0x0A, 9], "3", "invalid: The request ends within a field"),
            Case(.topicInfo, [0x0A, 1, 0xFF], "3", "invalid: The text of topic is not valid UTF-8"),
            Case(.topicInfo, field(1, "$SYS.events"), [2: "$SYS.events", 4: "1"]),
        ]
            + ended.flatMap {
                [
                    Case($0, field(1, "nothing.there"), "5", "not-found: There is no topic 'nothing.there'"),
                    Case($0, field(1, "a b"), "3"), Case($0, [], "3", "invalid: The topic name is empty"),
                    Case($0, field(1, "$SYS.stats"), "7", "forbidden: '$SYS.stats' belongs to the broker"),
                ]
            }
    }

    /// A name that `shard` owns.
    private func name(on shard: Int, of broker: TestBroker, _ stem: String = "t") -> String {
        (0...).lazy.map { "\(stem)\($0)" }.first { broker.shards[0].owner(of: $0) == shard }!
    }

    @Test(arguments: [0, 1]) func callsAnswer(owner: Int) {
        let broker = TestBroker(shards: 2)
        let topic = name(on: owner, of: broker)
        for text in ["a", "b"] { broker.connect().fireAndForget(topic, text) }
        let client = GRPCClient(broker)
        for this in calls(on: topic) {
            let came = client.answer(client.call(this.method, this.request))
            #expect(came.status == this.status && came.text.hasPrefix(this.text), "\(this): \(came)")
            let reported = fields(came.message)
            for (number, value) in this.fields { #expect(reported[number] == value, "\(this): \(reported)") }
            #expect((reported[1]?.hasPrefix("{\"name\":\"") == true) == (this.status == "0"))
        }
        // An empty topic is not reported, and completing leaves no error.
        broker.connect().fireAndForget(topic, "c")
        let completed = fields(client.answer(client.call(.completeTopic, field(1, topic))).message)
        #expect(completed[4] == "2" && completed[5] == nil)
        let other = name(on: owner, of: broker, "u")
        broker.connect().fireAndForget(other, "c")
        let failed = fields(client.answer(client.call(.failTopic, field(1, other))).message)
        #expect(failed[4] == "3" && failed[5] == "failed by request")
        #expect(broker.shards[0].streams.count == 0)
    }

    @Test func callsWaitForTheirMessage() {
        let broker = TestBroker()
        let client = GRPCClient(broker)
        let silent = client.call(.info, nil)
        #expect(client.answer(silent).status == "none")
        client.halfClose(silent)
        #expect(client.answer(silent) == ("3", "invalid: The call has no message; send one.", nil))
        let open = client.call(.listSubscriptions, [], end: false)
        #expect(client.answer(open).status == "none")
        client.halfClose(open)
        #expect(client.answer(open).status == "0")
    }

    /// A stream does not wait forever for the end of its call.
    @Test func aMessageWaitsForItsEndOnlySoLong() {
        let broker = TestBroker()
        let client = GRPCClient(broker)
        let open = client.call(.completeTopic, field(1, "t"), end: false)
        broker.advance(seconds: 29)
        #expect(client.answer(open).status == "none")
        broker.advance(seconds: 2)
        #expect(client.answer(open).status == "4")
        #expect(client.answer(open).text.contains("half-close"))
        client.halfClose(open)
        #expect(broker.shards[0].topics["t"] == nil && broker.shards[0].streams.count == 0)
    }

    @Test(arguments: ["0n", "0H", "00000000m"]) func aCallWithoutTimeDoesNothing(timeout: String) {
        let broker = TestBroker()
        let client = GRPCClient(broker)
        let call = client.call(.info, [], timeout: timeout)
        #expect(client.answer(call).status == "4" && client.answer(call).message == nil)
    }

    @Test func theJSONIsThatOfRSocket() {
        let broker = TestBroker(shards: 2)
        let client = GRPCClient(broker)
        let peer = broker.connect()
        for number in 0..<150 { peer.fireAndForget("t\(number)", "x") }
        peer.subscribe("t0?replay=all", n: 7, stream: 101)
        peer.subscribe("t1?overflow=block", stream: 103)
        _ = peer.received()
        for (method, route) in [
            (GRPCMethod.listTopics, "$SYS.topics"), (.listSubscriptions, "$SYS.subscriptions"),
        ] {
            peer.subscribe(route, stream: 201)
            let lines = peer.received()
            let stream = client.call(method)
            #expect(client.answer(stream).status == "0")
            let rows = client.messages[stream]!.map { "201:" + fields($0)[1]! }
            #expect(rows + ["201:|"] == lines)
        }
        peer.publish("$SYS.topic.info?name=t7", "", stream: 203)
        let topic = client.answer(client.call(.topicInfo, field(1, "t7"))).message
        #expect(peer.received() == ["203:\(fields(topic)[1]!)|"])
        let stream = client.call(.listConnections)
        client.receive()
        let peers = client.messages[stream]!.map { fields($0) }
        #expect(peers.count == 2 && peers.allSatisfy { $0[1]!.contains("\"id\":\"\($0[2]!)\",\"peer\":\"\($0[3]!)\"") })
    }
}

@Suite struct AdminListTests {
    private func connection(_ client: GRPCClient) -> Connection {
        client.client.broker.shards[client.client.shard].find(client.client.id)!
    }

    private func listStreams(_ client: GRPCClient) -> [ListStream] {
        connection(client).streams.filter { $0.kind == .listStream }.map { $0.asListStream }
    }

    /// A list holds a page, and some rows for its stream; nothing more.
    private func checkIsSmall(_ client: GRPCClient) {
        for listStream in listStreams(client) {
            #expect(listStream.rows.count <= ListStream.page)
            #expect(listStream.exchange!.body.count < ListStream.body + 1024)
        }
    }

    private func broker(topics: Int, limits: Limits = Limits()) -> TestBroker {
        let broker = TestBroker(shards: 2, limits: limits)
        let peer = broker.connect()
        for number in 0..<topics { peer.fireAndForget("topic\(number)", "x") }
        return broker
    }

    @Test func aListGoesOnAsItsWindowOpens() {
        let broker = broker(topics: 400)
        let client = GRPCClient(broker, window: 0)
        let stream = client.call(.listTopics)
        client.receive()
        #expect(client.messages[stream] == nil && listStreams(client).count == 1)
        checkIsSmall(client)
        let held = listStreams(client)[0]
        #expect(held.rows.count > 0 && held.shard == 0, "it has not been gathered from the other shard")
        var rounds = 0
        while client.ended[stream] == nil, rounds < 1000 {
            client.openWindow(stream, 777)
            client.receive()
            checkIsSmall(client)
            rounds += 1
        }
        #expect(client.ended[stream]?.status == "0" && rounds > 50)
        let names = client.messages[stream]!.map { fields($0)[2]! }
        #expect(Set(names).isSuperset(of: (0..<400).map { "topic\($0)" }) && Set(names).count == names.count)
        #expect(listStreams(client).isEmpty && connection(client).streams.listCount == 0)
    }

    @Test func aListGoesOnAsItsSocketTakesBytes() {
        var limits = Limits()
        limits.output = 1000
        let broker = broker(topics: 400, limits: limits)
        let client = GRPCClient(broker)
        client.receive()
        client.client.window = 0
        let streams = (0..<3).map { _ in client.call(.listTopics) }
        for _ in 0..<20 {
            checkIsSmall(client)
            #expect(connection(client).output.count < 2 * limits.output + ListStream.body)
            client.client.read(500)
        }
        client.receive()
        #expect(client.ended.isEmpty)
        client.client.read(.max)
        client.receive()
        for stream in streams {
            #expect(client.ended[stream]?.status == "0" && client.messages[stream]!.count >= 400)
        }
    }

    @Test func listsAreCountedUntilTheyAreSent() {
        var limits = Limits()
        limits.listsPerConnection = 3
        let broker = broker(topics: 3, limits: limits)
        let client = GRPCClient(broker, window: 0)
        let streams = (0..<3).map { _ in client.call(.listTopics) }
        let refused = client.answer(client.call(.listConnections))
        #expect(refused.status == "8" && refused.text.hasPrefix("limit: The connection has 3 lists open"))
        client.reset(streams[0])
        #expect(connection(client).streams.listCount == 2)
        let last = client.call(.listConnections)
        #expect(connection(client).streams.listCount == 3)
        for stream in streams.dropFirst() + [last] {
            client.openWindow(stream, 1 << 20)
            #expect(client.answer(stream).status == "0")
        }
        #expect(connection(client).streams.listCount == 0 && broker.shards[0].streams.count == 0)
    }

    @Test func aListEndsAtItsDeadline() {
        let broker = broker(topics: 200)
        let client = GRPCClient(broker, window: 0)
        let stream = client.call(.listTopics, timeout: "500m")
        broker.advance(seconds: 0.25)
        client.receive()
        #expect(client.resets.isEmpty && listStreams(client).count == 1)
        broker.advance(seconds: 0.5)
        client.receive()
        #expect(client.resets == [stream] && client.ended.isEmpty)
        #expect(connection(client).streams.listCount == 0 && connection(client).http!.exchanges.count == 0)
        #expect(connection(client).waiters.listCount == 0)
        let next = client.call(.listSubscriptions)
        client.openWindow(next, 1)
        #expect(client.answer(next).status == "0")
    }

    @Test func listsThatAreGivenUpKeepNothing() {
        var limits = Limits()
        limits.output = 1000
        let broker = broker(topics: 200, limits: limits)
        let peer = broker.connect()
        let client = GRPCClient(broker)
        for stream in [peer, client.client] { stream.window = 0 }
        for number in 0..<40 {
            peer.subscribe("$SYS.topics", stream: UInt32(2 * number + 1))
            peer.cancel(stream: UInt32(2 * number + 1))
            client.reset(client.call(.listTopics))
        }
        for this in [peer, client.client] {
            let connection = broker.shards[0].find(this.id)!
            #expect(connection.streams.listCount == 0 && connection.waiters.listCount == 0)
        }
    }

    @Test func aListNobodyReadsDoesNotKeepTheBroker() {
        let broker = broker(topics: 200)
        let client = GRPCClient(broker, window: 0)
        let stream = client.call(.listTopics)
        for shard in broker.shards { shard.drain(now: broker.now) }
        broker.run()
        broker.advance(seconds: 1)
        #expect(client.client.isClosed)
        // The call's status follows rows that the window does not let through.
        #expect(client.answer(stream).message == nil)
    }
}

@Suite struct ReflectionTests {
    private let services = field(7, "")

    private func http(_ client: GRPCClient) -> HTTPConnection {
        client.client.broker.shards[client.client.shard].find(client.client.id)!.http!
    }

    @Test(arguments: [GRPCMethod.reflection, .reflectionAlpha]) func requestsAreAnswered(method: GRPCMethod) {
        let client = GRPCClient(TestBroker())
        let stream = client.call(method, services, end: false)
        client.send(client.data(stream, field(4, "forebay.v1.Admin")))
        client.send(client.data(stream, field(3, "there.is.none")))
        client.receive()
        #expect(client.ended[stream] == nil)
        let answers = client.messages[stream]!
        #expect(answers.count == 3)
        #expect(fields(answers[0])[6]?.contains("forebay.v1.Admin") == true)
        #expect(fields(answers[1])[4]?.contains("forebay/v1/forebay.proto") == true)
        #expect(fields(answers[2])[7]?.contains("there.is.none") == true)
        client.halfClose(stream)
        #expect(client.answer(stream).status == "0")
        let long = client.call(method, field(3, String(repeating: "x", count: Reflection.longestRequest)))
        #expect(client.answer(long).status == "8")
    }

    @Test(arguments: [0, 1, 7]) func requestsWaitForTheAnswerBefore(cut: Int) {
        let broker = TestBroker()
        let client = GRPCClient(broker, window: 0)
        let stream = client.call(.reflection, field(4, "forebay.v1.Admin"), end: false)
        let largest = 2 * http(client).exchange(of: stream)!.body.count
        var sent: [UInt8] = []
        for number in 0..<100 { sent += client.data(stream, field(number % 2 == 0 ? 4 : 3, "forebay.v1.Admin")) }
        for piece in cut == 0 ? [sent] : sent.chunks(of: cut) { client.send(piece) }
        client.halfClose(stream)
        let exchange = http(client).exchange(of: stream)!
        #expect(exchange.body.count <= largest && exchange.request.backlog.count > 2000)
        let held = exchange.request.held
        #expect(http(client).held == held && held.bytes >= exchange.request.backlog.count)
        for _ in 0..<1000 where client.ended[stream] == nil {
            client.openWindow(stream, 2000)
            client.receive()
            #expect(exchange.body.count <= largest)
        }
        #expect(client.ended[stream]?.status == "0")
        let kinds = client.messages[stream]!.map { fields($0)[4] == nil ? "error" : "file" }
        #expect(kinds == ["file"] + (0..<50).flatMap { _ in ["file", "error"] })
        let reflections = http(client).reflections
        #expect(http(client).held == HeldBytes() && reflections.count == 0 && reflections.waiting.isEmpty)
    }

    @Test func callsOfAConnectionAreFew() {
        var limits = Limits()
        limits.listsPerConnection = 2
        let broker = TestBroker(limits: limits)
        let client = GRPCClient(broker, window: 0)
        let streams = (0..<2).map { _ in client.call(.reflection, services, end: false) }
        for stream in streams { client.send(client.data(stream, services)) }
        #expect(http(client).reflections.waiting.count == 2)
        let refused = client.answer(client.call(.reflection, services))
        #expect(refused.status == "8" && refused.text.hasPrefix("limit: The connection has 2 reflection calls"))
        for stream in streams { client.reset(stream) }
        let reflections = http(client).reflections
        #expect(reflections.count == 0 && http(client).held == HeldBytes() && reflections.waiting.isEmpty)
        let next = client.call(.reflection, services)
        client.openWindow(next, 1 << 20)
        #expect(client.answer(next).status == "0")
    }

    @Test func watchersAreToldOfTheDrain() {
        let broker = TestBroker()
        let client = GRPCClient(broker)
        let known = client.call(.healthWatch, field(1, "forebay.v1.Admin"))
        let unknown = client.call(.healthWatch, field(1, "forebay.v1.Nobody"))
        let cancelled = client.call(.healthWatch)
        client.reset(cancelled)
        for shard in broker.shards { shard.drain(now: broker.now) }
        broker.run()
        client.receive()
        #expect(client.messages[known] == [[8, 1], [8, 2]])
        #expect(client.messages[unknown] == [[8, 3]])
        #expect(client.ended.isEmpty)
        broker.advance(seconds: 1)
        #expect(client.answer(known).status == "14" && client.answer(unknown).status == "14")
        #expect(client.messages[cancelled] == [[8, 1]])
        #expect(client.client.isClosed)
    }
}

extension [UInt8] {
    fileprivate func chunks(of size: Int) -> [[UInt8]] {
        stride(from: 0, to: count, by: size).map { Array(self[$0..<Swift.min($0 + size, count)]) }
    }
}

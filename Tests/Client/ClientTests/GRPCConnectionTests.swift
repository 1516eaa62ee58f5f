// A client's gRPC calls against the real server's session, with responses from the test.

import Bytes
import ForebayWire
import HTTP2
import Testing

@testable import Client

@Suite struct GRPCConnectionTests {
    private func text(_ text: String, _ body: (UnsafeRawBufferPointer) throws -> StreamID) rethrows -> StreamID {
        try Array(text.utf8).withUnsafeBytes(body)
    }

    private func subscribe(_ broker: GRPCBroker, n: UInt32 = 10, meta: Bool = false) throws -> StreamID {
        var options = SubscribeOptions()
        options.meta = meta
        return try broker.connection.subscribe("t", options, n: n)
    }

    // Subscriptions

    @Test func optionsGoIntoTheOpen() throws {
        let broker = GRPCBroker()
        var options = SubscribeOptions()
        options.start = .from(5, epoch: 9)
        options.buffer = 7
        options.overflow = .replaceNewest
        let id = try broker.connection.subscribe("a.b", options, n: 3)
        #expect(broker.talk() == [])
        let asked = try #require(broker.asked[id.value])
        #expect(asked.path == "/forebay.v1.PubSub/Subscribe" && !asked.isHalfClosed)
        func open(_ options: SubscribeOptions) -> SubscribeOpen { options.open("a.b", 3) }
        var expected = SubscribeOpen(topic: "a.b", requestN: 3)
        expected.start = .from(5, epoch: 9)
        expected.buffer = 7
        expected.overflow = .replaceNewest
        // A subscription that does not receive gap reports fails on a gap, unless its options say otherwise.
        expected.gapFails = true
        #expect(asked.messages == [Array(bytes { expected.append(to: &$0) }.dropFirst(5))])
        options.meta = true
        #expect(!open(options).gapFails)
        options.gap = .fail
        #expect(open(options).gapFails)
        options.gap = .tell
        options.meta = false
        #expect(!open(options).gapFails)
    }

    @Test(arguments: [1, 2, 3, 9, 100, Int.max])
    func messagesComeOneAtATime(step: Int) throws {
        let broker = GRPCBroker()
        broker.step = step
        let id = try subscribe(broker)
        _ = broker.talk()
        broker.send(id) { out in
            appendResponse([], to: &out)
            appendResponse([(1, "one"), (2, "two")], to: &out)
            appendResponse([(3, String(repeating: "x", count: 40_000))], to: &out)
        }
        broker.end(id, ["grpc-status": "0", "forebay-end": "completed", "forebay-dropped": "4"])
        #expect(
            broker.talk() == [
                .message(1, metadata: nil, "one"), .message(1, metadata: nil, "two"),
                .message(1, metadata: nil, String(repeating: "x", count: 40_000)), .completed(1, dropped: 4),
            ])
        #expect(broker.connection.outstanding(on: id) == 0)
    }

    @Test func metaTellsWhereAMessageStands() throws {
        let broker = GRPCBroker()
        let id = try subscribe(broker, meta: true)
        _ = broker.talk()
        // Content type text/plain, by its well-known id.
        let entry: [UInt8] = [0xfa, 0, 0, 1, 0xa1]
        broker.send(id) { out in
            appendResponse([], epoch: 5, dropped: 2, to: &out)
            appendResponse([(7, "a"), (8, "b")], epoch: 5, dropped: 1, metadata: entry, to: &out)
        }
        broker.carry()
        var infos: [MessageInfo?] = []
        var metadata: [[UInt8]?] = []
        while let event = try broker.connection.next() {
            guard case .message(_, let message) = event else { continue }
            infos.append(message.info)
            metadata.append(message.metadata.map { Array($0) })
        }
        // A loss is reported once, with the message after it.
        #expect(
            infos == [
                MessageInfo(epoch: 5, sequence: 7, timestamp: 1_000, dropped: 3),
                MessageInfo(epoch: 5, sequence: 8, timestamp: 1_000, dropped: 0),
            ])
        #expect(metadata == [entry, entry])
    }

    /// Figures of the broker beyond the maximum are clamped to it.
    @Test func whatWasDroppedIsClamped() throws {
        let broker = GRPCBroker()
        let id = try subscribe(broker, meta: true)
        _ = broker.talk()
        broker.send(id) { out in
            appendResponse([], dropped: .max, to: &out)
            appendResponse([(7, "a")], dropped: 3, to: &out)
            appendResponse([], dropped: .max - 1, to: &out)
        }
        broker.carry()
        var dropped: [UInt64?] = []
        while let event = try broker.connection.next() {
            if case .message(_, let message) = event { dropped.append(message.info?.dropped) }
        }
        #expect(dropped == [.max])
        broker.end(id, ["grpc-status": "0", "forebay-end": "completed", "forebay-dropped": "4"])
        #expect(broker.talk() == [.completed(1, dropped: .max)])
    }

    @Test func creditAddsUpAndNoMoreIsTaken() throws {
        let broker = GRPCBroker()
        let id = try subscribe(broker, n: 1)
        let other = try subscribe(broker)
        broker.connection.requestN(id, 1)
        _ = broker.talk()
        let credit = bytes { ClientRequests.appendCredit(1, to: &$0) }
        #expect(broker.asked[id.value]?.messages.last == Array(credit.dropFirst(5)))
        #expect(broker.connection.outstanding(on: id) == 2)
        broker.send(id) { appendResponse([(1, "a"), (2, "b"), (3, "c")], to: &$0) }
        broker.send(other) { appendResponse([(1, "fine")], to: &$0) }
        let error = ClientError(.overdelivered, "The broker sent more messages than were requested.")
        #expect(
            broker.talk() == [
                .message(1, metadata: nil, "a"), .message(1, metadata: nil, "b"), .failed(1, error),
                .message(3, metadata: nil, "fine"),
            ])
        #expect(broker.asked[id.value]?.reset == 8)
    }

    @Test func nothingAfterCancel() throws {
        let broker = GRPCBroker()
        let id = try subscribe(broker)
        _ = broker.talk()
        broker.send(id) { appendResponse([(1, "a"), (2, "b")], to: &$0) }
        broker.carry()
        guard case .message? = try broker.connection.next() else {
            Issue.record("no message")
            return
        }
        // The second message has already arrived.
        broker.connection.cancel(id)
        broker.connection.cancel(id)
        broker.connection.requestN(id, 1)
        #expect(broker.pull() == [])
        broker.send(id) { appendResponse([(3, "c")], to: &$0) }
        #expect(broker.talk() == [])
        #expect(broker.asked[id.value]?.reset == 8)
    }

    @Test func whatIsNotPulledIsNotAcknowledged() throws {
        let broker = GRPCBroker()
        let id = try subscribe(broker, n: CreditWindow.unbounded)
        _ = broker.talk()
        let window = broker.room(id)
        let text = String(repeating: "x", count: 10_000)
        for number in 1...200 { broker.send(id) { appendResponse([(UInt64(number), text)], to: &$0) } }
        broker.carry()
        // Nobody pulls: the window closes, and the rest stays with the broker.
        #expect(broker.room(id) == 0)
        var count = 0
        for _ in 0..<50 where try broker.connection.next() != nil { count += 1 }
        broker.carry()
        #expect(count == 50)
        let left = broker.talk().count
        #expect(count + left == 200)
        #expect(broker.room(id) > window / 2)
    }

    @Test func listsAreCallsOfTheirOwn() throws {
        let broker = GRPCBroker()
        let id = try broker.connection.subscribe("$SYS.topics", SubscribeOptions(), n: CreditWindow.unbounded)
        let paced = try broker.connection.subscribe("$SYS.topics", SubscribeOptions(), n: 1)
        _ = broker.talk()
        #expect(broker.asked[id.value]?.path == "/forebay.v1.Admin/ListTopics")
        // With a pace, it is up to the broker to refuse the subscription.
        #expect(broker.asked[paced.value]?.path == "/forebay.v1.PubSub/Subscribe")
        for name in ["a", "b"] {
            let row = TopicRow(
                json: "{\"name\":\"\(name)\"}", name: name, epoch: 1, state: .live, error: "", firstSequence: 1,
                nextSequence: 1)
            broker.send(id) { row.append(to: &$0) }
        }
        broker.end(id)
        #expect(
            broker.talk() == [
                .message(1, metadata: nil, "{\"name\":\"a\"}"), .message(1, metadata: nil, "{\"name\":\"b\"}"),
                .completed(1, dropped: 0),
            ])
    }

    // Publishing

    @Test func aChannelSendsOnlyUnderCredit() throws {
        let broker = GRPCBroker()
        let connection = broker.connection
        let id = try text("0") {
            try connection.openChannel("t", completesTopic: true, first: $0, isOnly: false, acknowledged: true)
        }
        #expect(broker.talk() == [])
        let opened = bytes {
            ClientRequests.appendPublishOpen(topic: "t", completesTopic: true, to: &$0)
        }
        #expect(broker.asked[id.value]?.messages.first == Array(opened.dropFirst(5)))
        #expect(connection.credit(of: id) == 0)
        #expect(!connection.send(id, none))
        broker.send(id) {
            PublishResponse(grantedCredit: 2, acknowledgedSequence: 41, acceptedCount: 1).append(to: &$0)
        }
        #expect(broker.talk() == [.granted(1, 2), .acknowledged(1, 41)])
        #expect(
            [connection.send(id, none), connection.send(id, none), connection.send(id, none)] == [true, true, false])
        connection.complete(id)
        connection.complete(id)
        #expect(broker.talk() == [])
        #expect(broker.asked[id.value]?.messages.count == 4 && broker.asked[id.value]?.isHalfClosed == true)
        #expect(connection.queued == 0)
        // Credit that arrives late is useless; a repeated acknowledgement is ignored.
        broker.send(id) {
            PublishResponse(grantedCredit: 5, acknowledgedSequence: 43, acceptedCount: 3).append(to: &$0)
            PublishResponse(grantedCredit: 5, acknowledgedSequence: 43, acceptedCount: 3).append(to: &$0)
        }
        broker.end(id)
        #expect(broker.talk() == [.acknowledged(1, 43), .completed(1, dropped: 0)])
    }

    @Test func grantsSaturate() throws {
        let broker = GRPCBroker()
        let id = try text("0") {
            try broker.connection.openChannel("t", completesTopic: false, first: $0, isOnly: false, acknowledged: false)
        }
        _ = broker.talk()
        for _ in 0..<2 {
            broker.send(id) {
                PublishResponse(grantedCredit: .max, acknowledgedSequence: 0, acceptedCount: 0).append(to: &$0)
            }
        }
        #expect(broker.talk() == [.granted(1, .max), .granted(1, .max)])
        #expect(broker.connection.credit(of: id) == CreditWindow.unbounded)
    }

    @Test func whatTheWindowHoldsBackIsQueued() throws {
        var limits = HTTP2Limits()
        limits.streamWindow = 1 << 16
        let broker = GRPCBroker(server: limits)
        let payload = [UInt8](repeating: 1, count: 500_000)
        let id = try payload.withUnsafeBytes { try broker.connection.publish("t", $0) }
        let before = broker.connection.queued
        #expect(before > 500_000)
        _ = broker.talk()
        #expect(broker.connection.queued == 0)
        #expect(broker.asked[id.value]?.messages.first?.count ?? 0 > 500_000)
    }

    @Test func callsWithOneAnswer() throws {
        let broker = GRPCBroker()
        let published = try text("x") { try broker.connection.publish("t", $0) }
        let empty = try broker.connection.publish("t", none)
        let asked = try broker.connection.call(.failTopic("t", message: "gone"))
        _ = broker.talk()
        #expect(broker.asked[published.value]?.isHalfClosed == true)
        #expect(broker.asked[empty.value]?.path == "/forebay.v1.PubSub/PublishOne")
        #expect(broker.asked[asked.value]?.path == "/forebay.v1.Admin/FailTopic")
        for id in [published, empty] {
            broker.send(id) { PublishOneResponse(sequence: 42, epoch: 9).append(to: &$0) }
            broker.end(id)
        }
        broker.send(asked) { InfoResponse(json: "{}", version: "1", number: 1, features: []).append(to: &$0) }
        broker.end(asked)
        #expect(
            broker.talk() == [
                .acknowledged(1, 42), .completed(1, dropped: 0), .acknowledged(3, 42), .completed(3, dropped: 0),
                .message(5, metadata: nil, "{}"), .completed(5, dropped: 0),
            ])
    }

    @Test func aPingIsAnsweredByAnything() throws {
        let broker = GRPCBroker()
        for status in ["0", "12"] {
            try [1, 2, 3].withUnsafeBytes { try broker.connection.ping($0, now: 1) }
            _ = broker.talk()
            let id = try #require(broker.asked.keys.max())
            broker.end(StreamID(id), ["grpc-status": status])
            let data: [Int] = [1, 2, 3]
            #expect(broker.talk() == [.pong(data.withUnsafeBytes { Array($0) })])
        }
        // A ping's caller has no stream that could fail.
        try [4].withUnsafeBytes { try broker.connection.ping($0, now: 1) }
        _ = broker.talk()
        broker.reset(StreamID(try #require(broker.asked.keys.max())), .internalError)
        #expect(broker.talk() == [.pong([4].withUnsafeBytes { Array($0) })])
    }
}

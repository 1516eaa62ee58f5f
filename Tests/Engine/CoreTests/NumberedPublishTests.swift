// Numbered publishes over RSocket: single ones and channels, on the topic's shard and on another one, parked, limited
// in rate, and to stored topics.

import ForebayWire
import Testing

@testable import Core

@Suite struct NumberedPublishTests {
    private static let mark = "application/vnd.forebay.duplicate"

    /// What has arrived, with "dup" after each acknowledgement of a duplicate, and without grants of credit.
    private func answers(_ client: TestClient) -> [String] {
        var lines: [String] = []
        client.takeFrames { frame in
            let line = TestClient.describe(frame)
            let isMarked = String(decoding: frame, as: UTF8.self).contains(Self.mark)
            if !line.contains(":+") { lines.append(line + (isMarked ? " dup" : "")) }
        }
        return lines
    }

    /// Publishes one message and returns the answer.
    private func publish(_ client: TestClient, _ number: UInt64, _ text: String, as id: String = "p") -> String {
        client.publish("t?publisher=\(id)&number=\(number)", text)
        return answers(client).joined(separator: " ")
    }

    private func refused(_ answer: String, _ text: String) -> Bool { answer.hasPrefix("3:! 202 publisher: \(text);") }

    private func contents(_ broker: TestBroker, _ at: Int = 0) -> [String] {
        let reader = broker.connect(at)
        reader.subscribe("t?replay=all&meta=off")
        defer { reader.disconnect() }
        return reader.received().map { String($0.dropFirst(2)) }
    }

    // Single publishes

    @Test(arguments: DeliveryTests.placements)
    func aNumberIsPublishedOnce(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let client = broker.connect(from)
        #expect(refused(publish(client, 2, "x"), "unknown, start at 1"))
        #expect(publish(client, 1, "a") == "3:1|")
        #expect(publish(client, 1, "again") == "3:1| dup")
        #expect(publish(client, 2, "b") == "3:2|")
        client.publish("t", "between")
        _ = answers(client)
        #expect(publish(client, 1, "again") == "3:2| dup")
        #expect(refused(publish(client, 4, "x"), "expected 3"))
        #expect(publish(client, 3, "c") == "3:4|")
        // Ids are independent of each other, and a second connection continues where the first one was.
        let second = broker.connect(at)
        #expect(publish(second, 1, "d", as: "q") == "3:5|")
        #expect(publish(second, 3, "again") == "3:4| dup")
        #expect(publish(second, 4, "e") == "3:6|")
        #expect(contents(broker, at) == ["a", "b", "between", "c", "d", "e"])
    }

    @Test func invalidNumbersAreRefused() {
        let broker = TestBroker()
        let client = broker.connect()
        let long = String(repeating: "x", count: 256)
        for options in [
            "publisher=p", "number=1", "publisher=&number=1", "publisher=p&number=0", "publisher=p&number=x",
            "publisher=p&number=9223372036854775808", "publisher=\(long)&number=1",
        ] {
            client.publish("t?\(options)", "x")
            client.channel("t?\(options)", "x")
            let heard = client.received()
            #expect(heard.count == 2 && heard.allSatisfy { $0.contains(":! 204 invalid: ") }, "\(options): \(heard)")
        }
        client.fireAndForget("t?publisher=p&number=1", "x")
        #expect(broker.shards[0].topics["t"] == nil)
        #expect(publish(client, UInt64(Int64.max), "x").contains("unknown, start at 1"))
        let whole = String(repeating: "x", count: 255)
        #expect(publish(client, 1, "a", as: whole) == "3:1|")
    }

    @Test func aDuplicateIsAcknowledgedAfterTheEndAndWithoutRoom() {
        let broker = TestBroker()
        let (client, subscriber) = (broker.connect(), broker.connect())
        subscriber.subscribe("t?overflow=block&buffer=1", n: 1)
        #expect(publish(client, 1, "a") == "3:1|")
        #expect(publish(client, 2, "b") == "3:2|")
        #expect(publish(client, 2, "b") == "3:2| dup")
        #expect(publish(client, 3, "c") == "")
        client.publish("$SYS.topic.complete?name=t", "", stream: 7)
        #expect(answers(client).count == 2)
        #expect(publish(client, 2, "b") == "3:2| dup")
        #expect(publish(client, 3, "c").hasPrefix("3:! 202 ended:"))
        // The name's next topic knows nobody.
        client.publish("$SYS.topic.delete?name=t", "", stream: 7)
        _ = answers(client)
        #expect(refused(publish(client, 3, "c"), "unknown, start at 1"))
        #expect(publish(client, 1, "c") == "3:1|")
    }

    @Test func usersHaveTheirOwnIds() {
        let users = AccessTable.users(["alice": .all, "bob": .all])
        let broker = TestBroker(access: users)
        let (alice, bob) = (broker.logIn("alice", of: users), broker.logIn("bob", of: users))
        #expect(publish(alice, 1, "a") == "3:1|")
        #expect(publish(bob, 1, "b") == "3:2|")
        #expect(publish(alice, 2, "c") == "3:3|")
        #expect(publish(bob, 1, "b") == "3:2| dup")
    }

    // Parked

    @Test(arguments: DeliveryTests.placements)
    func numbersCountWhenAMessageIsAppended(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let (client, subscriber) = (broker.connect(from), broker.connect(at))
        subscriber.subscribe("t?overflow=block&buffer=1&meta=off", n: 1)
        #expect(publish(client, 1, "a") == "3:1|")
        #expect(publish(client, 2, "b") == "3:2|")
        // Nothing of this finds room yet. 3 is withdrawn, so 4 lacks its predecessor; the second 3 replaces it.
        for (stream, number, text) in [(11, 3, "c"), (13, 4, "d"), (15, 3, "e"), (17, 3, "f"), (19, 4, "g")] {
            client.publish("t?publisher=p&number=\(number)", text, stream: UInt32(stream))
        }
        client.channel("t?publisher=p&number=4", "again", stream: 21)
        client.cancel(stream: 11)
        #expect(answers(client) == ["13:! 202 publisher: expected 3; " + expected(2)])
        subscriber.requestN(1)
        #expect(answers(client) == ["15:3|", "17:3| dup"])
        subscriber.requestN(1)
        #expect(answers(client) == ["19:4|", "21:4 dup"])
        client.items(["h"], stream: 21)
        #expect(answers(client).first?.hasPrefix("21:! 202 credit:") == true)
        subscriber.requestN(100)
        #expect(subscriber.received() == ["a", "b", "e", "g"].map { "1:" + $0 })
    }

    private func expected(_ last: Int) -> String {
        "the topic 't' has the messages of publisher 'p' up to \(last)."
    }

    // Channels

    @Test(arguments: DeliveryTests.placements)
    func aChannelContinuesItsPublisher(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let client = broker.connect(from)
        client.channel("t?publisher=p&number=1", "1")
        client.items(["2", "3"])
        #expect(answers(client).last == "5:3")
        client.cancel(stream: 5)
        // Repeats two, then goes on: the first run is mixed, the next ones are not.
        let second = broker.connect(at)
        second.channel("t?publisher=p&number=2", "2")
        #expect(answers(second) == ["5:3 dup"])
        second.items(["3", "4", "5"])
        #expect(answers(second) == ["5:5 dup"])
        second.items(["6", "7"])
        #expect(answers(second) == ["5:7"])
        second.complete()
        #expect(answers(second) == ["5:|"])
        client.channel("t?publisher=p&number=5", "5", stream: 7)
        client.items(["6", "7"], stream: 7)
        #expect(answers(client) == ["7:7 dup", "7:7 dup"])
        client.channel("t?publisher=p&number=9", "x", stream: 9)
        #expect(answers(client) == ["9:! 202 publisher: expected 8; " + expected(7)])
        client.channel("t?publisher=q&number=2", "x", stream: 9)
        #expect(answers(client).first?.hasPrefix("9:! 202 publisher: unknown, start at 1;") == true)
        #expect(contents(broker, at) == (1...7).map(String.init))
    }

    @Test func aPublisherIsSharedByChannelsAndSinglePublishes() {
        let broker = TestBroker()
        let (one, two, single) = (broker.connect(), broker.connect(), broker.connect())
        one.channel("t?publisher=p&number=1", "1")
        two.channel("t?publisher=p&number=1", "1")
        #expect(answers(one) + answers(two) == ["5:1", "5:1 dup"])
        two.items(["2"])
        #expect(publish(single, 3, "3") == "3:3|")
        one.items(["2", "3", "4", "5"])
        two.items(["3", "4", "5", "6"])
        #expect(answers(one) == ["5:5 dup"])
        #expect(answers(two) == ["5:2", "5:6 dup"])
        #expect(publish(single, 6, "6") == "3:6| dup")
        #expect(contents(broker) == (1...6).map(String.init))
    }

    @Test func duplicatesUseGrantsButNoRoom() throws {
        let broker = TestBroker()
        let (first, second, subscriber) = (broker.connect(), broker.connect(), broker.connect())
        first.channel("t?publisher=p&number=1", "1")
        first.items(["2", "3"])
        first.cancel(stream: 5)
        subscriber.subscribe("t?overflow=block&buffer=3", n: 0x7FFF_FFFF)
        second.channel("t?publisher=p&number=1", "1")
        let channel = try #require(broker.shards[0].topics["t"]?.publishers.current.channels.any)
        let granted = channel.outstanding
        #expect(granted > 1)
        second.items(["2"])
        #expect(channel.outstanding >= granted - 1 && channel.accepted == 2)
        #expect(broker.shards[0].topics["t"]?.published == 3)
        second.items(Array(repeating: "x", count: channel.outstanding + 2))
        #expect(answers(second).last?.hasPrefix("5:! 202 credit:") == true)
    }

    @Test func aChannelWithoutMessagesMakesNothingKnown() {
        let broker = TestBroker()
        let (client, subscriber) = (broker.connect(), broker.connect())
        subscriber.subscribe("t?overflow=block&buffer=1", n: 1)
        _ = (0..<2).map { _ in client.publish("t", "x") }
        client.channel("t?publisher=p&number=1", "1")
        client.cancel(stream: 5)
        #expect((broker.shards[0].topics["t"]?.publishers.numbers?.count ?? 0) == 0)
        #expect(broker.quotas.publishers.value == 0)
    }

    // Limits

    @Test func newPublishersAreRefusedAtALimit() {
        var limits = Limits()
        (limits.publishersPerTopic, limits.publisherTime) = (2, 100 * Limits.second)
        let broker = TestBroker(limits: limits)
        let client = broker.connect()
        #expect(publish(client, 1, "a", as: "a") == "3:1|")
        #expect(publish(client, 1, "b", as: "b") == "3:2|")
        #expect(publish(client, 1, "c", as: "c").hasPrefix("3:! 202 limit: The topic knows 2 publishers, the maximum"))
        client.channel("t?publisher=c&number=1", "c")
        #expect(answers(client).first?.hasPrefix("5:! 202 limit: ") == true)
        #expect(publish(client, 2, "a", as: "a") == "3:3|")
        // What is not used is forgotten by itself; a duplicate is a use.
        broker.advance(seconds: 99)
        #expect(publish(client, 1, "b", as: "b") == "3:2| dup")
        broker.advance(seconds: 2)
        #expect(broker.shards[0].topics["t"]?.publishers.numbers?.count == 1)
        #expect(refused(publish(client, 3, "a", as: "a"), "unknown, start at 1"))
        #expect(publish(client, 1, "c", as: "c") == "3:4|")
    }

    @Test func nothingRemainsOfARemovedTopic() {
        let broker = TestBroker()
        let client = broker.connect()
        _ = publish(client, 1, "a")
        #expect(broker.quotas.publishers.value == 1)
        broker.advance(seconds: 310)
        #expect(broker.shards[0].topics["t"] == nil && broker.quotas.publishers.value == 0)
    }

    @Test(arguments: DeliveryTests.placements)
    func publishersThatWaitForTheirRateKeepTheirOrder(_ shards: Int, _ at: Int, _ from: Int) {
        var limits = Limits()
        limits.publishRate = 2
        let broker = TestBroker(shards: shards, limits: limits)
        let client = broker.connect(from)
        for (stream, number) in [(3, 1), (5, 2), (7, 3), (9, 3), (11, 4)] {
            client.publish("t?publisher=p&number=\(number)", "\(number)", stream: UInt32(stream))
        }
        client.channel("t?publisher=p&number=4", "4", stream: 13)
        #expect(answers(client) == ["3:1|", "5:2|"])
        broker.advance(seconds: 3)
        #expect(answers(client) == ["7:3|", "9:3| dup", "11:4|", "13:4 dup"])
        #expect(contents(broker, at) == ["1", "2", "3", "4"])
    }

    // Stored topics

    private func storedBroker(_ shards: Int) throws -> TestBroker {
        var limits = Limits()
        limits.durable = [try TopicPattern(parsing: ">")]
        return TestBroker(shards: shards, limits: limits)
    }

    @Test(arguments: DeliveryTests.placements)
    func aDuplicateWaitsForItsOriginal(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try storedBroker(shards)
        let (client, second) = (broker.connect(from), broker.connect(at))
        #expect(publish(client, 1, "a") == "")
        #expect(publish(second, 1, "a") == "")
        second.channel("t?publisher=p&number=1", "a")
        second.items(["b"])
        #expect(answers(second) == [])
        broker.commit(upTo: 2)
        #expect(answers(client) == ["3:1|"])
        #expect(answers(second) == ["3:1| dup", "5:1 dup"])
        #expect(publish(client, 1, "a") == "3:1| dup")
        #expect(publish(client, 2, "b") == "")
        broker.commit()
        #expect(answers(client) == ["3:2| dup"])
        #expect(answers(second) == ["5:2"])
        second.complete()
        #expect(answers(second) == ["5:|"])
        #expect(contents(broker, at) == ["a", "b"])
    }

    @Test func aRefusedChannelEndsAfterItsDuplicatesAreCommitted() throws {
        let broker = try storedBroker(1)
        let (client, second) = (broker.connect(), broker.connect())
        client.channel("t?publisher=p&number=1", "a")
        client.items(["b"])
        second.channel("t?publisher=p&number=1", "a")
        second.items(["b"])
        second.complete()
        client.publish("$SYS.topic.complete?name=t", "", stream: 7)
        _ = answers(client)
        #expect(answers(second) == [])
        broker.commit()
        #expect(answers(second).first == "5:2 dup")
        #expect(contents(broker) == ["a", "b", "|"])
    }

    // The control request

    @Test(arguments: DeliveryTests.placements)
    func theLastNumberCanBeRequested(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try storedBroker(shards)
        let (client, other) = (broker.connect(from), broker.connect(at))
        func ask(_ id: String) -> String {
            other.publish("$SYS.publisher.info?topic=t&publisher=\(id)", "", stream: 21)
            return answers(other).joined()
        }
        #expect(ask("p") == #"21:{"topic":"t","publisher":"p","number":0,"sequence":0}|"#)
        #expect(broker.shards.allSatisfy { $0.topics["t"] == nil }, "asking creates no topic")
        _ = publish(client, 1, "a")
        let epoch = try #require(broker.shards.compactMap { $0.topics["t"] }.first?.epoch)
        #expect(ask("p") == #"21:{"topic":"t","epoch":"\#(epoch)","publisher":"p","number":0,"sequence":0}|"#)
        broker.commit()
        #expect(ask("p") == #"21:{"topic":"t","epoch":"\#(epoch)","publisher":"p","number":1,"sequence":1}|"#)
        #expect(ask("q").contains(#""number":0"#))
        for (options, error) in [
            ("topic=t", "invalid: $SYS.publisher.info needs a topic and a publisher"),
            ("topic=t&publisher=", "invalid: The publisher's id is empty"),
            ("topic=a..b&publisher=p", "invalid: The topic 'a..b' has an empty token"),
            ("topic=$SYS.events&publisher=p", "forbidden: '$SYS.events' belongs to the broker"),
        ] {
            other.publish("$SYS.publisher.info?\(options)", "", stream: 21)
            #expect(answers(other).joined().contains(error))
        }
    }
}

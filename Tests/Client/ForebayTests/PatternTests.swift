// Subscriptions to patterns, with a broker: many topics under one demand, and what is known after a lost connection.

import Core
import Streams
import Testing

@testable import Forebay

@Suite struct PatternTests {
    @Test(arguments: Wire.allCases) func laterTopicsMatch(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            try await client.topic("orders.eu").publish("0")
            try await client.topic("other").publish("0")
            var iterator = client.topics("orders.>").messages(replay: .all, window: 2).makeAsyncIterator()
            var found: [String] = []
            for topic in ["orders.eu", "orders.us.east", "orders.eu", "orders.asia"] {
                if !found.isEmpty { try await client.topic(topic).publish(OutgoingMessage("x", headers: [("a", "1")])) }
                let message = try #require(try await iterator.next())
                #expect(message.gap == nil && message.topic == topic)
                #expect(message.headers.map(\.name) == (found.isEmpty ? [] : ["a"]))
                found.append("\(message.sequence)")
            }
            #expect(found == ["1", "1", "2", "1"])
            await client.close()
        }
    }

    /// One demand counts for all topics.
    @Test(arguments: Wire.allCases) func demandIsNotExceeded(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            for topic in ["a.1", "a.2", "a.3"] {
                for number in 0..<3 { try await client.topic(topic).publish(bytes(number)) }
            }
            let (messages, feed) = AsyncStream.makeStream(of: Message.self)
            let sink = DemandSink<Message, ForebayError>(
                demand: 4, receiveCompletion: { _ in feed.finish() }, receiveValue: { feed.yield($0) })
            client.topics("a.*").messages(replay: .all).subscribe(sink)
            var iterator = messages.makeAsyncIterator()
            var found: [String: [Int]] = [:]
            for count in 1...9 {
                let message = try #require(await iterator.next())
                found[message.topic, default: []].append(message.number)
                if count == 4 { sink.increaseDemand(.max(5)) }
            }
            #expect(found == ["a.1": [0, 1, 2], "a.2": [0, 1, 2], "a.3": [0, 1, 2]])
            sink.cancel()
            await client.close()
        }
    }

    @Test(arguments: Wire.allCases) func aNameIsAPatternOfOneTopic(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            try await client.topic("t").publish("x")
            for try await message in client.topics("t").messages(replay: .all) {
                #expect(message.topic == "t" && message.text == "x")
                break
            }
            for try await message in client.topic("t").messages(replay: .all) {
                #expect(message.topic == "t")
                break
            }
            await client.close()
        }
    }

    @Test(arguments: Wire.allCases, ["orders.>.eu", "a.b*", "", "a..>"])
    func aPatternMayBeInvalid(_ wire: Wire, _ pattern: String) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            #expect(await failure(client.topics(pattern).messages())?.code == .invalid)
            await client.close()
        }
    }

    @Test(arguments: Wire.allCases) func whatGoesWithASingleTopicOnly(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            let topics = client.topics("a.>")
            #expect(await failure(topics.messages(overflow: .block))?.code == .invalid)
            #expect(await failure(topics.messages(replay: .from(sequence: 1, epoch: nil)))?.code == .invalid)
            #expect(await failure(topics.messages(window: 0))?.code == .invalid)
            await client.close()
        }
    }

    private func failure(_ messages: PatternMessages) async -> ForebayError? {
        var iterator = messages.makeAsyncIterator()
        do throws(ForebayError) {
            _ = try await iterator.next()
            return nil
        } catch {
            return error
        }
    }

    @Test(arguments: Wire.allCases) func anOverflowNamesTheTopic(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            try await client.topic("a.1").publish("0")
            var iterator = client.topics("a.*").messages(replay: .all, buffer: 1, overflow: .fail, window: 1)
                .makeAsyncIterator()
            for number in 1...4 { try await client.topic("a.1").publish(bytes(number)) }
            do throws(ForebayError) {
                while try await iterator.next() != nil {}
                Issue.record("the messages finished")
            } catch {
                #expect(error.code == .overflow && error.message.contains("'a.1'"))
            }
            await client.close()
        }
    }

    /// Nothing is lost, and nothing arrives twice, however often the connection is cut.
    @Test(arguments: Wire.allCases) func overACutNetworkEveryLossIsReported(_ wire: Wire) async throws {
        var limits = Limits()
        limits.retain = 100_000
        let broker = try TestBroker(limits: limits)
        let proxy = try Proxy(to: broker.port(wire))
        try await within {
            let producer = try await ForebayClient.connect(broker.url(wire))
            let consumer = try await ForebayClient.connect(proxy.url(wire), quick)
            let names = ["t.1", "t.2", "t.3"]
            for name in names { try await producer.topic(name).publish(bytes(0)) }
            var next = Dictionary(uniqueKeysWithValues: names.map { ($0, UInt64(1)) })
            var iterator = consumer.topics("t.*").messages(replay: .all, buffer: 100_000, window: 16)
                .makeAsyncIterator()
            let publications = names.map { name in
                (1..<1000).publisher.map(bytes).publish(to: producer.topic(name))
            }
            let last = Task {
                for publication in publications { #expect(try await publication.result() == 999) }
                for name in names { try await producer.topic(name).publish(bytes(1000)) }
            }
            var count = 0
            while next.values.contains(where: { $0 <= 1001 }) {
                let message = try #require(try await iterator.next())
                let expected = try #require(next[message.topic])
                #expect(message.gap == nil && message.sequence == expected)
                next[message.topic] = message.sequence + 1
                count += 1
                if count % 400 == 200, next.values.allSatisfy({ $0 <= 1001 }) {
                    await proxy.cut()
                    proxy.heal()
                }
            }
            try await last.value
            await producer.close()
            await consumer.close()
        }
    }

    /// Messages published meanwhile are received, because they are newer than the last one.
    @Test(arguments: Wire.allCases) func afterARestartTheGapIsReported(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire), quick)
            let producer = try await ForebayClient.connect(broker.url(wire), quick)
            var iterator = client.topics("t.*").messages(replay: .all).makeAsyncIterator()
            try await producer.topic("t.1").publish(bytes(0))
            let first = try #require(try await iterator.next())
            try broker.restart()
            try await producer.topic("t.1").publish(bytes(1))
            let second = try #require(try await iterator.next())
            #expect(second.number == 1 && second.sequence == 1)
            #expect(second.gap == Gap(.newEpoch(previous: first.epoch), lost: nil))
            try await producer.topic("t.2").publish(bytes(2))
            let third = try #require(try await iterator.next())
            #expect(third.topic == "t.2" && third.gap == nil)
            await client.close()
            await producer.close()
        }
    }
}

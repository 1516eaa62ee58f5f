// What is sent with a message on a channel, and what becomes of the messages before a failure.

import Foundation
import Streams
import Testing

@testable import Forebay

@Suite struct OutgoingTests {
    private static let messages = [
        OutgoingMessage("{}", contentType: "application/json", headers: [("a", "1"), ("b", "Grüße")]),
        OutgoingMessage("plain"),
        OutgoingMessage("x", contentType: "made/up"),
        OutgoingMessage("", headers: [("only", "")]),
        OutgoingMessage([UInt8](repeating: 7, count: 200_000), contentType: "text/plain", headers: [("large", "yes")]),
        OutgoingMessage("last"),
    ]

    /// Checks that messages arrive as published, both over the other protocol and over the same one.
    private func check(_ broker: TestBroker, _ topic: String) async throws {
        for wire in Wire.allCases {
            let client = try await ForebayClient.connect(broker.url(wire))
            var iterator = client.topic(topic).messages(replay: .all).makeAsyncIterator()
            for expected in Self.messages {
                let message = try #require(try await iterator.next())
                let headers = message.headers.sorted { $0.name < $1.name }
                let got = OutgoingMessage(message.payload, contentType: message.contentType ?? "", headers: headers)
                #expect(got == expected)
            }
            #expect(try await iterator.next() == nil)
            await client.close()
        }
    }

    @Test(arguments: Wire.allCases) func whatGoesWithMessagesOfAChannelIsDelivered(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            let count = Self.messages.count
            let publication = Self.messages.publisher.publish(to: client.topic("publisher"), ending: .topic)
            #expect(try await publication.result() == UInt64(count))
            let (elements, feed) = AsyncStream.makeStream(of: OutgoingMessage.self)
            for message in Self.messages { feed.yield(message) }
            feed.finish()
            #expect(try await client.topic("sequence").publish(contentsOf: elements, ending: .topic) == UInt64(count))
            for message in Self.messages { try await client.topic("single").publish(message) }
            #expect(try await [[UInt8]]().publisher.publish(to: client.topic("single"), ending: .topic).result() == 0)
            await client.close()
            for topic in ["publisher", "sequence", "single"] { try await check(broker, topic) }
        }
    }

    @Test(arguments: Wire.allCases) func textsAreMessages(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            let (elements, feed) = AsyncStream.makeStream(of: String.self)
            for text in ["c", "", "Grüße"] { feed.yield(text) }
            feed.finish()
            #expect(try await ["a", "b"].publisher.publish(to: client.topic("t")).result() == 2)
            #expect(try await client.topic("t").publish(contentsOf: elements, ending: .topic) == 3)
            var texts: [String] = []
            for try await message in client.topic("t").messages(replay: .all) {
                texts.append(String(decoding: message.payload, as: UTF8.self))
            }
            #expect(texts == ["a", "b", "c", "", "Grüße"])
            await client.close()
        }
    }

    private struct Broken: LocalizedError { var errorDescription: String? { "The disk is full." } }

    /// The error of a publisher is reported with its description.
    @Test func aFailureIsToldAsItDescribesItself() async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(.rsocket))
            let publication = Fail<String, Broken>(error: Broken()).publish(to: client.topic("t"))
            let error = await #expect(throws: ForebayError.self) { try await publication.result() }
            #expect(error?.code == .upstreamFailed && error?.message == "The publisher failed: The disk is full.")
            await client.close()
        }
    }

    @Test(arguments: Wire.allCases) func whatGoesWithAMessageIsRepeatedWithIt(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire), quick)
            let consumer = try await ForebayClient.connect(broker.url(wire), quick)
            var messages = consumer.topic("t").messages(replay: .all).makeAsyncIterator()
            let subject = PassthroughSubject<OutgoingMessage, Never>()
            let publication = subject.buffer(size: 10, prefetch: .keepFull, whenFull: .dropOldest)
                .publish(to: client.topic("t"))
            for number in 0..<3 {
                subject.send(OutgoingMessage(bytes(number), contentType: "n/\(number)", headers: [("n", "\(number)")]))
                let message = try #require(try await messages.next())
                #expect(message.number == number && message.contentType == "n/\(number)")
                #expect(message.headers.map(\.value) == ["\(number)"])
                try broker.restart()
            }
            publication.cancel()
            await client.close()
            await consumer.close()
        }
    }

    @Test(arguments: Wire.allCases) func whatIsOutOfBoundsFailsThePublication(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            var messages = client.topic("t").messages(replay: .all).makeAsyncIterator()
            let bad = [OutgoingMessage("fine"), OutgoingMessage("x", contentType: "é"), OutgoingMessage("never")]
            let publication = bad.publisher.publish(to: client.topic("t"), ending: .topic)
            let failure = await error { _ = try await publication.result() }
            #expect(failure?.code == .invalid && failure?.acknowledged == 1)
            #expect(try await messages.next()?.text == "fine")
            #expect(await error { _ = try await messages.next() }?.code == .topicFailed)
            let headers = (0...256).map { (name: "\($0)", value: "") }
            let many = OutgoingMessage("x", headers: headers)
            #expect(await error { try await client.topic("u").publish(many) }?.code == .invalid)
            await client.close()
        }
    }

    @Test func whatIsEncodableIsPublishedAsJSON() async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(.rsocket))
            let readings = [["celsius": 20], ["celsius": 21]]
            let publication = readings.publisher.encode(encoder: JSONEncoder())
                .map { OutgoingMessage(Array($0), contentType: "application/json") }
                .publish(to: client.topic("t"))
            #expect(try await publication.result() == 2)
            var messages = client.topic("t").messages(replay: .all).makeAsyncIterator()
            for reading in readings {
                let message = try #require(try await messages.next())
                #expect(message.contentType == "application/json")
                #expect(try JSONDecoder().decode([String: Int].self, from: Data(message.payload)) == reading)
            }
            await client.close()
        }
    }

    /// All messages were requested, and arrive at once with the failure.
    @Test(arguments: Wire.allCases, [PublicationEnd.channel, .topic])
    func whatCameBeforeAFailureIsPublished(_ wire: Wire, _ ending: PublicationEnd) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            var messages = client.topic("t").messages(replay: .all).makeAsyncIterator()
            let publisher = (0..<50).publisher.setFailureType(to: Boom.self).map(bytes)
                .append(Fail<[UInt8], Boom>(error: Boom()))
            let publication = publisher.publish(to: client.topic("t"), ending: ending)
            let failure = await error { _ = try await publication.result() }
            #expect(failure?.code == .upstreamFailed && failure?.acknowledged == 50)
            for number in 0..<50 { #expect(try await messages.next()?.number == number) }
            if ending == .topic { #expect(await error { _ = try await messages.next() }?.code == .topicFailed) }
            #expect(client.core.activityCount <= 1)
            await client.close()
        }
    }
}

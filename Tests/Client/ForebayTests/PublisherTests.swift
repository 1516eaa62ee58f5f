// Publications with a publisher's id: each message is published once, whatever happens to connections.

import Core
import Streams
import Synchronization
import Testing

@testable import Forebay

@Suite struct PublisherTests {
    private func roomyBroker() throws -> TestBroker {
        var limits = Limits()
        limits.retain = 100_000
        return try TestBroker(limits: limits)
    }

    /// The messages of a topic that has completed.
    private func contents(_ broker: TestBroker) async throws -> [String] {
        let client = try await ForebayClient.connect(broker.url(.rsocket))
        var found: [String] = []
        for try await message in client.topic("t").messages(replay: .all, buffer: 100_000) {
            found.append(String(decoding: message.payload, as: UTF8.self))
        }
        await client.close()
        return found
    }

    @Test(arguments: Wire.allCases) func overACutNetworkEachMessageIsPublishedOnce(_ wire: Wire) async throws {
        let broker = try roomyBroker()
        let proxy = try Proxy(to: broker.port(wire))
        try await within {
            let client = try await ForebayClient.connect(proxy.url(wire), quick)
            let publication = (0..<20_000).publisher.map(bytes).publish(
                to: client.topic("t"), ending: .topic, publisher: "p")
            for round in 1...5 {
                while publication.acknowledged < UInt64(round * 2000) { try await Task.sleep(nanoseconds: 1_000_000) }
                await proxy.cut()
                proxy.heal()
            }
            #expect(try await publication.result() == 20_000)
            await client.close()
            #expect(try await contents(broker) == (0..<20_000).map(String.init))
        }
    }

    /// The broker may read messages and the end of a topic from an earlier connection while these are sent again: the
    /// new channel is then ended, although each message is published.
    @Test func theEndOfAnEarlierConnectionIsNoDoubt() async throws {
        let broker = try roomyBroker()
        let proxy = try Proxy(to: broker.port(.rsocket))
        try await within {
            let client = try await ForebayClient.connect(proxy.url(.rsocket), quick)
            let values = BufferSubject<[UInt8], Never>(limit: 8)
            let publication = values.publish(
                to: client.topic("t"), ending: .topic, publisher: "p")
            values.send(bytes(0))
            while publication.acknowledged < 1 { await Task.yield() }
            proxy.deafen()
            for value in 1...3 { values.send(bytes(value)) }
            values.send(completion: .finished)
            while (try? broker.describe("t").contains("\"completed\"")) != true { await Task.yield() }
            await proxy.cut()

            // The same once more; the publication has sent one of the messages again when the others arrive.
            try broker.restart()
            let other = try await ForebayClient.connect(broker.url(.rsocket))
            let topic = other.topic("t")
            try await topic.publish(contentsOf: AsyncNumbers(0..<1), publisher: "p")
            // To the client's first question, which is whether it is connected, and to that for the last number.
            await proxy.heal(forAnswers: 2)
            while try !broker.describe("t").contains("\"published\":2") { await Task.yield() }
            try await topic.publish(contentsOf: AsyncNumbers(2..<4), ending: .topic, publisher: "p")
            proxy.heal()
            #expect(try await publication.result() == 4)
            await other.close()
            await client.close()
            #expect(try await contents(broker) == (0..<4).map(String.init))
        }
    }

    @Test(arguments: Wire.allCases) func aLaterPublicationContinues(_ wire: Wire) async throws {
        let broker = try roomyBroker()
        try await within {
            for range in [0..<3, 3..<4, 4..<10] {
                let client = try await ForebayClient.connect(broker.url(wire))
                let count = try await client.topic("t").publish(
                    contentsOf: AsyncNumbers(range), ending: range.upperBound == 10 ? .topic : .channel, publisher: "p")
                #expect(count == UInt64(range.count))
                await client.close()
            }
            #expect(try await contents(broker) == (0..<10).map(String.init))
        }
    }
}

// Outages under load: a broker that is killed again and again, and a network that is cut. The deliveries of
// subscriptions of both kinds are checked message by message.

import Streams
import Synchronization
import Testing

@testable import Forebay

@Suite(.serialized) struct OutageTests {
    @Test(arguments: Wire.allCases) func aKilledBrokerIsResumedAndTheGapTold(_ wire: Wire) async throws {
        let retained = 1_000_000
        let broker = try Daemon(["--retain", "\(retained)", "--retain-bytes", "1G", "--memory", "2G"])
        try await within {
            let producer = try await ForebayClient.connect(broker.url(wire), quick)
            let consumer = try await ForebayClient.connect(broker.url(wire), quick)
            let numbers = Numbers()
            let publication = numbers.publisher.publish(to: producer.topic("t"))
            let readers = Reader.Form.allCases.map {
                Reader($0, consumer.topic("t"), retained: retained, buffer: UInt32(retained))
            }
            var acknowledged: [UInt64] = []
            for kill in 0..<4 {
                try await reached { readers.allSatisfy { $0.count(epoch: kill) >= 300 } }
                broker.kill()
                acknowledged.append(publication.acknowledged)
                try broker.start()
            }
            try await reached { readers.allSatisfy { $0.count(epoch: 4) >= 300 } }
            numbers.stop()
            #expect(try await publication.result() == UInt64(numbers.made))
            try await reached { readers.allSatisfy { $0.seen.carried(4).last == numbers.made - 1 } }
            for reader in readers {
                let seen = reader.seen
                #expect(seen.faults.prefix(3) == [], "\(reader.form)")
                #expect(reader.error == nil)
                #expect(seen.epochs == readers[0].seen.epochs && seen.epochs.count == 5)
                check(seen, acknowledged)
                reader.cancel()
            }
            await producer.close()
            await consumer.close()
        }
    }

    /// Within an epoch nothing is skipped or repeated, because there is one channel; a channel begins with the
    /// unacknowledged messages of the previous one.
    private func check(_ seen: History, _ acknowledged: [UInt64]) {
        for epoch in seen.epochs.indices {
            let carried = seen.carried(epoch)
            let first = carried[0]
            #expect(carried == Array(first..<first + carried.count), "epoch \(epoch)")
            if epoch == 0 {
                #expect(first == 0)
            } else {
                #expect(first >= Int(acknowledged[epoch - 1]), "acknowledged messages are not sent again")
            }
        }
    }

    @Test(arguments: Wire.allCases) func overCutsNothingThatIsRetainedIsLostOrDoubled(_ wire: Wire) async throws {
        let retained = 1_000_000
        let broker = try Daemon(["--retain", "\(retained)", "--retain-bytes", "1G", "--memory", "2G"])
        let upstream = try Proxy(to: broker.port(wire))
        let downstream = try Proxy(to: broker.port(wire))
        try await within {
            let producer = try await ForebayClient.connect(upstream.url(wire), quick)
            let single = try await ForebayClient.connect(broker.url(wire))
            let consumer = try await ForebayClient.connect(downstream.url(wire), quick)
            let numbers = Numbers()
            let publication = numbers.publisher.publish(to: producer.topic("t"))
            let readers = Reader.Form.allCases.map {
                Reader($0, consumer.topic("t"), retained: retained, buffer: UInt32(retained), newest: { .max })
            }
            let isDone = Flag()
            // The sequence of each of these messages is known.
            let singles = Task {
                var acknowledged: [UInt64: Int] = [:]
                var number = 1_000_000_000
                while !isDone.isSet {
                    acknowledged[try await single.topic("t").publish(bytes(number)).sequence] = number
                    number += 1
                }
                return acknowledged
            }
            for cut in 1...8 {
                try await reached { readers.allSatisfy { $0.count(epoch: 0) >= cut * 300 } }
                let network = cut % 2 == 0 ? upstream : downstream
                await network.cut()
                network.heal()
            }
            numbers.stop()
            #expect(try await publication.result() == UInt64(numbers.made))
            isDone.set()
            let acknowledged = try await singles.value
            let last = try await single.topic("t").publish("-1").sequence
            try await reached { readers.allSatisfy { $0.seen.last == last } }
            for reader in readers {
                var seen = reader.seen
                seen.check(acknowledged: acknowledged)
                #expect(seen.faults.prefix(3) == [], "\(reader.form)")
                #expect(seen.lost == 0 && reader.error == nil)
                var next = 0
                for number in seen.carried(0) where (0..<1_000_000_000).contains(number) {
                    #expect(number <= next, "nothing is skipped")
                    next = max(next, number + 1)
                }
                #expect(next == numbers.made)
                reader.cancel()
            }
            for client in [producer, single, consumer] { await client.close() }
        }
    }

    @Test(arguments: Wire.allCases) func overACutOnlyWhatIsNotRetainedIsLost(_ wire: Wire) async throws {
        let retained = 100
        let broker = try Daemon(["--retain", "\(retained)"])
        let proxy = try Proxy(to: broker.port(wire))
        try await within {
            let producer = try await ForebayClient.connect(broker.url(wire))
            let consumer = try await ForebayClient.connect(proxy.url(wire), quick)
            let numbers = Numbers()
            let readers = Reader.Form.allCases.map {
                // A message that was not created has no sequence yet.
                Reader($0, consumer.topic("t"), retained: retained, buffer: 100) { UInt64(numbers.made) }
            }
            let publication = numbers.publisher.publish(to: producer.topic("t"))
            for cut in 1...5 {
                let lost = readers.map(\.seen.lost)
                try await reached { readers.allSatisfy { $0.count(epoch: 0) >= cut * 100 } }
                await proxy.cut()
                let made = numbers.made
                try await reached { numbers.made > made + 4 * retained }
                proxy.heal()
                try await reached { zip(readers, lost).allSatisfy { $0.seen.lost > $1 } }
            }
            numbers.stop()
            let count = try await publication.result()
            try await reached { readers.allSatisfy { $0.seen.last == count } }
            for reader in readers {
                let seen = reader.seen
                #expect(seen.faults.prefix(3) == [], "\(reader.form)")
                #expect(reader.error == nil)
                #expect(UInt64(seen.count) + seen.lost == count)
                reader.cancel()
            }
            await producer.close()
            await consumer.close()
        }
    }
}

// Pacing: a consumer's demand, on one side of a broker, is what a producer on the other side waits for.

import Glibc
import Streams
import Synchronization
import Testing

@testable import Forebay

/// Set FOREBAY_HEAVY=1 for the full sizes, best with a release build.
private let isHeavy = getenv("FOREBAY_HEAVY") != nil

private final class Ledger: Sendable {
    let made = Atomic<Int>(0)
    let taken = Atomic<Int>(0)
    let lead = Atomic<Int>(0)

    /// The producer makes another one.
    func make() {
        let made = made.add(1, ordering: .sequentiallyConsistent).newValue
        _ = lead.max(made - taken.load(ordering: .sequentiallyConsistent), ordering: .relaxed)
    }
}

/// The most bytes that this process has had in memory.
private func residentBytes() -> Int {
    var usage = rusage()
    getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    return usage.ru_maxrss * 1024
}

@Suite struct PacingTests {
    @Test(arguments: Wire.allCases) func oneAtATime(_ wire: Wire) async throws {
        try await pace(wire, count: isHeavy ? 100_000 : 2_000, window: 1, buffer: 8)
    }

    @Test(arguments: Wire.allCases) func sixtyFourAtATime(_ wire: Wire) async throws {
        try await pace(wire, count: isHeavy ? 10_000_000 : 20_000, window: 64, buffer: 64)
    }

    /// What the consumer has not taken is in its window or in its buffer, or is the message that opened the channel.
    private func pace(_ wire: Wire, count: Int, window: Int, buffer: UInt32) async throws {
        let broker = try TestBroker()
        try await within(.seconds(3600)) {
            let producer = try await ForebayClient.connect(broker.url(wire))
            let consumer = try await ForebayClient.connect(broker.url(wire))
            let ledger = Ledger()
            var messages = consumer.topic("t")
                .messages(replay: .all, buffer: buffer, overflow: .block, window: window).makeAsyncIterator()
            // The subscription is there before the channel: it blocks from the first message on.
            try await consumer.topic("t").publish("0")
            #expect(try await messages.next()?.number == 0)
            let publication = (1...count).publisher.map { number in
                ledger.make()
                return bytes(number)
            }.publish(to: producer.topic("t"), ending: .topic)
            var next = 1
            var early = 0
            while let message = try await messages.next() {
                guard message.number == next, message.gap == nil else {
                    Issue.record("\(message.number) came in place of \(next)")
                    break
                }
                next += 1
                ledger.taken.add(1, ordering: .sequentiallyConsistent)
                if next == count / 10 { early = residentBytes() }
            }
            #expect(next == count + 1)
            #expect(try await publication.result() == UInt64(count))
            let lead = ledger.lead.load(ordering: .relaxed)
            #expect(lead <= window + Int(buffer) + 1, "the producer was \(lead) ahead")
            // Of small sizes the other tests beside this one would be measured.
            if isHeavy { #expect(residentBytes() - early < 32 << 20, "memory grew") }
            await producer.close()
            await consumer.close()
        }
    }
}

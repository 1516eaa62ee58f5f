// The cost of delivery, counted and not timed: no allocation per message or per delivery, and no payload is copied for
// a subscriber on the common stream.

import Bytes
import CAllocations
import RSocket
import Testing

@testable import Core

/// Whether allocations are counted. Unoptimized code allocates in each loop, and a sanitizer brings its own allocator.
private var isCounted: Bool {
    #if DEBUG
        false
    #else
        allocation_counted()
    #endif
}

@Suite(.serialized, .enabled(if: isCounted, "only an optimized build without a sanitizer can be counted"))
struct AllocationTests {
    /// Feeds `rounds` reads of `batch` messages through one channel to `subscribers`, and counts.
    private func measure(subscribers: Int, stream: UInt32, batch: Int, rounds: Int) -> (
        allocations: Int, copied: UInt64
    ) {
        let broker = TestBroker()
        let shard = broker.shards[0]
        let clients = (0..<subscribers).map { _ in
            let client = broker.connect()
            client.subscribe("t", stream: stream)
            return client
        }
        let publisher = broker.connect()
        publisher.channel("t", "first")
        var read = ByteBuffer()
        let payload = [UInt8](repeating: 0x61, count: 128)
        for _ in 0..<batch {
            payload.withUnsafeBytes {
                FrameWriter.payload(
                    stream: 5, next: true, complete: false, metadata: nil, data: $0, fragment: 1 << 20, into: &read)
            }
        }
        var written = 0
        let pieces = UnsafeMutableBufferPointer<UnsafeRawBufferPointer>.allocate(capacity: 64)
        defer { pieces.deallocate() }
        func round() {
            shard.receive(read.readable, on: publisher.id, now: broker.now)
            while let id = shard.effects.flush.popLast() {
                let count = shard.gather(id, into: pieces)
                var total = 0
                for index in 0..<count { total += pieces[index].count }
                if id != publisher.id { written += total }
                shard.wrote(total, blocked: false, on: id, now: broker.now)
            }
        }
        for _ in 0..<200 { round() }
        written = 0
        let copied = clients.reduce(0) { $0 + shard.find($1.id)!.output.copied }
        let before = allocation_count()
        for _ in 0..<rounds { round() }
        let allocations = allocation_count() - before
        #expect(written == subscribers * rounds * batch * 137)
        return (allocations, clients.reduce(0) { $0 + shard.find($1.id)!.output.copied } - copied)
    }

    @Test
    func deliveringAllocatesNothing() {
        // The log's chunks are allocated, one for about 1,500 messages, and at most a small number per read.
        let one = measure(subscribers: 1, stream: 1, batch: 100, rounds: 300)
        let hundred = measure(subscribers: 101, stream: 1, batch: 100, rounds: 300)
        #expect(hundred.allocations - one.allocations <= 100, "\(hundred.allocations) against \(one.allocations)")
        #expect(Double(one.allocations) / (300 * 100) < 0.05, "\(one.allocations) allocations for 30,000 messages")
        #expect(one.copied == 0 && hundred.copied == 0)
    }

    @Test
    func anotherStreamCopiesOnceAndAllocatesNothing() {
        let one = measure(subscribers: 1, stream: 3, batch: 100, rounds: 300)
        let hundred = measure(subscribers: 101, stream: 3, batch: 100, rounds: 300)
        #expect(hundred.allocations - one.allocations <= 100, "\(hundred.allocations) against \(one.allocations)")
        #expect(hundred.copied == 101 * 300 * 100 * 137)
    }

    /// Single publishes to a known topic, 64 per read; the buffer of responses grows with each read.
    @Test(arguments: [Interaction.response, .fireAndForget])
    func singlePublishesAllocateNothing(_ kind: Interaction) {
        let broker = TestBroker()
        let shard = broker.shards[0]
        let publisher = broker.connect()
        var read = ByteBuffer()
        let payload = [UInt8](repeating: 0x61, count: 128)
        Array("orders.of.the.european.branches".utf8).withUnsafeBytes { route in
            payload.withUnsafeBytes { payload in
                for stream in (0..<64).map({ UInt32(2 * $0 + 1) }) {
                    if kind == .response {
                        FrameWriter.requestResponse(
                            stream: stream, metadata: route, data: payload, fragment: 0, into: &read)
                    } else {
                        FrameWriter.requestFNF(
                            stream: stream, metadata: route, data: payload, fragment: 0, into: &read)
                    }
                }
            }
        }
        let pieces = UnsafeMutableBufferPointer<UnsafeRawBufferPointer>.allocate(capacity: 64)
        defer { pieces.deallocate() }
        func round() {
            shard.receive(read.readable, on: publisher.id, now: broker.now)
            while let id = shard.effects.flush.popLast() {
                let count = shard.gather(id, into: pieces)
                var total = 0
                for index in 0..<count { total += pieces[index].count }
                shard.wrote(total, blocked: false, on: id, now: broker.now)
            }
        }
        for _ in 0..<100 { round() }
        let before = allocation_count()
        for _ in 0..<300 { round() }
        let allocations = allocation_count() - before
        #expect(shard.counters.published >= 400 * 64)
        #expect(Double(allocations) / (300 * 64) < 0.15, "\(allocations) allocations for \(300 * 64) publishes")
    }
}

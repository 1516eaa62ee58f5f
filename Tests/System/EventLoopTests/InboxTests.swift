// The inbox: order and completeness with many producers, and how often it wakes its consumer.

import EventLoop
import Glibc
import Testing

/// What a test's consumer has seen; only one thread uses it at a time.
private final class Seen: @unchecked Sendable {
    var values: [(producer: Int, number: Int)] = []
}

struct InboxTests {
    @Test func manyProducersKeepTheirOrderAndLoseNothing() throws {
        let inbox = try Inbox<(producer: Int, number: Int)>()
        let producers = 8
        let each = 20_000
        let seen = Seen()
        let consumer = try NamedThread.start("consumer") {
            do {
                var poller = try Poller()
                try poller.add(inbox.descriptor, token: 7, interest: .read)
                while seen.values.count < producers * each {
                    // A lost wake-up would leave the consumer here, and the count short.
                    guard try poller.wait(timeout: 20_000_000_000) == 1 else { return }
                    inbox.clearWake()
                    inbox.drain { seen.values.append($0) }
                }
            } catch {
                return
            }
        }
        let threads = try (0..<producers).map { producer in
            try NamedThread.start("producer") {
                for number in 0..<each { inbox.push((producer, number)) }
            }
        }
        for thread in threads { thread.join() }
        consumer.join()

        #expect(seen.values.count == producers * each)
        var next = Array(repeating: 0, count: producers)
        for (producer, number) in seen.values {
            #expect(next[producer] == number)
            next[producer] += 1
        }
    }

    @Test func wakesOnceUntilDrained() throws {
        let inbox = try Inbox<Int>()
        var poller = try Poller()
        try poller.add(inbox.descriptor, token: 1, interest: .read)
        #expect(try poller.wait(timeout: 0) == 0)

        inbox.push(1)
        #expect(try poller.wait(timeout: 10_000_000_000) == 1)
        inbox.clearWake()
        // The consumer has already been woken for items that it has not drained yet.
        inbox.push(2)
        #expect(try poller.wait(timeout: 0) == 0)
        var taken: [Int] = []
        inbox.drain { taken.append($0) }
        #expect(taken == [1, 2])

        inbox.push(3)
        #expect(try poller.wait(timeout: 10_000_000_000) == 1)
    }

    @Test func whatIsLeftIsFreed() throws {
        final class Item: Sendable {}
        weak var left: Item?
        do {
            let inbox = try Inbox<Item>()
            let item = Item()
            left = item
            inbox.push(item)
        }
        #expect(left == nil)
    }
}

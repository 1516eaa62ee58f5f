// The loop's tables: connections by id, lingering sockets, and the tokens that identify them.

import Core
import EventLoop
import Glibc
import Testing

@testable import Server

struct ConnectionTableTests {
    @Test func aStaleIdFindsNothing() {
        var table = ConnectionTable(capacity: 2)
        let first = ConnectionID(index: 1, generation: 1)
        let second = ConnectionID(index: 1, generation: 2)
        #expect(table[first] == nil)
        table.insert(first, fd: 10)
        #expect(table[first]?.pointee.fd == 10)
        #expect(table[second] == nil)
        #expect(table.remove(second) == nil)
        #expect(table.remove(first)?.fd == 10)
        #expect(table.remove(first) == nil)
        table.insert(second, fd: 11)
        #expect(table[first] == nil)
        #expect(table[second]?.pointee.fd == 11)
        #expect(table.count == 1)
        #expect(table[ConnectionID(index: .max, generation: 2)] == nil)
    }

    @Test func growsAndKeepsWhatItHolds() {
        var table = ConnectionTable(capacity: 1)
        for index in 0..<1000 { table.insert(ConnectionID(index: UInt32(index), generation: 7), fd: Int32(index)) }
        table[ConnectionID(index: 5, generation: 7)]?.pointee.paused = true
        table.insert(ConnectionID(index: 100_000, generation: 7), fd: 5000)
        #expect(table.count == 1001)
        #expect(table[ConnectionID(index: 5, generation: 7)]?.pointee.paused == true)
        #expect(table[ConnectionID(index: 999, generation: 7)]?.pointee.fd == 999)
        var taken: [Int32] = []
        table.removeAll { taken.append($0.fd) }
        #expect(taken == (0..<1000).map(Int32.init) + [5000])
        #expect(table.count == 0)
    }
}

struct TokenTests {
    @Test(arguments: [
        Token.inbox, .micro(0), .micro(.max), .relay(0), .relay(.max), .relayInner(0), .relayInner(.max),
        .listener(0), .listener(.max),
        .lingering(0), .lingering(.max), .connection(ConnectionID(index: 0, generation: 0)),
        .connection(ConnectionID(index: .max - 6, generation: .max)),
    ])
    func comesBackAsItWas(token: Token) {
        #expect(Token(rawValue: token.rawValue) == token)
    }
}

/// Serialized: file descriptors belong to the process, and the tests check whether theirs are open.
@Suite(.serialized) struct LingerQueueTests {
    private func descriptor() -> Int32 { open("/dev/null", O_RDONLY | O_CLOEXEC) }
    private func count(_ queue: LingerQueue, _ numbers: [UInt32]) -> Int {
        numbers.filter { queue.socket($0) != nil }.count
    }

    @Test func closesWhatItsTimeIsOverFor() {
        var queue = LingerQueue()
        #expect(queue.deadline == nil)
        let numbers = (1...3).map { queue.append(descriptor(), deadline: UInt64($0) * 10) }
        #expect(queue.deadline == 10)
        queue.expire(now: 9)
        #expect(count(queue, numbers) == 3)
        queue.expire(now: 20)
        #expect(queue.socket(numbers[0]) == nil && queue.socket(numbers[1]) == nil)
        #expect(queue.socket(numbers[2]) != nil)
        #expect(queue.deadline == 30)
        queue.closeAll()
        #expect(queue.count == 0 && queue.deadline == nil)
    }

    @Test func closesInAnyOrder() {
        var queue = LingerQueue()
        let numbers = (1...4).map { queue.append(descriptor(), deadline: UInt64($0)) }
        queue.close(numbers[1])
        queue.close(numbers[1])
        #expect(queue.count == 3 && queue.deadline == 1)
        queue.close(numbers[0])
        #expect(queue.count == 2 && queue.deadline == 3)
        let later = queue.append(descriptor(), deadline: 9)
        #expect(!numbers.contains(later))
        queue.close(numbers[3])
        queue.close(numbers[2])
        #expect(queue.count == 1 && queue.deadline == 9)
        queue.close(later)
        #expect(queue.count == 0 && queue.socket(later) == nil)
    }

    @Test func theOldestGoesWhenThereAreTooMany() {
        var queue = LingerQueue()
        var numbers: [UInt32] = []
        for number in 0..<(3 * LingerQueue.limit) {
            numbers.append(queue.append(descriptor(), deadline: UInt64(number)))
        }
        #expect(queue.count == LingerQueue.limit)
        #expect(queue.deadline == UInt64(2 * LingerQueue.limit))
        #expect(count(queue, numbers) == LingerQueue.limit)
        #expect(queue.socket(numbers[2 * LingerQueue.limit]) != nil)
        queue.closeAll()
        #expect(count(queue, numbers) == 0)
    }
}

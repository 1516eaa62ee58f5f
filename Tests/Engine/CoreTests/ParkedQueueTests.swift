// The queue of parked publishes, compared with the simplest model: an array.

import Testing

@testable import Core

@Suite struct ParkedQueueTests {
    @Test(arguments: 0..<50)
    func equalsAnArray(_ seed: Int) {
        var random = LedgerRandom(state: UInt64(seed))
        let budget = MemoryBudget(limit: .max)
        var queue = ParkedQueue(budget: budget)
        var model: [(key: StreamKey, bytes: Int)] = []
        var next: UInt32 = 0
        for _ in 0..<1000 {
            switch random.next(20) {
            case 0..<9:
                let key = StreamKey(shard: 0, handle: Handle(index: next, generation: 1))
                next += 1
                var message = MessageBatch()
                [UInt8](repeating: 1, count: random.next(50)).withUnsafeBytes {
                    message.append(metadata: nil, payload: $0)
                }
                queue.append(ParkedPublish(key: key, message: message, deadline: 0))
                model.append((key, message.bytes.count))
            case 9..<13 where !model.isEmpty:
                queue.removeFirst()
                model.removeFirst()
            case 13..<19 where !model.isEmpty:
                let place = random.next(model.count)
                queue.withdraw(model[place].key)
                queue.withdraw(model[place].key)
                model.remove(at: place)
            case 19 where random.next(10) == 0:
                #expect(queue.removeAll() == model.map(\.key))
                model.removeAll()
            default:
                queue.withdraw(StreamKey(shard: 1, handle: Handle(index: 0, generation: 1)))
            }
            #expect(queue.count == model.count && queue.isEmpty == model.isEmpty)
            #expect(queue.first?.key == model.first?.key)
            #expect(queue.bytes == model.reduce(0) { $0 + $1.bytes } && budget.used == queue.memory)
            #expect(queue.memory == queue.bytes + model.count * ParkedQueue.overhead)
        }
    }

    @Test func leavingCostsTheSameHoweverManyWait() {
        var queue = ParkedQueue(budget: MemoryBudget(limit: .max))
        func key(_ index: Int) -> StreamKey { StreamKey(shard: 0, handle: Handle(index: UInt32(index), generation: 1)) }
        for index in 0..<100_000 { queue.append(ParkedPublish(key: key(index), message: MessageBatch(), deadline: 0)) }
        for index in stride(from: 99_999, through: 1, by: -1) { queue.withdraw(key(index)) }
        #expect(queue.count == 1 && queue.first?.key == key(0))
    }
}

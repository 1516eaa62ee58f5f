// TimerQueue: the next due item, compared with a plain list.

import Testing

@testable import Core

@Suite struct TimerQueueTests {
    private final class Item: Timed {
        var timerPlace = -1
        var time: UInt64?
    }

    @Test func equalsAList() {
        var random = LedgerRandom(state: 5)
        var queue = TimerQueue<Item>()
        let items = (0..<200).map { _ in Item() }
        var now: UInt64 = 0
        for _ in 0..<20_000 {
            let item = items[random.next(items.count)]
            switch random.next(4) {
            case 0:
                queue.cancel(item)
                item.time = nil
            case 1:
                now += UInt64(random.next(5))
                while let due = queue.takeDue(now: now) {
                    #expect(due.time != nil && due.time! <= now && items.allSatisfy { $0.time ?? .max >= due.time! })
                    due.time = nil
                }
            default:
                let time = now + UInt64(random.next(500))
                queue.schedule(item, by: time)
                item.time = Swift.min(item.time ?? .max, time)
            }
            #expect(queue.deadline == items.compactMap(\.time).min())
            #expect(queue.count == items.count { $0.time != nil })
        }
        queue.schedule(items[0], by: .max)
        #expect(items[0].time != nil || items[0].timerPlace == -1, "what is never due is in no queue")
    }
}

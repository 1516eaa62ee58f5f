// TurnQueue, compared with the simplest model: an array.

import Testing

@testable import Core

@Suite struct TurnQueueTests {
    private final class Element {
        let number: Int
        var ticket: TurnQueue<Element>.Ticket?
        init(_ number: Int) { self.number = number }
    }

    @Test(arguments: 0..<50)
    func equalsAnArray(_ seed: Int) {
        var random = LedgerRandom(state: UInt64(seed))
        var queue = TurnQueue<Element>()
        var model: [Element] = []
        var gone: [Element] = []
        // Phases in which the queue grows, shrinks, and keeps its size.
        var joining = 9
        for step in 0..<3000 {
            if step % 200 == 0 { joining = [4, 9, 14][random.next(3)] }
            switch random.next(20) {
            case 0..<joining:
                let element = Element(step)
                element.ticket = queue.append(element)
                model.append(element)
            case joining..<(joining + 2):
                let element = queue.popFirst()
                #expect(element === model.first)
                if element != nil { gone.append(model.removeFirst()) }
            case 19 where random.next(20) == 0:
                queue.removeAll()
                gone += model
                model.removeAll()
            case 18 where !gone.isEmpty:
                let isThere = queue.withdraw(gone[random.next(gone.count)].ticket!)
                #expect(!isThere)
            default:
                guard !model.isEmpty else { continue }
                let element = model.remove(at: random.next(model.count))
                let answers = [queue.withdraw(element.ticket!), queue.withdraw(element.ticket!)]
                #expect(answers == [true, false])
                gone.append(element)
            }
            #expect(queue.count == model.count && queue.isEmpty == model.isEmpty)
            #expect(queue.first === model.first)
            #expect(queue.footprint <= 2 * queue.count + 32)
            if step % 50 == 0 {
                var all: [Int] = []
                queue.forEach { all.append($0.number) }
                #expect(all == model.map(\.number))
            }
        }
    }

    /// If removal were quadratic, this would take minutes, whatever the order.
    @Test(arguments: [1, 7, 199_999])
    func leavingCostsTheSameHoweverManyWait(_ stride: Int) {
        var queue = TurnQueue<Int>()
        let count = 200_000
        let tickets = (0..<count).map { queue.append($0) }
        for index in 0..<(count - 1) { queue.withdraw(tickets[index * stride % count]) }
        let last = queue.popFirst()
        #expect(queue.isEmpty && last == (count - 1) * stride % count)
    }

    @Test func whoTurnsInCirclesHoldsNoMemory() {
        var queue = TurnQueue<Int>()
        for index in 0..<3 { _ = queue.append(index) }
        for turn in 0..<10_000 {
            let element = queue.popFirst()
            #expect(element == turn % 3)
            _ = queue.append(element!)
            #expect(queue.footprint <= 38)
        }
    }

    @Test func whatLeftIsReleasedAtOnce() {
        var queue = TurnQueue<Element>()
        weak var released: Element?
        _ = queue.append(Element(0))
        do {
            let element = Element(1)
            element.ticket = queue.append(element)
            released = element
            queue.withdraw(element.ticket!)
        }
        #expect(released == nil && queue.count == 1)
    }
}

// Credit, as a table: what is requested and used, and what remains.

import Replay
import Testing

struct CreditTests {
    enum Step { case add(UInt32), spend(Int) }

    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        var mode: Credit.Mode
        var steps: [Step]
        var outstanding: UInt64
        var requested: UInt64
        var unbounded = false
        var testDescription: String { name }
    }

    static let max: UInt32 = 0x7FFF_FFFF
    static let cases: [Case] = [
        Case(name: "none at first", mode: .outstanding, steps: [], outstanding: 0, requested: 0),
        Case(name: "adds up", mode: .outstanding, steps: [.add(3), .add(4)], outstanding: 7, requested: 7),
        Case(
            name: "is spent", mode: .outstanding, steps: [.add(3), .spend(2), .add(1), .spend(0)], outstanding: 2,
            requested: 4),
        Case(name: "to the last", mode: .cumulative, steps: [.add(3), .spend(3)], outstanding: 0, requested: 3),
        Case(
            name: "one short of no limit", mode: .outstanding, steps: [.add(max - 1)], outstanding: 0x7FFF_FFFE,
            requested: 0x7FFF_FFFE),
        Case(
            name: "no limit at once", mode: .outstanding, steps: [.add(max)], outstanding: 0x7FFF_FFFF,
            requested: 0x7FFF_FFFF, unbounded: true),
        Case(
            name: "no limit at once, cumulative", mode: .cumulative, steps: [.add(max), .spend(9)],
            outstanding: 0x7FFF_FFFF, requested: 0x7FFF_FFFF, unbounded: true),
        Case(
            name: "more than no limit", mode: .outstanding, steps: [.add(.max)], outstanding: 0x7FFF_FFFF,
            requested: 0xFFFF_FFFF, unbounded: true),
        Case(
            name: "outstanding reaches it", mode: .outstanding, steps: [.add(max - 1), .add(1)],
            outstanding: 0x7FFF_FFFF, requested: 0x7FFF_FFFF, unbounded: true),
        Case(
            name: "outstanding does not reach it", mode: .outstanding,
            steps: [.add(max - 1), .spend(1), .add(1), .spend(5), .add(5)],
            outstanding: 0x7FFF_FFFE, requested: 0x8000_0004),
        Case(
            name: "the sum reaches it", mode: .cumulative,
            steps: [.add(max - 1), .spend(0x7FFF_FFFE), .add(1)], outstanding: 0x7FFF_FFFF, requested: 0x7FFF_FFFF,
            unbounded: true),
        Case(
            name: "no limit stays", mode: .outstanding, steps: [.add(max), .spend(1 << 40), .add(1), .spend(.max)],
            outstanding: 0x7FFF_FFFF, requested: 0x8000_0000, unbounded: true),
    ]

    @Test(arguments: cases) func table(_ given: Case) {
        var credit = Credit(mode: given.mode)
        for step in given.steps {
            switch step {
            case .add(let n):
                let accepted = credit.add(n)
                #expect(accepted)
            case .spend(let n): credit.spend(n)
            }
        }
        #expect(credit.outstanding == given.outstanding)
        #expect(credit.requested == given.requested)
        #expect(credit.isUnbounded == given.unbounded)
        #expect(credit.available == (given.unbounded ? .max : Int(given.outstanding)))
        #expect(credit.mode == given.mode)
    }

    @Test func nothingIsNotARequest() {
        for start: UInt32 in [0, 5, 0x7FFF_FFFF] {
            var asked = credit(start)
            let before = (asked.outstanding, asked.requested, asked.isUnbounded)
            let accepted = asked.add(0)
            #expect(!accepted)
            #expect(before == (asked.outstanding, asked.requested, asked.isUnbounded))
        }
    }
}

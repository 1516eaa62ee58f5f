// Counter: a number that several threads add to.

import Synchronization

package final class Counter: Sendable {
    private let number = Atomic<Int>(0)

    package init() {}

    package var value: Int { number.load(ordering: .relaxed) }
    package func add(_ amount: Int) { number.add(amount, ordering: .relaxed) }
}

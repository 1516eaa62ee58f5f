// Inbox: a queue between threads. Producers push onto a lock-free stack; the consumer takes the entire stack with one
// exchange and reverses it. Nodes are never popped one by one, so there is no ABA problem.
//
//     push: node.next = head; head = node     (compare and exchange)
//     take: list = head; head = nil           (exchange)
//
// A push onto an empty stack wakes the consumer. Other pushes find the wake pending and save the system call.

import Synchronization

/// A queue with many producing threads and one consuming thread. The elements of one producer come out in the order in
/// which they were pushed. A push costs an allocation, so push whole batches as one element. The queue has no limit;
/// its users must bound the number of elements in flight.
public final class Inbox<Element: Sendable>: @unchecked Sendable {
    // Unchecked because a pointer is not Sendable: a node is its producer's until it is pushed, then the consumer's.
    private struct Node {
        var element: Element
        var next: UnsafeMutablePointer<Node>?
    }

    private let head = Atomic<UnsafeMutablePointer<Node>?>(nil)
    private let wakeup: Wakeup

    public init() throws(SystemError) {
        wakeup = try Wakeup()
    }

    deinit { drain { _ in } }

    /// The consumer adds this to its poller, for reading.
    public var descriptor: Int32 { wakeup.descriptor }

    /// Adds `element`, and wakes the consumer if nothing was waiting. Any thread may call it.
    public func push(_ element: consuming Element) {
        let node = UnsafeMutablePointer<Node>.allocate(capacity: 1)
        node.initialize(to: Node(element: element, next: nil))
        var seen = head.load(ordering: .relaxed)
        while true {
            node.pointee.next = seen
            let (done, found) = head.weakCompareExchange(
                expected: seen, desired: node, successOrdering: .releasing, failureOrdering: .relaxed)
            if done { break }
            seen = found
        }
        if seen == nil { wakeup.signal() }
    }

    /// Clears the wake in the consumer's poller. Call it when the descriptor was readable, before `drain`.
    public func clearWake() {
        wakeup.clear()
    }

    /// Whether nothing waits. Elements pushed before anything that the consumer has already seen are visible here too.
    public var isEmpty: Bool { head.load(ordering: .acquiring) == nil }

    /// Hands over everything that waits, oldest first. Only the consuming thread may call it.
    public func drain(_ body: (consuming Element) -> Void) {
        var newest = head.exchange(nil, ordering: .acquiring)
        var oldest: UnsafeMutablePointer<Node>?
        while let node = newest {
            newest = node.pointee.next
            node.pointee.next = oldest
            oldest = node
        }
        while let node = oldest {
            let taken = node.move()
            node.deallocate()
            oldest = taken.next
            body(taken.element)
        }
    }
}

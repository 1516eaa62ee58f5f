// OutputQueue: the connections of a loop that have output, in the order in which they are written to.
//
//     output ─┬─ little ─▶ written to in this turn, as long as half of its share is left
//             └─ much ───▶ written to in order of arrival, with what is left of the turn's share
//
// Without this order, a few messages would wait until all connections that read a long history have been written to.

import Core

struct OutputQueue {
    /// How many connections one turn writes to (one system call each), and how many bytes (which the kernel copies).
    static let slice = 256
    static let share = 1 << 20
    /// A connection that was last offered more bytes than this counts as one with much output.
    static let much = 16 << 10

    private var new: [ConnectionID] = []
    private var waiting: [ConnectionID] = []
    /// The index of the first connection in `waiting` that has not been written to.
    private var head = 0

    var isEmpty: Bool { head == waiting.count }

    /// Takes further connections with output. `flush` is empty afterwards.
    mutating func take(_ flush: inout [ConnectionID]) { swap(&new, &flush) }

    /// Writes to some connections, once to each. Called once after each `take`.
    /// - Parameters:
    ///   - hasMuch: whether a connection was last offered more than `much` bytes.
    ///   - write: writes to a connection, and returns how many bytes it took.
    mutating func writeSome(hasMuch: (ConnectionID) -> Bool, write: (ConnectionID) -> Int) {
        var (count, bytes) = (0, 0)
        for id in new {
            if count < OutputQueue.slice / 2, bytes < OutputQueue.share / 2, !hasMuch(id) {
                bytes += write(id)
                count += 1
            } else {
                waiting.append(id)
            }
        }
        new.removeAll(keepingCapacity: true)
        while head < waiting.count, count < OutputQueue.slice, bytes < OutputQueue.share {
            head += 1
            bytes += write(waiting[head - 1])
            count += 1
        }
        if isEmpty {
            waiting.removeAll(keepingCapacity: true)
            head = 0
        } else if head > 16 << 10 {
            waiting.removeFirst(head)
            head = 0
        }
    }
}

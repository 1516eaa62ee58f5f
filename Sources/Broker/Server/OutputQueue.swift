// OutputQueue: the connections of a loop that have output, in the order in which they are written to.
//
//     output ─┬─ small ─▶ written first, up to half of the turn's budget, and again if some is left
//             └─ bulk ──▶ written next, in order of arrival
//
// Otherwise, a small message would wait for every connection that reads a long history.

import Core

struct OutputQueue {
    /// How many connections one turn writes to (one system call each), and how many bytes (which the kernel copies).
    static let connections = 256
    static let bytes = 1 << 18
    /// A connection whose last write offered more bytes than this, or took as much time, has bulk output.
    static let small = 16 << 10

    private var arrived: [ConnectionID] = []
    private var small = Line()
    private var bulk = Line()

    var isEmpty: Bool { small.isEmpty && bulk.isEmpty }

    /// Takes further connections with output. `flush` is empty afterwards.
    mutating func take(_ flush: inout [ConnectionID]) { swap(&arrived, &flush) }

    /// Writes to some connections, once to each. Called once after each `take`.
    /// - Parameters:
    ///   - isBulk: whether a connection's last write offered more than `small` bytes, or took as much time.
    ///   - write: writes to a connection, and returns how many bytes it took, or the equivalent of its time, if more.
    mutating func writeSome(isBulk: (ConnectionID) -> Bool, write: (ConnectionID) -> Int) {
        for id in arrived {
            if isBulk(id) { bulk.append(id) } else { small.append(id) }
        }
        arrived.removeAll(keepingCapacity: true)
        var (connections, bytes) = (OutputQueue.connections / 2, OutputQueue.bytes / 2)
        small.write(&connections, &bytes, write)
        connections += OutputQueue.connections / 2
        bytes += OutputQueue.bytes / 2
        bulk.write(&connections, &bytes, write)
        small.write(&connections, &bytes, write)
    }

    private struct Line {
        private var ids: [ConnectionID] = []
        /// The index of the first connection that has not been written to.
        private var head = 0

        var isEmpty: Bool { head == ids.count }

        mutating func append(_ id: ConnectionID) { ids.append(id) }

        /// Writes until the budget is used up, which is reduced by what was written.
        mutating func write(_ connections: inout Int, _ bytes: inout Int, _ write: (ConnectionID) -> Int) {
            while head < ids.count, connections > 0, bytes > 0 {
                head += 1
                connections -= 1
                bytes -= write(ids[head - 1])
            }
            if isEmpty {
                ids.removeAll(keepingCapacity: true)
                head = 0
            } else if head > 16 << 10 {
                ids.removeFirst(head)
                head = 0
            }
        }
    }
}

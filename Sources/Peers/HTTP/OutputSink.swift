// OutputSink: where a session of HTTP/2 writes to.

import HTTP2

/// Takes a session's frames into a connection's output: heads are copied, bodies go by reference where they can.
struct OutputSink: HTTPSink, ~Copyable {
    unowned(unsafe) let face: HTTPFace
    unowned(unsafe) let connection: Connection

    mutating func write(_ bytes: UnsafeRawBufferPointer) {
        connection.output.reserve(bytes.count).copyMemory(from: bytes)
    }

    mutating func body(stream: UInt32, handle: UInt32, atMost: Int) -> (count: Int, drained: Bool) {
        guard let exchange = face.exchange(at: handle) else { return (0, true) }
        let count = Swift.min(exchange.body.count, atMost)
        return (count, count == exchange.body.count)
    }

    mutating func data(stream: UInt32, handle: UInt32, head: UnsafeRawBufferPointer, count: Int) {
        connection.output.reserve(head.count).copyMemory(from: head)
        guard let exchange = face.exchange(at: handle) else { return }
        face.move(count, of: exchange, into: connection)
    }
}

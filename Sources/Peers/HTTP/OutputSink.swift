// OutputSink: where a session of HTTP/2 writes to.

import Bytes
import HTTP2

/// Takes a session's frames into a connection's output: heads are copied, bodies go by reference where they can.
struct OutputSink: HTTPSink, ~Copyable {
    // References are not counted: `HTTPConnection.produce` has both while it runs, in which no exchange ends.
    let http: Unmanaged<HTTPConnection>
    let connection: Unmanaged<Connection>

    mutating func write(_ bytes: UnsafeRawBufferPointer) {
        connection._withUnsafeGuaranteedRef { $0.output.reserve(bytes.count).copyMemory(from: bytes) }
    }

    mutating func body(stream: UInt32, handle: UInt32, atMost: Int) -> (count: Int, drained: Bool) {
        let waiting = exchange(handle)?._withUnsafeGuaranteedRef { $0.body.count } ?? 0
        return (Swift.min(waiting, atMost), waiting <= atMost)
    }

    mutating func data(stream: UInt32, handle: UInt32, head: UnsafeRawBufferPointer, count: Int) {
        guard let exchange = exchange(handle) else { return write(head) }
        http._withUnsafeGuaranteedRef { http in
            connection._withUnsafeGuaranteedRef { connection in
                exchange._withUnsafeGuaranteedRef { http.move(count, of: $0, behind: head, into: connection) }
            }
        }
    }

    @inline(__always)
    private func exchange(_ handle: UInt32) -> Unmanaged<Exchange>? {
        http._withUnsafeGuaranteedRef { $0.unretainedExchange(at: handle) }
    }
}

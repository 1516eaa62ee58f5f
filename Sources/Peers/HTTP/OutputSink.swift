// OutputSink: where an HTTP/2 session writes.

import Bytes
import HTTP2

/// Writes a session's frames to a connection's output. Heads are copied; bodies are referenced if possible.
struct OutputSink: HTTPSink, ~Copyable {
    // The references are not retained: `HTTPConnection.produce` holds both while it runs, and no exchange ends in the
    // meantime.
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

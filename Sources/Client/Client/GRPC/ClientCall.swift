// ClientCall: what a connection knows of one gRPC call.

import Bytes
import HTTP2

final class ClientCall: NumberedStream {
    enum Kind {
        /// Subscribe. `meta`: what goes with messages beside their payloads is wanted.
        case subscription(meta: Bool)
        /// Publish.
        case channel
        /// PublishOne.
        case publish
        /// A call of Admin, or a list of its.
        case rows
        /// Health's Check, with what is to come back in `.pong`.
        case ping([UInt8])
    }

    let id: StreamID
    let kind: Kind
    var deframer: GRPCDeframer
    /// Bytes of `deframer`, as they are counted with the connection's.
    var held = 0
    /// Requests that are not written yet.
    var outgoing = ByteBuffer()
    /// Our half is open.
    var sends = true
    /// Messages that the broker may still send.
    var demand: Allowance
    /// Messages that we may still send on a channel.
    var credit = Allowance(0)
    /// Messages of a channel that have been accepted.
    var accepted: UInt64 = 0
    /// Of a subscription: its topic's; 0 until the broker has told it.
    var epoch: UInt64 = 0
    /// Messages that a subscription lost since the last one.
    var dropped: UInt64 = 0

    init(id: StreamID, kind: Kind, demand: UInt32, limit: Int) {
        self.id = id
        self.kind = kind
        self.demand = Allowance(demand)
        deframer = GRPCDeframer(limit: limit)
    }

    var isSubscription: Bool { if case .subscription = kind { true } else { false } }
}

/// The open calls of a connection, and its output: where the session's frames go.
struct CallSink: HTTPSink, ~Copyable {
    var output = ByteBuffer()
    var calls = StreamList<ClientCall>()
    /// Bytes of all calls' `outgoing`.
    private(set) var waiting = 0

    mutating func write(_ bytes: UnsafeRawBufferPointer) { output.append(bytes) }

    mutating func body(stream: UInt32, handle: UInt32, atMost: Int) -> (count: Int, drained: Bool) {
        guard let call = calls[StreamID(stream)] else { return (0, true) }
        let count = min(call.outgoing.count, atMost)
        return (count, count == call.outgoing.count)
    }

    mutating func data(stream: UInt32, handle: UInt32, head: UnsafeRawBufferPointer, count: Int) {
        output.append(head)
        guard let call = calls[StreamID(stream)] else { return }
        output.append(call.outgoing.readable.slice(0..<count))
        call.outgoing.consume(count)
        call.outgoing.shrink(above: 64 << 10)
        waiting -= count
    }

    /// Appends to a call's requests.
    mutating func append(_ call: ClientCall, _ write: (inout ByteBuffer) -> Void) {
        let before = call.outgoing.count
        write(&call.outgoing)
        waiting += call.outgoing.count - before
    }

    mutating func remove(_ call: ClientCall) {
        waiting -= call.outgoing.count
        call.outgoing.removeAll()
        calls.remove(call)
    }

    mutating func removeAll() {
        calls.removeAll()
        waiting = 0
    }
}

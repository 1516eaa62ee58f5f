// ClientCall: the state of one gRPC call in a connection.

import Bytes
import HTTP2

final class ClientCall: NumberedStream {
    enum Kind {
        /// Subscribe. `meta`: deliver messages with their metadata.
        case subscription(meta: Bool)
        /// Publish.
        case channel
        /// PublishOne.
        case publish
        /// A call or a list of Admin.
        case rows
        /// Health's Check, with the data to return in `.pong`.
        case ping([UInt8])
    }

    let id: StreamID
    let kind: Kind
    var deframer: GRPCDeframer
    /// Bytes of `deframer`, as counted in the connection's total.
    var held = 0
    /// Requests not written yet.
    var outgoing = ByteBuffer()
    /// Whether our half is open.
    var sends = true
    /// Messages that the broker may still send.
    var demand: Allowance
    /// Messages that we may still send on a channel.
    var credit = Allowance(0)
    /// Messages of a channel that have been accepted.
    var accepted: UInt64 = 0
    /// For a subscription: the topic's epoch; 0 until the broker has sent it.
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

/// The open calls of a connection, and its output, to which the session's frames are written.
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

    /// Appends to the requests of a call.
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

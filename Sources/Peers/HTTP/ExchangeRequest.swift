// ExchangeRequest: the client's side of an exchange. The content of a plain HTTP request is in its PlainExchange.

import Bytes
import HTTP2

/// Bytes of unprocessed messages, and of the memory that holds them.
struct HeldBytes: Equatable {
    var bytes = 0
    var memory = 0
}

/// The received part of a request, and what it waits for.
struct ExchangeRequest: ~Copyable {
    /// What must happen before the engine acts on the received bytes.
    enum Wait {
        /// The credentials are being checked.
        case login(ticket: UInt64, authorization: String)
        /// The client must half-close after the only message that the call takes.
        case end
        /// The response to an earlier request of the call must leave. Bytes that wait also count in the peer's window.
        case answer
    }

    /// Holds the incomplete message of a call.
    var deframer: GRPCDeframer
    private(set) var wait: Wait?
    /// Bytes of a call that arrived while it waits.
    private(set) var backlog = ByteBuffer()
    /// Whether the client sends nothing more.
    var isHalfClosed = false
    /// Whether received bytes are being processed.
    var isTaking = false
    /// When the current message of a call must be complete, on the monotonic clock, and that message's number.
    private(set) var messageDue: (time: UInt64, number: UInt64)?
    /// The request's part of the connection's total.
    var held = HeldBytes()

    init(limit: Int) { deframer = GRPCDeframer(limit: limit) }

    /// The ticket of the login that the request waits for.
    var ticket: UInt64? { if case .login(let ticket, _) = wait { ticket } else { nil } }
    var awaitsEnd: Bool { if case .end = wait { true } else { false } }

    /// Waits until `wait` has happened.
    mutating func wait(on wait: Wait) {
        assert(self.wait == nil && backlog.isEmpty)
        self.wait = wait
    }

    /// Ends a login whose credentials have been checked. Returns them. Bytes that arrived in the meantime are still in
    /// `backlog`.
    mutating func endLogin() -> String? {
        guard case .login(_, let authorization) = wait else { return nil }
        wait = nil
        return authorization
    }

    /// Keeps bytes until the wait ends.
    mutating func keep(_ bytes: UnsafeRawBufferPointer) {
        assert(wait != nil)
        backlog.append(bytes)
    }

    /// Ends the wait. Returns the bytes that arrived in the meantime.
    mutating func takeBacklog() -> ByteBuffer {
        assert(ticket == nil)
        if awaitsEnd { messageDue = nil }
        wait = nil
        var bytes = ByteBuffer()
        swap(&bytes, &backlog)
        return bytes
    }

    /// Keeps the rest of the backlog until the next response leaves.
    mutating func putBack(_ bytes: consuming ByteBuffer) {
        assert(wait == nil && backlog.isEmpty)
        if !bytes.isEmpty { wait = .answer }
        backlog = bytes
    }

    /// Requires the current message to be complete within `timeout` nanoseconds, in however many pieces; and, after a
    /// call's only message, the call to end within the same time. Returns the deadline if it is new.
    mutating func limitMessage(to timeout: UInt64, now: UInt64) -> UInt64? {
        guard deframer.heldBytes > 0 || awaitsEnd else {
            messageDue = nil
            return nil
        }
        if let messageDue, messageDue.number == deframer.count { return nil }
        let time = now.addingClamped(timeout)
        messageDue = (time, deframer.count)
        return time
    }

    /// Drops the rest of the request. A pending login continues, because its user is counted when it ends.
    mutating func release() {
        assert(!isTaking)
        if ticket == nil { wait = nil }
        backlog = ByteBuffer()
        deframer = GRPCDeframer(limit: deframer.limit)
        messageDue = nil
    }
}

// ExchangeRequest: the client's side of an exchange. The content of a plain HTTP request is in its PlainExchange.

import Bytes
import HTTP2

/// Bytes of messages that are not dealt with, and of the memory that they lie in.
struct HeldBytes: Equatable {
    var bytes = 0
    var memory = 0
}

/// What has come of a request, and what it waits for.
struct ExchangeRequest: ~Copyable {
    /// What has to happen before the engine acts upon what came.
    enum Wait {
        /// These credentials are looked at.
        case login(ticket: UInt64, authorization: String)
        /// The client half-closes, behind the one message that the call takes.
        case end
        /// The answer to an earlier request of the call leaves. What waits counts in the peer's window, too.
        case answer
    }

    /// What a call has of a message that is not complete.
    var deframer: GRPCDeframer
    private(set) var wait: Wait?
    /// What came of a call while it waits.
    private(set) var backlog = ByteBuffer()
    /// The client sends no more.
    var isHalfClosed = false
    /// Bytes that came are being dealt with.
    var isTaking = false
    /// When the message of a call that has begun is to be complete, on the monotonic clock, and which one that is.
    private(set) var messageDue: (time: UInt64, number: UInt64)?
    /// As it is counted with the connection's.
    var held = HeldBytes()

    init(limit: Int) { deframer = GRPCDeframer(limit: limit) }

    /// That of the login that it waits for.
    var ticket: UInt64? { if case .login(let ticket, _) = wait { ticket } else { nil } }
    var awaitsEnd: Bool { if case .end = wait { true } else { false } }

    /// It goes on once that has happened.
    mutating func wait(on wait: Wait) {
        assert(self.wait == nil && backlog.isEmpty)
        self.wait = wait
    }

    /// The credentials have been looked at: what they were. What came meanwhile is in `backlog` still.
    mutating func endLogin() -> String? {
        guard case .login(_, let authorization) = wait else { return nil }
        wait = nil
        return authorization
    }

    /// Keeps bytes until it goes on.
    mutating func keep(_ bytes: UnsafeRawBufferPointer) {
        assert(wait != nil)
        backlog.append(bytes)
    }

    /// What came meanwhile: it waits for nothing any more.
    mutating func takeBacklog() -> ByteBuffer {
        assert(ticket == nil)
        if awaitsEnd { messageDue = nil }
        wait = nil
        var bytes = ByteBuffer()
        swap(&bytes, &backlog)
        return bytes
    }

    /// What is left of the backlog waits for the next answer to leave.
    mutating func putBack(_ bytes: consuming ByteBuffer) {
        assert(wait == nil && backlog.isEmpty)
        if !bytes.isEmpty { wait = .answer }
        backlog = bytes
    }

    /// Gives the message that has begun `timeout` nanoseconds to be complete, in however many pieces it comes; and one
    /// behind which the call's end has to come, as much for that. Returns when that is if it was not known.
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

    /// Nothing more of it is wanted. A login goes on, as its user is counted when it ends.
    mutating func release() {
        assert(!isTaking)
        if ticket == nil { wait = nil }
        backlog = ByteBuffer()
        deframer = GRPCDeframer(limit: deframer.limit)
        messageDue = nil
    }
}

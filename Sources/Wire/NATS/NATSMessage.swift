// NATSMessage: a message as it arrived, in place.

import Bytes

/// A received message. The pointers are valid until the next call of `next`, `received` or `tick`.
public struct NATSMessage {
    /// Where the message was published to; never empty. Usually UTF-8, but servers do not check that.
    public var subject: UnsafeRawBufferPointer
    /// Where to send an answer; nil for no answer.
    public var reply: UnsafeRawBufferPointer?
    /// The id of the subscription, as given to `subscribe`.
    public var subscription: UInt64
    /// The header block with its first line and the empty line at its end; nil if the message has no headers. Servers
    /// forward it as the publisher sent it, so it may be malformed: see `NATSHeaders`.
    public var headers: UnsafeRawBufferPointer?
    public var payload: UnsafeRawBufferPointer
}

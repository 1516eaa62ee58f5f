// HTTPEvent: what a session reports to its owner, and HTTPSink: what it asks of the owner when it writes.

/// One event caused by the peer. Pointers are valid until the next call of `next`, `feed` or `hold`.
///
/// Only a ServerSession has `request`, and only a ClientSession has `response` and `closing`; both have all others.
///
/// Every stream announced by `request` or opened by a client ends with exactly one `closed` or `reset`, unless the
/// owner called `reset` or the connection ended first. A stream has no events after that.
public enum HTTPEvent {
    /// A request. `complete`: it has no body.
    case request(stream: UInt32, head: RequestHead, complete: Bool)
    /// The head of the response to a request; informational responses are not reported. `complete`: it has no body, and
    /// only `closed` follows.
    case response(stream: UInt32, handle: UInt32, head: ResponseHead, complete: Bool)
    /// Bytes of the peer's body, at least one. They count against the peer's windows until `consume`.
    case data(stream: UInt32, handle: UInt32, bytes: UnsafeRawBufferPointer)
    /// The peer's body has ended, and with it the peer's half of the stream.
    case complete(stream: UInt32, handle: UInt32, trailers: HTTPFieldsView?)
    /// The stream ended before its response did: by the peer's RST_STREAM with this code, or because of the peer's
    /// error, which was answered with RST_STREAM; for a client also if the peer accepts no more streams. The stream has
    /// been removed.
    case reset(stream: UInt32, handle: UInt32, code: HTTP2Code)
    /// Both the response and the request have ended; the response has been written or, in a client, read completely.
    /// The stream has been removed.
    case closed(stream: UInt32, handle: UInt32)
    /// The peer made room on a stream that had none. `produce` will ask for its body.
    case writable(stream: UInt32, handle: UInt32)
    /// The peer will end the connection for this reason: it accepts no more requests, and existing ones continue.
    case closing(String)
    /// Reading has taken this many units of work, of about a microsecond each, not covered by other events: header
    /// sections, by their expanded size, and frames without events. The owner may call `hold` and serve other
    /// connections.
    case worked(units: Int)
    /// The peer answered `ping`.
    case pong(UInt64)
    /// The peer broke a rule or exceeded a limit. Call `produce` until it returns nothing more, write the output, and
    /// close. All streams have been removed, and no further event comes.
    case fatal(HTTP2Error)
    /// The peer ended the connection by GOAWAY with an error. All streams have been removed; no further event comes.
    case closedByPeer(HTTP2Error)
}

/// Where a session's output goes. Its methods must not call the session.
public protocol HTTPSink: ~Copyable {
    /// Appends a copy of `bytes` to the connection's output.
    mutating func write(_ bytes: UnsafeRawBufferPointer)

    /// Returns how many bytes of a stream's body can be sent now, at most `atMost`, which is at least 1. Takes none of
    /// them: `data` does, if it is called.
    ///
    /// - Returns: `drained` means that nothing of the stream is queued after these `count` bytes. After `finish` that
    ///   is the end of the stream; before it, the stream is asked again after the next `bodyAvailable`.
    mutating func body(stream: UInt32, handle: UInt32, atMost: Int) -> (count: Int, drained: Bool)

    /// Appends `head` (9 bytes, a DATA frame's header) and then the next `count` bytes of the stream's body to the
    /// output. `count` is what `body` has just returned, and at least 1.
    mutating func data(stream: UInt32, handle: UInt32, head: UnsafeRawBufferPointer, count: Int)
}

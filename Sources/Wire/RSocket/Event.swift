// Event: what a server connection reports to its owner.

/// The four interaction models of RSocket.
public enum Interaction: UInt8, Sendable {
    case response, fireAndForget, stream, channel
}

/// Metadata and data of a message. The pointers are valid until the next call of `next`, `feed` or `acceptSetup`.
public struct Content {
    /// Nil means no metadata; empty means present but empty.
    public var metadata: UnsafeRawBufferPointer?
    public var data: UnsafeRawBufferPointer

    public init(metadata: UnsafeRawBufferPointer?, data: UnsafeRawBufferPointer) {
        self.metadata = metadata
        self.data = data
    }
}

/// An accepted form of SETUP: version 1, without lease.
public struct Setup {
    public var minor: UInt16
    /// Milliseconds between the client's KEEPALIVEs, as the client announces: 0 to 2³¹−1.
    public var keepalive: UInt32
    /// Milliseconds without a KEEPALIVE after which the client gives up, as the client announces: 0 to 2³¹−1.
    public var lifetime: UInt32
    public var metadataMime: String
    public var dataMime: String
    /// The token for resuming the connection; nil if it is not resumable. Valid as long as the pointers of `Content`.
    public var resumeToken: UnsafeRawBufferPointer?
    /// Credentials, if any; valid as long as the pointers of `Content`.
    public var content: Content
}

/// The contents of RESUME. Positions count bytes of frames and have 63 bits. Any version is accepted: rsocket-js sends
/// 0.1.
public struct ResumeRequest {
    /// Valid as long as the pointers of `Content`.
    public var token: UnsafeRawBufferPointer
    /// The position up to which the client has received the server's frames.
    public var lastReceivedServerPosition: UInt64
    /// The oldest position from which the client can send its own frames again.
    public var firstAvailableClientPosition: UInt64
}

/// One event caused by the client. Pointers are valid until the next call of `next`, `feed` or `acceptSetup`.
public enum Event {
    /// The first frame. No further event comes before `acceptSetup`.
    indirect case setup(Setup)
    /// RESUME as the first frame instead of SETUP: the client wants to continue an earlier session. No further event
    /// comes; call `takeRest`.
    indirect case resume(ResumeRequest)
    /// A whole request, reassembled if it was fragmented. Its stream is in the table, except for fire-and-forget.
    /// `complete`: the requester's half is complete, always true except for channels. `initialN` is at least 1 and
    /// applies to streams and channels.
    case request(stream: UInt32, kind: Interaction, initialN: UInt32, complete: Bool, content: Content)
    /// An item of a channel's requester (`next`), its completion, or both.
    case payload(stream: UInt32, handle: UInt32, next: Bool, complete: Bool, content: Content)
    /// Consecutive unfragmented items of a channel's requester, without metadata.
    case payloads(PayloadRun, handle: UInt32)
    /// Demand for the responder's half, which is still open. `n` is 0 to 2³¹−1.
    case requestN(stream: UInt32, handle: UInt32, n: UInt32)
    /// The requester cancelled; the stream has already been removed.
    case cancel(stream: UInt32, handle: UInt32)
    /// The requester's half of a channel failed; the stream has already been removed. The text may be cut, even within
    /// a character.
    case error(stream: UInt32, handle: UInt32, code: UInt32, message: UnsafeRawBufferPointer)
    /// If `respond` is set, answer with the same data without `respond`.
    case keepalive(respond: Bool, position: UInt64, data: UnsafeRawBufferPointer)
    case metadataPush(UnsafeRawBufferPointer)
    /// Answer with this ERROR. The stream has already been removed; `handle` is nil if it had none.
    case refuse(stream: UInt32, handle: UInt32?, RSocketError)
    /// A rejected fire-and-forget request. The request needs no answer; the event exists so that the rejection can be
    /// counted.
    case drop(stream: UInt32, RSocketError)
    /// Answer with this ERROR on stream 0, then close the connection. No further event comes.
    case fatal(RSocketError)
    /// The client ended the connection with an ERROR on stream 0. No further event comes.
    case closedByPeer(code: UInt32, message: UnsafeRawBufferPointer)
}

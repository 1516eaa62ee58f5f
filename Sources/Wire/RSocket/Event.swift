// What a server connection tells its owner.

/// The four interactions of RSocket.
public enum Interaction: UInt8, Sendable {
    case response, fireAndForget, stream, channel
}

/// Metadata and data of a message. The pointers are valid until the next call of `next`, `feed` or `acceptSetup`.
public struct Content {
    /// Nil: none. Empty: present but empty.
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
    /// Milliseconds between the client's KEEPALIVEs, as it says: 0 to 2³¹−1.
    public var keepalive: UInt32
    /// Milliseconds without a KEEPALIVE after which the client gives up, as it says: 0 to 2³¹−1.
    public var lifetime: UInt32
    public var metadataMime: String
    public var dataMime: String
    /// By which the connection wants to be resumed; nil if it does not. Valid as the pointers of `Content` are.
    public var resumeToken: UnsafeRawBufferPointer?
    /// Credentials, if any; valid as the pointers of `Content` are.
    public var content: Content
}

/// What RESUME asks for. Positions are bytes of frames, 63 bits. Any version is taken: rsocket-js says 0.1.
public struct ResumeRequest {
    /// Valid as the pointers of `Content` are.
    public var token: UnsafeRawBufferPointer
    /// How much of what the server sent the client has.
    public var lastReceivedServerPosition: UInt64
    /// From where on the client still has what it sent.
    public var firstAvailableClientPosition: UInt64
}

/// One thing that came from the client. Pointers are valid until the next call of `next`, `feed` or `acceptSetup`.
public enum Event {
    /// The first frame. No further event comes before `acceptSetup`.
    indirect case setup(Setup)
    /// The first frame, in place of SETUP: the connection is to go on with another one's session. No further event
    /// comes, and `takeRest` is due.
    indirect case resume(ResumeRequest)
    /// A whole request, put together if it came in fragments. Its stream is in the table, but for fire-and-forget.
    /// `complete`: the requester's half is complete, as it is from the start but for channels. `initialN` is at least 1
    /// and counts for streams and channels.
    case request(stream: UInt32, kind: Interaction, initialN: UInt32, complete: Bool, content: Content)
    /// An item of a channel's requester (`next`), its completion, or both.
    case payload(stream: UInt32, handle: UInt32, next: Bool, complete: Bool, content: Content)
    /// Items of a channel's requester that came one behind the other, in whole, with data alone.
    case payloads(PayloadRun, handle: UInt32)
    /// Demand for the responder's half, which is still open. `n` is 0 to 2³¹−1.
    case requestN(stream: UInt32, handle: UInt32, n: UInt32)
    /// The requester gave up; the stream is already forgotten.
    case cancel(stream: UInt32, handle: UInt32)
    /// The requester's half of a channel failed; the stream is already forgotten. The text may be cut, within a
    /// character even.
    case error(stream: UInt32, handle: UInt32, code: UInt32, message: UnsafeRawBufferPointer)
    /// To be answered, if `respond`, by the same data without `respond`.
    case keepalive(respond: Bool, position: UInt64, data: UnsafeRawBufferPointer)
    case metadataPush(UnsafeRawBufferPointer)
    /// To be answered by this ERROR. The stream is already forgotten; `handle` is nil if it had none.
    case refuse(stream: UInt32, handle: UInt32?, RSocketError)
    /// A fire-and-forget that was not taken. Nothing is to be answered; it is told to be counted.
    case drop(stream: UInt32, RSocketError)
    /// To be answered by this ERROR on stream 0, after which the connection is to be closed. Nothing more comes.
    case fatal(RSocketError)
    /// The client ended the connection by an ERROR on stream 0. Nothing more comes.
    case closedByPeer(code: UInt32, message: UnsafeRawBufferPointer)
}

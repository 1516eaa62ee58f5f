// RSocketRequester: the requester side of RSocket 1.0 over TCP, without I/O and without a clock.
//
//   input bytes ──► `input` ──► next() ──► events, one at a time
//   requests, credit, cancel ──► `output` ──► bytes to write
//
//   open ──ERROR[CONNECTION_CLOSE]──► closing ──► dead
//     └────── ERROR on stream 0, broken framing, silence, lost ──► dead: next() throws from now on
//
// Events are pulled. A caller that cannot take more stops pulling, the driver stops reading, and TCP slows the broker.

import Bytes
import RSocket

/// One connection to a broker. Its owner reads bytes into `input`, pulls events, and writes the bytes of `output`.
struct RSocketRequester: ~Copyable {
    enum State {
        case open
        case closing(String)
        case dead(ClientError)
    }

    let limits: ClientLimits
    /// Bytes that have arrived but have not been parsed.
    var input = ByteBuffer()
    /// Bytes to write.
    var output = ByteBuffer()
    /// Metadata of an item while it is being written.
    private var composite = ByteBuffer()

    var state = State.open
    var streams = StreamList<RSocketStream>()
    private var nextID: UInt32 = 1
    /// Bytes of the whole frame (with its length) that the last event pointed into; dropped by the next call.
    var spent = 0
    /// The stream whose reassembled message the last event pointed into.
    var delivered: RSocketStream?
    var reassembling = 0
    /// The stream whose last event was a message with COMPLETE in the same frame.
    var pendingEnd: StreamID?
    private var lastHeard: UInt64
    private var nextKeepalive: UInt64
    private var isReading = true
    /// Whether the first bytes have been checked.
    var hasHeard = false

    /// Credit for acknowledgements while a channel ends.
    private static let closingCredit: UInt32 = 64

    /// Begins a connection: SETUP is in `output`. Times are nanoseconds of one monotonic clock.
    init(credentials: Credentials? = nil, limits: ClientLimits = ClientLimits(), now: UInt64) {
        self.limits = limits
        lastHeard = now
        nextKeepalive = now + limits.keepaliveInterval
        Frames.setup(limits, credentials, into: &output)
    }

    // MARK: Time

    /// The latest time to call `fire`.
    var deadline: UInt64 {
        isReading ? min(nextKeepalive, lastHeard + limits.lifetime) : nextKeepalive
    }

    /// Sends a KEEPALIVE if due, and gives up on a broker that has been silent for the lifetime.
    mutating func fire(now: UInt64) throws(ClientError) {
        if isReading, now >= lastHeard, now - lastHeard >= limits.lifetime {
            let seconds = limits.lifetime / 1_000_000_000
            throw die(
                ClientError(
                    .silent, "Nothing was received from the broker for \(seconds) s; the connection was closed."))
        }
        guard now >= nextKeepalive else { return }
        nextKeepalive = now + limits.keepaliveInterval
        // Do not queue another KEEPALIVE for a peer that is not reading.
        if output.count < limits.controlOutput {
            FrameWriter.keepalive(respond: true, position: 0, data: Frames.nothing, into: &output)
        }
    }

    /// Notes that bytes have arrived in `input`.
    mutating func heard(now: UInt64) { lastHeard = now }

    /// Notes that the driver stops or resumes reading. While it does not read, the broker's silence is not counted.
    mutating func setReading(_ reading: Bool, now: UInt64) {
        if reading, !isReading { lastHeard = now }
        isReading = reading
    }

    /// Sends a KEEPALIVE with `data` (at most 1 KiB); the answer is `.pong`.
    mutating func ping(_ data: UnsafeRawBufferPointer, now: UInt64) {
        precondition(data.count <= 1024)
        FrameWriter.keepalive(respond: true, position: 0, data: data, into: &output)
        nextKeepalive = now + limits.keepaliveInterval
    }

    // MARK: Requests

    /// Sends REQUEST_RESPONSE, which is answered by one `.message` (or `.acknowledged`) and `.completed`, by
    /// `.completed` only, or by `.failed`.
    mutating func request(
        _ route: Route, data: UnsafeRawBufferPointer, answers: RSocketStream.Answers = .messages,
        properties: MessageProperties = MessageProperties()
    ) throws(ClientError) -> StreamID {
        let id = try newStream()
        try Frames.request(
            .response, id, n: 0, route, data, properties, complete: false, fragment: limits.fragment, into: &output)
        streams.insert(RSocketStream(id: id, kind: .response, demand: 1, sends: false, answers: answers))
        return id
    }

    /// Sends REQUEST_STREAM with credit for `n` messages, 1 to 2³¹−1; 2³¹−1 is unbounded. `opens`: the route asks for
    /// an opening, which is requested in addition. `ofPattern`: the route is a pattern, so that messages name their
    /// topics.
    mutating func requestStream(
        _ route: Route, n: UInt32, data: UnsafeRawBufferPointer = Frames.nothing, opens: Bool = false,
        ofPattern: Bool = false
    ) throws(ClientError) -> StreamID {
        precondition((1...CreditWindow.unbounded).contains(n))
        let n = opens ? min(n + 1, CreditWindow.unbounded) : n
        let id = try newStream()
        try Frames.request(
            .stream, id, n: n, route, data, complete: false, fragment: limits.fragment, into: &output)
        let stream = RSocketStream(id: id, kind: .stream, demand: n, sends: false)
        stream.awaitsOpening = opens
        stream.isOfPattern = ofPattern
        streams.insert(stream)
        return id
    }

    /// Sends REQUEST_CHANNEL: `data` is item 0; further items wait for `.granted`. `n` is credit for what the other
    /// side sends back. `complete`: item 0 is the only one.
    mutating func requestChannel(
        _ route: Route, n: UInt32, data: UnsafeRawBufferPointer, complete: Bool,
        answers: RSocketStream.Answers = .messages, properties: MessageProperties = MessageProperties()
    ) throws(ClientError) -> StreamID {
        precondition((1...CreditWindow.unbounded).contains(n))
        let id = try newStream()
        try Frames.request(
            .channel, id, n: n, route, data, properties, complete: complete, fragment: limits.fragment, into: &output)
        streams.insert(RSocketStream(id: id, kind: .channel, demand: n, sends: !complete, answers: answers))
        return id
    }

    private mutating func newStream() throws(ClientError) -> StreamID {
        releaseDelivered()
        switch state {
        case .open: break
        case .closing(let why): throw ClientError(.connectionError, why)
        case .dead(let error): throw error
        }
        guard streams.count < limits.streams else {
            throw ClientError(
                .rejected, "\(limits.streams) streams are open on this connection, which is its limit; end one first.")
        }
        return freshID()
    }

    /// An id that no open stream has. Ids are odd; after the last one they start over (RSocket, "Stream Identifiers").
    private mutating func freshID() -> StreamID {
        while true {
            let id = StreamID(nextID)
            nextID = nextID >= 0x7fff_ffff ? 1 : nextID + 2
            if streams[id] == nil { return id }
        }
    }

    // MARK: Credit, items, ends

    /// Sends REQUEST_N for `n` more messages, 1 to 2³¹−1. It has no effect on a stream that has ended.
    mutating func requestN(_ id: StreamID, _ n: UInt32) {
        precondition((1...CreditWindow.unbounded).contains(n))
        guard let stream = streams[id], stream.receives, stream.kind != .response else { return }
        stream.ask(n)
        FrameWriter.requestN(stream: id.value, n: n, into: &output)
    }

    /// Messages that the broker may still send; 2³¹−1 is unbounded, 0 includes a stream that has ended.
    func outstanding(on id: StreamID) -> UInt32 {
        streams[id].map { $0.receives ? $0.outstanding : 0 } ?? 0
    }

    /// Items that may be sent now on a channel; 2³¹−1 is unbounded, 0 includes a channel that has ended.
    func credit(of id: StreamID) -> UInt32 {
        streams[id].map { $0.credit.shown } ?? 0
    }

    /// Sends a PAYLOAD on a channel, using one credit from the broker. Returns false, without sending the item, if
    /// there is no credit.
    mutating func send(
        _ id: StreamID, data: UnsafeRawBufferPointer, properties: MessageProperties = MessageProperties()
    ) -> Bool {
        guard let stream = streams[id], stream.useCredit() else { return false }
        composite.removeAll()
        properties.appendMetadata(into: &composite)
        FrameWriter.payload(
            stream: id.value, next: true, complete: false, metadata: composite.isEmpty ? nil : composite.readable,
            data: data, fragment: limits.fragment, into: &output)
        return true
    }

    /// Completes our half of a channel. The broker's half continues until it completes too.
    mutating func complete(_ id: StreamID) {
        guard let stream = streams[id], stream.sends else { return }
        // Without credit the broker could not send the last sequence; the broker's completion acknowledges everything
        // anyway.
        if stream.answers == .allAcknowledgements { requestN(id, Self.closingCredit) }
        FrameWriter.payload(
            stream: id.value, next: false, complete: true, metadata: nil, data: Frames.nothing, fragment: 0,
            into: &output)
        stream.endSending()
        removeIfEnded(stream)
    }

    /// Sends CANCEL: no further event of this stream follows.
    mutating func cancel(_ id: StreamID) {
        guard let stream = streams[id] else { return }
        FrameWriter.cancel(stream: id.value, into: &output)
        remove(stream)
    }
}

// ClientConnection: the requester's side of RSocket 1.0 over TCP, without I/O and without a clock.
//
//   input bytes ──► `input` ──► next() ──► events, one at a time
//   requests, credit, cancel ──► `output` ──► bytes to write
//
//   open ──ERROR[CONNECTION_CLOSE]──► closing ──► dead
//     └────── ERROR on stream 0, broken framing, silence, lost ──► dead: next() throws, for good
//
// Events are pulled, so that a user who cannot take more stops pulling, the driver stops reading, and TCP tells the
// broker.

import Bytes
import RSocket

/// One connection to a broker. Who owns it reads bytes into `input`, pulls events, and writes what is in `output`.
public struct ClientConnection: ~Copyable {
    private enum State {
        case open
        case closing(String)
        case dead(ClientError)
    }

    public let limits: ClientLimits
    /// Bytes that arrived and are not yet taken apart.
    public var input = ByteBuffer()
    /// Bytes to write.
    public var output = ByteBuffer()

    private var state = State.open
    private var streams = ClientStreams()
    /// The whole frame (with its length) that the last event pointed into, to be dropped at the next call.
    private var spent = 0
    /// The stream whose put-together message the last event pointed into.
    private var delivered: ClientStream?
    private var reassembling = 0
    /// The stream whose last event was a message with the end in the same frame.
    private var pendingEnd: StreamID?
    private var lastHeard: UInt64
    private var nextKeepalive: UInt64
    private var isReading = true
    /// The first bytes were looked at.
    private var hasHeard = false

    /// Begins a connection: SETUP stands in `output`. Times are nanoseconds of one clock that never steps back.
    public init(limits: ClientLimits = ClientLimits(), now: UInt64) {
        self.limits = limits
        lastHeard = now
        nextKeepalive = now + limits.keepaliveInterval
        Frames.setup(limits, into: &output)
    }

    // MARK: Time

    /// When `fire` is to be called at the latest.
    public var deadline: UInt64 {
        isReading ? min(nextKeepalive, lastHeard + limits.lifetime) : nextKeepalive
    }

    /// Sends a KEEPALIVE that is due, and gives up on a broker that was silent for the lifetime.
    public mutating func fire(now: UInt64) throws(ClientError) {
        if isReading, now >= lastHeard, now - lastHeard >= limits.lifetime {
            let seconds = limits.lifetime / 1_000_000_000
            throw die(
                ClientError(.silent, "Nothing came from the broker for \(seconds) s: the connection is given up."))
        }
        guard now >= nextKeepalive else { return }
        nextKeepalive = now + limits.keepaliveInterval
        // A peer that does not read gets no second one behind the first.
        if output.count < limits.controlOutput {
            FrameWriter.keepalive(respond: true, position: 0, data: Frames.nothing, into: &output)
        }
    }

    /// Bytes arrived, now in `input`.
    public mutating func heard(now: UInt64) { lastHeard = now }

    /// The driver stops reading, or goes on. While it does not read, silence is its own doing.
    public mutating func setReading(_ reading: Bool, now: UInt64) {
        if reading, !isReading { lastHeard = now }
        isReading = reading
    }

    /// Sends a KEEPALIVE with `data` (at most 1 KiB), to be answered by `.pong`.
    public mutating func ping(_ data: UnsafeRawBufferPointer, now: UInt64) {
        precondition(data.count <= 1024)
        FrameWriter.keepalive(respond: true, position: 0, data: data, into: &output)
        nextKeepalive = now + limits.keepaliveInterval
    }

    // MARK: Requests

    /// REQUEST_FNF: nothing comes back.
    public mutating func fireAndForget(_ route: Route, data: UnsafeRawBufferPointer) throws(ClientError) {
        let id = try newStream()
        try Frames.request(
            .fireAndForget, id, n: 0, route, data, complete: false, fragment: limits.fragment, into: &output)
    }

    /// REQUEST_RESPONSE: answered by one `.message` and `.completed`, `.completed` alone, or `.failed`.
    public mutating func request(_ route: Route, data: UnsafeRawBufferPointer) throws(ClientError) -> StreamID {
        let id = try newStream()
        try Frames.request(
            .response, id, n: 0, route, data, complete: false, fragment: limits.fragment, into: &output)
        streams.insert(ClientStream(id: id, kind: .response, demand: 1, sends: false))
        return id
    }

    /// REQUEST_STREAM with credit for `n` messages, 1 to 2³¹−1; 2³¹−1 is unbounded.
    public mutating func requestStream(_ route: Route, n: UInt32) throws(ClientError) -> StreamID {
        precondition((1...Refill.unbounded).contains(n))
        let id = try newStream()
        try Frames.request(
            .stream, id, n: n, route, Frames.nothing, complete: false, fragment: limits.fragment, into: &output)
        streams.insert(ClientStream(id: id, kind: .stream, demand: n, sends: false))
        return id
    }

    /// REQUEST_CHANNEL: `data` is item 0; the next ones wait for `.granted`. `n` is credit for what the other side
    /// sends back. `complete`: item 0 is the only one.
    public mutating func requestChannel(
        _ route: Route, n: UInt32, data: UnsafeRawBufferPointer, complete: Bool
    ) throws(ClientError) -> StreamID {
        precondition((1...Refill.unbounded).contains(n))
        let id = try newStream()
        try Frames.request(
            .channel, id, n: n, route, data, complete: complete, fragment: limits.fragment, into: &output)
        streams.insert(ClientStream(id: id, kind: .channel, demand: n, sends: !complete))
        return id
    }

    private mutating func newStream() throws(ClientError) -> StreamID {
        forgetDelivered()
        switch state {
        case .open: break
        case .closing(let why): throw ClientError(.connectionError, why)
        case .dead(let error): throw error
        }
        guard streams.count < limits.streams else {
            throw ClientError(.rejected, "\(limits.streams) streams are open on this connection: end one first.")
        }
        return streams.freshID()
    }

    // MARK: Credit, items, ends

    /// REQUEST_N: `n` more messages, 1 to 2³¹−1. Nothing happens on a stream that has ended.
    public mutating func requestN(_ id: StreamID, _ n: UInt32) {
        precondition((1...Refill.unbounded).contains(n))
        guard let stream = streams[id], stream.receives, stream.kind != .response else { return }
        stream.ask(n)
        FrameWriter.requestN(stream: id.value, n: n, into: &output)
    }

    /// Messages that the broker may still send; 2³¹−1 is unbounded, 0 also stands for a stream that has ended.
    public func outstanding(on id: StreamID) -> UInt32 {
        streams[id].map { $0.receives ? $0.outstanding : 0 } ?? 0
    }

    /// Items that may be sent now on a channel; 2³¹−1 is unbounded, 0 also stands for a channel that has ended.
    public func credit(of id: StreamID) -> UInt32 {
        streams[id].map { UInt32($0.credit) } ?? 0
    }

    /// PAYLOAD on a channel, for one credit of the broker's; false when there is none, and then nothing is sent.
    public mutating func send(_ id: StreamID, data: UnsafeRawBufferPointer) -> Bool {
        guard let stream = streams[id], stream.useCredit() else { return false }
        FrameWriter.payload(
            stream: id.value, next: true, complete: false, metadata: nil, data: data, fragment: limits.fragment,
            into: &output)
        return true
    }

    /// COMPLETE of our half of a channel. What the broker sends goes on until it completes too.
    public mutating func complete(_ id: StreamID) {
        guard let stream = streams[id], stream.sends else { return }
        FrameWriter.payload(
            stream: id.value, next: false, complete: true, metadata: nil, data: Frames.nothing, fragment: 0,
            into: &output)
        stream.endSending()
        forgetIfOver(stream)
    }

    /// CANCEL: no event of this stream follows.
    public mutating func cancel(_ id: StreamID) {
        guard let stream = streams[id] else { return }
        FrameWriter.cancel(stream: id.value, into: &output)
        remove(stream)
    }

    // MARK: Input

    /// The other side will send nothing more.
    public mutating func receiveEnd() -> ClientError {
        if case .closing(let why) = state { return die(ClientError(.connectionError, why)) }
        return die(ClientError(.lost, "The broker closed the connection without saying why."))
    }

    /// The next event; nil when a whole frame is not there.
    /// - Throws: what the connection dies of, now and at every call after it.
    public mutating func next() throws(ClientError) -> ClientEvent? {
        forgetDelivered()
        if case .dead(let error) = state { throw error }
        if let id = pendingEnd {
            pendingEnd = nil
            if let stream = streams[id] {
                end(stream)
                return .completed(id, metadata: nil)
            }
        }
        while true {
            let bytes = input.readable
            guard bytes.count >= 3 else { return nil }
            let length = bytes.u24(at: 0)
            if !hasHeard {
                if bytes.starts(with: "HTTP/".utf8) { throw notRSocket() }
                // As a length it would have us wait for megabytes; the two letters behind it decide.
                if bytes.count < 5, "HTTP/".utf8.starts(with: bytes) { return nil }
                hasHeard = true
            }
            guard bytes.count >= 3 + length else {
                if length > limits.message + 64 { throw tooLong(length) }
                return nil
            }
            spent = 3 + length
            if let event = try handle(Frames.decode(bytes.slice(3..<3 + length))) { return event }
            forgetDelivered()
        }
    }

    private mutating func notRSocket() -> ClientError {
        die(ClientError(.protocolViolation, "What answers speaks HTTP, not RSocket: is it the right port?"))
    }

    private mutating func tooLong(_ length: Int) -> ClientError {
        die(
            ClientError(
                .protocolViolation,
                "What answers is not RSocket, or sends frames of \(length) bytes, above the limit of \(limits.message)."
            ))
    }

    private mutating func forgetDelivered() {
        input.consume(spent)
        spent = 0
        if let stream = delivered {
            delivered = nil
            reassembling -= stream.assembled
            stream.forgetFragments()
        }
    }

    private mutating func handle(_ frame: Inbound) throws(ClientError) -> ClientEvent? {
        switch frame {
        case .payload(let id, let payload): return receive(payload, on: id)
        case .requestN(let id, let n):
            guard let stream = streams[StreamID(id)], stream.sends, n > 0 else { return nil }
            stream.grant(n)
            return .granted(stream.id, n: n)
        case .cancel(let id):
            guard let stream = streams[StreamID(id)], stream.sends else { return nil }
            stream.endSending()
            forgetIfOver(stream)
            return .declined(stream.id)
        case .error(let id, let code, let text): return try receiveError(id, code, text)
        case .keepalive(let respond, let data):
            guard respond else { return .pong(data) }
            if output.count < limits.controlOutput {
                FrameWriter.keepalive(respond: false, position: 0, data: data, into: &output)
            }
            return nil
        case .request(let id, let answered):
            // A client serves nothing; a stream id that is ours, or none, is not worth an answer.
            if answered, id != 0, id & 1 == 0 {
                FrameWriter.error(
                    stream: id, code: .rejected, message: "this client answers no requests", into: &output)
            }
            return nil
        case .ignored: return nil
        case .violation(let what):
            let text = "The broker, or what answers in its place, broke the protocol: \(what)"
            throw refuse(text)
        }
    }

    private mutating func receiveError(
        _ id: UInt32, _ code: UInt32, _ text: UnsafeRawBufferPointer
    ) throws(ClientError) -> ClientEvent? {
        let message = String(decoding: text, as: UTF8.self)
        if id != 0 {
            guard let stream = streams[StreamID(id)] else { return nil }
            remove(stream)
            return .failed(stream.id, ClientError(ClientError.Code(stream: code), message))
        }
        switch code {
        case 0x102:
            state = .closing(message)
            return .closing(message)
        case 1, 2, 3, 4: throw die(ClientError(.setupRejected, message))
        default: throw die(ClientError(.connectionError, message))
        }
    }

    private mutating func receive(_ payload: Inbound.Payload, on id: UInt32) -> ClientEvent? {
        guard let stream = streams[StreamID(id)], stream.receives else { return nil }
        if stream.isAssembling || payload.follows { return assemble(payload, stream) }
        let size = (payload.metadata?.count ?? 0) + payload.data.count
        guard size <= limits.message else { return tooLarge(stream) }
        return deliver(stream, payload, metadata: payload.metadata, data: payload.data)
    }

    /// Adds a fragment; delivers the message with the last one.
    private mutating func assemble(_ payload: Inbound.Payload, _ stream: ClientStream) -> ClientEvent? {
        let size = (payload.metadata?.count ?? 0) + payload.data.count
        guard stream.assembled + size <= limits.message, reassembling + size <= limits.reassembly else {
            return tooLarge(stream)
        }
        stream.isAssembling = true
        if let metadata = payload.metadata {
            stream.hasMetadata = true
            stream.metadata.append(metadata)
        }
        stream.data.append(payload.data)
        reassembling += size
        if payload.follows { return nil }
        delivered = stream
        return deliver(
            stream, payload, metadata: stream.hasMetadata ? stream.metadata.readable : nil, data: stream.data.readable)
    }

    private mutating func deliver(
        _ stream: ClientStream, _ payload: Inbound.Payload, metadata: UnsafeRawBufferPointer?,
        data: UnsafeRawBufferPointer
    ) -> ClientEvent? {
        // Neither N nor C is illegal, yet some peers send it for an empty item: it counts as one.
        let isMessage = payload.next || !payload.complete
        if isMessage, !stream.receiveMessage() {
            return fail(stream, .overdelivered, "The broker sent more messages than were asked for.")
        }
        guard payload.complete else { return .message(stream.id, .init(metadata: metadata, data: data)) }
        if isMessage {
            // N and C in one frame are two events: the end is taken from the same bytes at the next call.
            pendingEnd = stream.id
            return .message(stream.id, .init(metadata: metadata, data: data))
        }
        end(stream)
        return .completed(stream.id, metadata: metadata)
    }

    // MARK: Ends and look-ups

    private mutating func tooLarge(_ stream: ClientStream) -> ClientEvent {
        let text = "A message is larger than this client's limit of \(limits.message) bytes."
        return fail(stream, .messageTooLarge, text)
    }

    /// The stream dies by this side's decision.
    private mutating func fail(_ stream: ClientStream, _ code: ClientError.Code, _ text: String) -> ClientEvent {
        FrameWriter.cancel(stream: stream.id.value, into: &output)
        remove(stream)
        return .failed(stream.id, ClientError(code, text))
    }

    /// The responder's half is complete.
    private mutating func end(_ stream: ClientStream) {
        stream.endReceiving()
        forgetIfOver(stream)
    }

    private mutating func forgetIfOver(_ stream: ClientStream) {
        if stream.isOver { remove(stream) }
    }

    private mutating func remove(_ stream: ClientStream) {
        streams.remove(stream)
        // What was delivered is given up with the next call, since the event's bytes lie there.
        if delivered !== stream {
            reassembling -= stream.assembled
            stream.forgetFragments()
        }
        stream.endSending()
    }

    private mutating func die(_ error: ClientError) -> ClientError {
        state = .dead(error)
        streams.removeAll()
        return error
    }

    /// Tells the broker what it did wrong, then dies.
    private mutating func refuse(_ text: String) -> ClientError {
        FrameWriter.error(stream: 0, code: .connectionError, message: text, into: &output)
        return die(ClientError(.protocolViolation, text))
    }
}

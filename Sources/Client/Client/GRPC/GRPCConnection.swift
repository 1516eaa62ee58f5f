// GRPCConnection: a client's requests as calls to forebay.v1 over HTTP/2, without I/O and without a clock.
// GRPCConnection+Events.swift handles the responses.
//
//   input bytes ──► incoming ──► session ──► a chunk of a call's DATA ──► its messages ──► events, one at a time
//   requests, credit ──► a call's `outgoing` ──► session, as its windows allow ──► output
//
//   open ──GOAWAY without an error──► closing ──► dead
//     └────── GOAWAY, broken framing, silence, lost ──► dead: next() throws from now on

import Bytes
import ForebayWire
import HTTP2
import RSocket

/// A connection that speaks gRPC over HTTP/2 with prior knowledge.
public final class GRPCConnection: ClientConnection {
    enum State {
        case open
        case closing(String)
        case dead(ClientError)
    }

    let limits: ClientLimits
    private let authority: String
    private let isSecure: Bool
    private let credentials: Credentials?
    var session: ClientSession
    var sink = CallSink()
    var state = State.open
    var heads: [GRPCMethod: HTTPFields] = [:]

    // Input; see GRPCConnection+Events.swift.

    /// Bytes that arrived before `reading` was used up.
    var incoming = ByteBuffer()
    /// Bytes that the session is reading.
    var reading = ByteBuffer()
    /// The DATA being read.
    var chunk: Chunk?
    /// An event to return after the last one.
    var pending: ClientEvent?
    /// An event of the connection itself, to return between received ones.
    var announcement: ClientEvent?
    /// Memory that events point to.
    var metadata = ByteBuffer()
    var scratch = PublishedMessage()
    /// Bytes of unfinished messages in all calls.
    var held = 0
    /// Whether the first bytes have been checked.
    var hasHeard = false

    private var now: UInt64
    private var lastHeard: UInt64
    private var nextKeepalive: UInt64
    private var isReading = true

    /// Bytes of HTTP/2 output produced at a time.
    private static let quantum = 64 << 10
    /// Above this number of frames waiting to be written, no PING is added: the peer is not reading.
    private static let controlFrames = 16
    /// What a response may contain besides one message: gRPC's prefix, counters, and messages of up to 1 MiB.
    static let responseSlack = 2 << 20

    /// Begins a connection.
    /// - Parameters:
    ///   - authority: host and port of the broker, as in a URL.
    ///   - isSecure: the connection uses TLS.
    ///   - credentials: sent with every call.
    ///   - now: monotonic time in nanoseconds.
    public init(
        authority: String, isSecure: Bool = false, credentials: Credentials? = nil,
        limits: ClientLimits = ClientLimits(), now: UInt64
    ) {
        self.authority = authority
        self.isSecure = isSecure
        self.credentials = credentials
        self.limits = limits
        var http = HTTP2Limits.client
        http.maxStreams = limits.streams
        session = ClientSession(limits: http)
        self.now = now
        lastHeard = now
        nextKeepalive = now + limits.keepaliveInterval
    }

    // MARK: Requests

    /// Subscribes to a topic. The broker's lists, which are topics in RSocket, have separate calls.
    public func subscribe(_ topic: String, _ options: SubscribeOptions, n: UInt32) throws(ClientError) -> StreamID {
        precondition((1...CreditWindow.unbounded).contains(n))
        if let list = BrokerList(rawValue: topic), n == CreditWindow.unbounded, options == SubscribeOptions() {
            return try self.list(list, n: n)
        }
        // Open uses 0 for "not set", so both are rejected here, as RSocket's routes do.
        guard options.buffer != 0 else {
            throw ClientError(.invalid, "buffer=0 is not a number from 1 to 2147483647.")
        }
        if case .from(0, _) = options.start {
            throw ClientError(.invalid, "from=0 is not a sequence; the first message of a topic has sequence 1.")
        }
        let call = try begin(.subscribe, .subscription(meta: options.meta || TopicName.isPattern(topic)), demand: n)
        let open = options.open(topic, n)
        write(call) { open.append(to: &$0) }
        return call.id
    }

    public func publish(
        _ topic: String, _ payload: UnsafeRawBufferPointer, _ properties: MessageProperties, number: PublisherNumber?
    ) throws(ClientError) -> StreamID {
        let call = try begin(.publishOne, .publish)
        write(call) { ClientRequests.appendPublishOne(topic: topic, payload, properties, number: number, to: &$0) }
        endSending(call)
        return call.id
    }

    /// Opens a publishing stream. Acknowledgements need no credit in gRPC, and are conflated automatically.
    public func openChannel(
        _ topic: String, completesTopic: Bool, first: UnsafeRawBufferPointer, _ properties: MessageProperties,
        isOnly: Bool, acknowledged: Bool, number: PublisherNumber?
    ) throws(ClientError) -> StreamID {
        let call = try begin(.publish, .channel)
        write(call) {
            ClientRequests.appendPublishOpen(
                topic: topic, completesTopic: completesTopic, number: number, to: &$0)
            ClientRequests.appendMessage(first, properties, to: &$0)
        }
        if isOnly { endSending(call) }
        return call.id
    }

    public func call(_ call: ControlCall) throws(ClientError) -> StreamID { try ask(.call(call)) }

    public func list(_ list: BrokerList, n: UInt32) throws(ClientError) -> StreamID { try ask(.list(list)) }

    private func ask(_ request: AdminRequest) throws(ClientError) -> StreamID {
        let call = try begin(request.method, .rows)
        write(call) { request.append(to: &$0) }
        endSending(call)
        return call.id
    }

    /// Sends a ping. Uses Health's Check: the broker limits PING frames, and a call takes the same path as messages.
    public func ping(_ data: UnsafeRawBufferPointer, now: UInt64) throws(ClientError) {
        precondition(data.count <= 1024)
        let call = try begin(.healthCheck, .ping(Array(data)))
        write(call) { ClientRequests.appendHealthCheck(to: &$0) }
        endSending(call)
    }

    private func begin(
        _ method: GRPCMethod, _ kind: ClientCall.Kind, demand: UInt32 = CreditWindow.unbounded
    ) throws(ClientError) -> ClientCall {
        switch state {
        case .open: break
        case .closing(let why): throw ClientError(.connectionError, why)
        case .dead(let error): throw error
        }
        guard sink.calls.count < limits.streams else {
            throw ClientError(
                .rejected, "\(limits.streams) streams are open on this connection, which is its limit; end one first.")
        }
        let head = heads[method] ?? self.head(of: method)
        heads[method] = head
        guard let id = session.request(head, complete: false) else { throw noMoreStreams() }
        let call = ClientCall(
            id: StreamID(id), kind: kind, demand: demand, limit: limits.message + Self.responseSlack)
        sink.calls.insert(call)
        return call
    }

    /// The error when the stream ids are used up: the connection ends with its open streams, and the next one replaces
    /// it.
    private func noMoreStreams() -> ClientError {
        let why = "The connection accepts no more streams; connect again."
        guard session.isExhausted else { return ClientError(.rejected, why) }
        state = .closing(why)
        announcement = .closing(why)
        return ClientError(.connectionError, why)
    }

    private func head(of method: GRPCMethod) -> HTTPFields {
        var head = GRPCHeads.request(method, authority: authority, scheme: isSecure ? "https" : "http")
        if let credentials { head.add("authorization", credentials.header) }
        return head
    }

    private func write(_ call: ClientCall, _ body: (inout ByteBuffer) -> Void) {
        sink.append(call, body)
        session.bodyAvailable(call.id.value)
    }

    private func endSending(_ call: ClientCall) {
        call.sends = false
        call.credit.removeAll()
        session.finish(call.id.value)
    }

    public var streamLimit: Int { min(limits.streams, session.peerStreamLimit) }

    // MARK: Credit, items, ends

    public func requestN(_ id: StreamID, _ n: UInt32) {
        precondition((1...CreditWindow.unbounded).contains(n))
        guard let call = sink.calls[id], call.isSubscription else { return }
        call.demand.add(UInt64(n))
        write(call) { ClientRequests.appendCredit(n, to: &$0) }
    }

    public func outstanding(on id: StreamID) -> UInt32 { sink.calls[id]?.demand.shown ?? 0 }

    public func credit(of id: StreamID) -> UInt32 { sink.calls[id]?.credit.shown ?? 0 }

    public func send(_ id: StreamID, _ payload: UnsafeRawBufferPointer, _ properties: MessageProperties) -> Bool {
        guard let call = sink.calls[id], call.sends, call.credit.take() else { return false }
        write(call) { ClientRequests.appendMessage(payload, properties, to: &$0) }
        return true
    }

    public func complete(_ id: StreamID) {
        guard let call = sink.calls[id], call.sends, !call.isSubscription else { return }
        endSending(call)
    }

    public func cancel(_ id: StreamID) {
        guard let call = sink.calls[id] else { return }
        session.reset(id.value, .cancel)
        discard(call)
    }

    /// Removes a call: no further event of it follows.
    func discard(_ call: ClientCall) {
        held -= call.held
        call.held = 0
        if chunk?.call === call { chunk = nil }
        sink.remove(call)
    }

    // MARK: Bytes and time

    public func space(_ count: Int) -> UnsafeMutableRawPointer { incoming.reserve(count) }

    public func arrived(_ count: Int, now: UInt64) {
        incoming.commit(count)
        self.now = max(self.now, now)
        lastHeard = self.now
    }

    /// The latest time passed in.
    var time: UInt64 { now }

    public func receiveEnd() -> ClientError {
        if case .closing(let why) = state { return die(ClientError(.connectionError, why)) }
        return die(ClientError(.lost, "The broker closed the connection without giving a reason."))
    }

    public func output() -> UnsafeRawBufferPointer {
        if sink.output.isEmpty { session.produce(into: &sink, atMost: Self.quantum) }
        return sink.output.readable
    }

    public func written(_ count: Int) { sink.output.consume(count) }
    public func discardOutput() { sink.output.removeAll() }
    public var queued: Int { sink.output.count + sink.waiting }
    public var hasOutput: Bool { !sink.output.isEmpty }

    public var deadline: UInt64 {
        // Some of the broker's errors are found while writing; report them without waiting for more input.
        if session.hasEvents || announcement != nil { return 0 }
        let due = min(nextKeepalive, session.deadline ?? UInt64.max)
        return isReading ? min(due, lastHeard + limits.lifetime) : due
    }

    public func fire(now time: UInt64) throws(ClientError) {
        now = max(now, time)
        if isReading, now - lastHeard >= limits.lifetime {
            let seconds = limits.lifetime / 1_000_000_000
            throw die(
                ClientError(
                    .silent, "Nothing was received from the broker for \(seconds) s; the connection was closed."))
        }
        if let due = session.deadline, due <= now { session.expire(now: now) }
        guard now >= nextKeepalive else { return }
        nextKeepalive = now + limits.keepaliveInterval
        guard now - lastHeard >= limits.keepaliveInterval, sink.output.count < limits.controlOutput,
            session.queuedFrames < Self.controlFrames
        else { return }
        session.ping(now)
    }

    public func setReading(_ reading: Bool, now: UInt64) {
        if reading, !isReading { lastHeard = max(lastHeard, now) }
        isReading = reading
    }

    // MARK: Ends

    func die(_ error: ClientError) -> ClientError {
        state = .dead(error)
        sink.removeAll()
        chunk = nil
        pending = nil
        announcement = nil
        held = 0
        return error
    }

    /// Reports a mistake to the broker, then ends the connection.
    func refuse(_ what: String) -> ClientError {
        session.goAway(.protocolError, what)
        return die(
            ClientError(
                .protocolViolation, "The server violated the protocol: \(what)"))
    }
}

extension SubscribeOptions {
    /// Converts the options for gRPC. A gap could always be reported there, but without `meta` the subscription is
    /// refused on a gap, as over RSocket.
    func open(_ topic: String, _ n: UInt32) -> SubscribeOpen {
        var open = SubscribeOpen(topic: topic, requestN: n)
        switch start {
        case .next: break
        case .last(let count): open.start = .last(count)
        case .all: open.start = .all
        case .from(let sequence, let epoch):
            open.start = .from(sequence, epoch: epoch)
            if !meta { open.gapFails = true }
        case .since(let time): open.start = .since(time)
        }
        if let gap { open.gapFails = gap == .fail }
        open.buffer = buffer
        open.opening = opening
        open.positions = positions
        if let overflow { open.overflow = overflow }
        return open
    }
}

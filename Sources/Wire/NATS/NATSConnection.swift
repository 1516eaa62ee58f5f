// NATSConnection: the client's side of one connection to a NATS server, without I/O. Bytes and times go in; events and
// bytes come out.
//
//     idle --opened--> greeting --INFO--> joining --PONG--> ready
//       \              ^       \           ^
//        \           secured    INFO      secured
//         \            |         v         |
//          --opened--> securing (TLS) -----
//
//     any of them --closed, a timeout, an error--> ended
//
// `opened` leads to `securing` at once if TLS comes first, otherwise INFO decides. In `joining`, CONNECT and PING are
// sent; the answer is PONG or -ERR. This file has the inputs; NATSConnection+Operations.swift interprets operations.

import Bytes

/// When a connection uses TLS.
public enum NATSTLS: Sendable {
    /// Never. A server that requires it is left.
    case off
    /// After INFO, if the server offers or requires it. An attacker in the network can prevent it.
    case ifOffered
    /// After INFO. A server that does not offer it is left before any credentials are sent.
    case required
    /// Before INFO (`handshake_first` in the server's configuration).
    case first
}

/// What a connection needs to know about its user. Its description contains no secrets.
public struct NATSOptions: Sendable {
    /// A name for the server's lists of connections, and the version of this program.
    public var name: String
    public var version: String
    public var credentials = NATSCredentials.none
    public var tls = NATSTLS.off
    public var limits = NATSLimits()

    public init(name: String, version: String) {
        self.name = name
        self.version = version
    }
}

/// What a connection reports. Pointers are valid until the next call of `next`, `received` or `tick`.
public enum NATSEvent {
    /// Make the TLS handshake on the socket, then call `secured`. Nothing may be read or written before it is done.
    case startTLS
    /// The server has accepted the connection; `info` describes it.
    case ready
    case message(NATSMessage)
    /// The server has processed everything that was written before the `flush` that returned this number, and before
    /// those that returned lower ones. Keepalive PINGs have numbers of the same series.
    case flushed(UInt64)
    /// `info` has changed. `mustMove`: the server is about to shut down; connect to another one.
    case info(mustMove: Bool)
    /// The server reports an error, and the connection continues.
    case refused(NATSServerError)
    /// Close the socket. No further event comes. `cause`: what the server reported, if that is the reason.
    case failed(NATSError, cause: NATSServerError?)
}

/// The client's side of one connection. No input can make it trap or exceed its limits.
///
/// After each of `opened`, `received`, `secured`, `closed` and `tick`, call `next` until it returns nil, then send
/// `pending`. All times are nanoseconds of one monotonic clock.
public struct NATSConnection: ~Copyable {
    enum State {
        case idle
        /// TLS is being negotiated, before INFO or after it.
        case securing(isFirst: Bool, until: UInt64)
        case greeting(until: UInt64)
        case joining(until: UInt64)
        /// `unanswered`: keepalive PINGs since the last PONG.
        case ready(nextPing: UInt64, unanswered: Int)
        case ended
    }

    /// An event that an input caused directly.
    private enum Notice {
        case startTLS
        case failed(NATSError)
    }

    let options: NATSOptions
    var state = State.idle
    private var notice: Notice?
    var parser: NATSParser
    var output = ByteBuffer()
    /// The latest INFO; nil before the first.
    public internal(set) var info: NATSInfo?
    /// Whether TLS is established.
    public private(set) var usesTLS = false
    /// What the server reported before it ended the connection.
    var cause: NATSServerError?
    /// The numbers of the last PING sent and of the last PONG received: the answers have the order of the PINGs.
    var pings: UInt64 = 0
    var pongs: UInt64 = 0
    /// The time of the latest input.
    private(set) var now: UInt64 = 0

    public init(_ options: NATSOptions) {
        self.options = options
        parser = NATSParser(limits: options.limits)
    }

    // MARK: Input

    /// The socket is connected. Called once, first.
    public mutating func opened(now: UInt64) {
        guard case .idle = state else { return }
        self.now = now
        let until = now.addingClamped(options.limits.connectTime)
        if options.tls == .first {
            state = .securing(isFirst: true, until: until)
            notice = .startTLS
        } else {
            state = .greeting(until: until)
        }
    }

    /// Takes the bytes of one read, decrypted if TLS is established. They are accessed until `next` has returned nil.
    public mutating func received(_ bytes: UnsafeRawBufferPointer, now: UInt64) {
        self.now = now
        switch state {
        case .greeting, .joining, .ready: parser.feed(bytes)
        case .idle, .ended: break
        case .securing: if !bytes.isEmpty { end(NATSConnection.unencrypted) }
        }
    }

    /// The TLS handshake is done, and the server's certificate is verified.
    public mutating func secured(now: UInt64) {
        guard case .securing(let isFirst, let until) = state else { return }
        self.now = now
        usesTLS = true
        if isFirst {
            state = .greeting(until: until)
        } else {
            do throws(NATSError) { try join(until: until) } catch { end(error) }
        }
    }

    /// The socket is closed or broken, or TLS failed.
    public mutating func closed() {
        switch state {
        case .idle: state = .ended
        case .ended: break
        default: end(.connection(.unavailable, "The NATS server closed the connection."))
        }
    }

    /// Checks timeouts, and sends a keepalive PING if one is due. Call it when `deadline` has passed; earlier calls
    /// have no effect.
    public mutating func tick(now: UInt64) {
        self.now = now
        guard let deadline, now >= deadline else { return }
        guard case .ready(_, let unanswered) = state else {
            return end(.connection(.timeout, "The NATS server did not accept the connection in time."))
        }
        guard unanswered < options.limits.maxUnansweredPings else {
            return end(.connection(.timeout, "The NATS server did not answer \(unanswered) PINGs."))
        }
        state = .ready(nextPing: now.addingClamped(options.limits.pingInterval), unanswered: unanswered + 1)
        do throws(NATSError) { try ping() } catch { end(error) }
    }

    /// When to call `tick`; nil for never.
    public var deadline: UInt64? {
        switch state {
        case .idle, .ended: nil
        case .securing(_, let until), .greeting(let until), .joining(let until): until
        case .ready(let nextPing, _): nextPing
        }
    }

    // MARK: Events

    /// The next event; nil once all input has been handled.
    public mutating func next() -> NATSEvent? {
        if let notice {
            self.notice = nil
            switch notice {
            case .startTLS: return .startTLS
            case .failed(let error): return .failed(error, cause: cause)
            }
        }
        while hasInput {
            do throws(NATSError) {
                guard let operation = try parser.next() else { return nil }
                if let event = try interpret(operation) { return event }
            } catch {
                end(error)
                notice = nil
                return .failed(error, cause: cause)
            }
        }
        return nil
    }

    /// Whether operations of the server are accepted now.
    private var hasInput: Bool {
        switch state {
        case .greeting, .joining, .ready: true
        case .idle, .securing, .ended: false
        }
    }

    public var isReady: Bool { if case .ready = state { true } else { false } }

    /// Whether no further event will come, apart from one that `next` still returns.
    public var isEnded: Bool { if case .ended = state { true } else { false } }

    /// Bytes of memory held for an unfinished operation of the server.
    public var bufferedBytes: Int { parser.bufferedBytes }

    private mutating func end(_ error: NATSError) {
        state = .ended
        notice = .failed(error)
        parser.discard()
        output.removeAll()
        output.shrink()
    }

    // MARK: Output

    /// The bytes to send. Valid until the next call.
    public var pending: UnsafeRawBufferPointer { output.readable }

    /// Reports that the socket has taken the first `count` bytes of `pending`.
    public mutating func sent(_ count: Int) {
        output.consume(count)
        output.shrink(above: NATSLimits.keptOutput)
    }

    /// The number of bytes that can be written now: what is left of `NATSLimits.maxPending`.
    public var room: Int { max(0, options.limits.maxPending - output.count) }

    /// Publishes a message.
    /// - Parameter reply: the subject for answers; nil for none.
    /// - Throws: if the connection is not ready, a subject is invalid or too long, the message exceeds the server's
    ///   `max_payload` or `NATSLimits.maxPending`, or there is no room. Nothing is written, and the connection
    ///   continues.
    public mutating func publish(
        _ subject: String, reply: String? = nil, headers: NATSHeaderBlock? = nil, payload: UnsafeRawBufferPointer
    ) throws(NATSError) {
        try checkReady()
        let size = (headers?.size ?? 0) + payload.count
        guard let info, headers == nil || info.hasHeaders else {
            throw .call(.unsupported, "The NATS server does not support headers.")
        }
        guard size <= info.maxPayload else {
            throw .call(
                .tooLarge, "The message has \(size) bytes; the NATS server takes at most \(info.maxPayload).")
        }
        let most = options.limits.maxPending - NATSLimits.maxWrittenLine
        guard size <= most else {
            throw .call(.tooLarge, "The message has \(size) bytes; at most \(max(0, most)) can wait to be sent.")
        }
        try checkRoom(size + NATSLimits.maxWrittenLine)
        try NATSWriter.publish(subject, reply: reply, headers: headers, payload: payload, into: &output)
    }

    /// Subscribes. Subscriptions end with the connection.
    /// - Parameters:
    ///   - queue: the group among whose members each message goes to one; nil for none.
    ///   - subscription: an id for the messages of this subscription, unique on this connection.
    /// - Throws: if the connection is not ready, the filter or the group is invalid, or there is no room.
    public mutating func subscribe(
        _ filter: String, queue: String? = nil, subscription: UInt64
    ) throws(NATSError) {
        try checkReady()
        try checkRoom(NATSLimits.maxWrittenLine)
        try NATSWriter.subscribe(filter, queue: queue, subscription: subscription, into: &output)
    }

    /// Ends a subscription. Messages that are on their way may still arrive.
    /// - Parameter max: the number of messages since `subscribe` after which it ends; nil for now.
    /// - Throws: if the connection is not ready, or there is no room.
    public mutating func unsubscribe(_ subscription: UInt64, after max: UInt64? = nil) throws(NATSError) {
        try checkReady()
        try checkRoom(NATSLimits.maxWrittenLine)
        NATSWriter.unsubscribe(subscription, after: max, into: &output)
    }

    /// Sends a PING, and returns a number that `flushed` reports when the server has answered: it has then processed
    /// everything written before.
    /// - Throws: if the connection is not ready, or there is no room.
    public mutating func flush() throws(NATSError) -> UInt64 {
        try checkReady()
        try checkRoom(NATSLimits.maxWrittenLine)
        try ping()
        return pings
    }

    private func checkReady() throws(NATSError) {
        guard isReady else { throw .call(.unavailable, "The connection to the NATS server is not ready.") }
    }

    /// - Parameter size: an upper bound for what is to be written.
    private func checkRoom(_ size: Int) throws(NATSError) {
        guard size <= room else {
            throw .call(.limit, "\(output.count) bytes already wait to be sent to the NATS server.")
        }
    }
}

// HTTP1Transport: an HTTP/1.1 connection's counterpart of HTTP/2's session. There is one request at a time, and each
// counts as the next stream. The driver handles the protocol's bytes. It fetches the response from here as soon as
// possible, and then the body, piece by piece, as the client reads it. A streaming response is different: once fetched,
// the driver hands the client's socket to the engine, which writes head and body to the connection's output. The
// connection ends with the stream.
//
//     idle ──request──▶ asked ──respond──▶ answered ──fetch──▶ sending ──┐
//       ▲                                      │                         │
//       │                                      └─fetch─▶ begun ──▶ streaming ──▶ spent
//       └────────────────────────── over ────────────────────────────────┘

import HTTP2

/// A response for the driver to write.
public struct HTTP1Answer: Sendable {
    /// 200 to 599 (RFC 9110, 15).
    public var status: Int
    /// Names are in lower case. Fields of the connection or of the framing are not included.
    public var headers: [(name: String, value: String)]
    /// Bytes of the body; nil for a stream, and for a HEAD request for one.
    public var length: Int?
    /// Whether the body has no known end. The driver does not write such a body: it must call `Shard.beginStream`.
    public var isStream: Bool
    /// Whether the connection ends after the response.
    public var isLast: Bool

    public init(
        status: Int, headers: [(name: String, value: String)], length: Int?, isStream: Bool = false, isLast: Bool
    ) {
        self.status = status
        self.headers = headers
        self.length = length
        self.isStream = isStream
        self.isLast = isLast
    }
}

/// The result of fetching a part of a body.
public enum HTTP1Piece: Equatable, Sendable {
    /// The number of bytes put into the buffer, at least one.
    case bytes(Int)
    /// Nothing yet; `Effects.flush` names the connection when there is something.
    case later
    /// The body is complete.
    case end
    /// The connection has ended.
    case gone
}

final class HTTP1Transport {
    private enum Phase {
        case idle
        case asked
        case answered(HTTP1Answer)
        case sending
        /// A stream was fetched, and its socket has not been handed over yet.
        case begun(HTTP1Answer)
        case streaming
        /// The entire stream is in the connection's output.
        case spent
    }

    private let pool: BlockPool
    private var phase = Phase.idle {
        didSet { weigh() }
    }
    /// Bytes that the driver holds for the connection, which count towards the broker's memory. The driver clears all
    /// of them after the first request; until then it has touched only the first few.
    private(set) var memory = Limits.http1Untouched
    /// The stream of the latest request.
    private(set) var stream: UInt32 = 0
    private(set) var handle: UInt32 = .max
    /// Whether nothing follows the bytes in the exchange's body.
    private(set) var isComplete = false
    /// Whether the connection ends with the current request.
    var isLast = false
    /// Whether the client sends nothing more.
    var hasEnded = false
    /// Whether the client understands chunked coding.
    private(set) var isChunked = true
    /// Bytes received after the request of a stream.
    var surplus = 0
    /// Since when there has been no request or no fetch of the response, on the monotonic clock.
    var quietSince: UInt64

    init(pool: BlockPool, now: UInt64) {
        self.pool = pool
        quietSince = now
        pool.http1 += memory
    }

    var isIdle: Bool { if case .idle = phase { true } else { false } }
    /// Whether the engine writes to the connection's output and reads what arrives.
    var isStreaming: Bool { if case .streaming = phase { true } else { false } }
    var isSpent: Bool { if case .spent = phase { true } else { false } }
    /// Whether the driver handles the connection's bytes.
    var isDrivers: Bool {
        switch phase {
        case .idle, .asked, .answered, .sending: true
        case .begun, .streaming, .spent: false
        }
    }

    /// Begins a request. Returns its stream.
    func begin(isChunked: Bool) -> UInt32 {
        self.isChunked = isChunked
        phase = .asked
        stream &+= 1
        handle = .max
        isComplete = false
        return stream
    }

    func name(_ handle: UInt32) { self.handle = handle }

    func respond(_ answer: HTTP1Answer) {
        guard case .asked = phase else { return }
        phase = .answered(answer)
    }

    /// Withdraws the response if it has not been fetched. Returns false if there is none to withdraw.
    func takeBack() -> Bool {
        guard case .answered = phase else { return false }
        phase = .asked
        return true
    }

    func finish(now: UInt64) {
        isComplete = true
        quietSince = now
    }

    private func weigh() {
        // Released memory is never held again.
        guard memory > 0 else { return }
        let held = isDrivers ? Limits.http1Memory : 0
        hold(held)
    }

    private func hold(_ bytes: Int) {
        pool.http1 += bytes - memory
        memory = bytes
    }

    /// Releases what the driver held for the connection, which has ended.
    func giveBack() { hold(0) }

    /// The response, once, when it is complete or is a stream that may begin. The response ends the connection if many
    /// connections are already being kept for their next requests.
    func fetch(mayStream: Bool) -> HTTP1Answer? {
        guard case .answered(var answer) = phase, answer.length == nil ? mayStream : isComplete else { return nil }
        answer.isLast = isLast || answer.isStream || pool.isHTTP1Short
        phase = answer.isStream ? .begun(answer) : .sending
        return answer
    }

    /// Begins the stream, whose socket has been handed over. Returns the head to write, once.
    func beginStream() -> HTTP1Answer? {
        guard case .begun(let answer) = phase else { return nil }
        phase = .streaming
        return answer
    }

    /// Notes that the end of the stream is in the output.
    func spend() { phase = .spent }

    /// Ends the current request: its response is written, or never will be.
    func end(now: UInt64) {
        phase = .idle
        handle = .max
        quietSince = now
    }
}

// HTTP1Transport: what a connection of HTTP/1.1 has in the place of HTTP/2's session: one request at a time, each the
// next stream. The driver has the bytes of the protocol; from here it fetches the answer when there is one, and then
// the body, piece by piece, as the client takes it. A stream is no such answer: behind its fetch the driver gives the
// client's socket to the engine, which writes head and body to the connection's output. The connection ends with it.
//
//     idle ──request──▶ asked ──respond──▶ answered ──fetch──▶ sending ──┐
//       ▲                                      │                         │
//       │                                      └─fetch─▶ begun ──▶ streaming ──▶ spent
//       └────────────────────────── over ────────────────────────────────┘

import HTTP2

/// An answer that the driver is to write.
public struct HTTP1Answer: Sendable {
    /// 200 to 599 (RFC 9110, 15).
    public var status: Int
    /// Names in lower case. What is of the connection or of the framing is not among them.
    public var headers: [(name: String, value: String)]
    /// Bytes of the body; nil for a stream, and for its HEAD.
    public var length: Int?
    /// The body ends when it ends, and the driver does not write it: `Shard.beginStream` is to be called.
    public var isStream: Bool
    /// The connection ends behind it.
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

/// What there is of a body.
public enum HTTP1Piece: Equatable, Sendable {
    /// So many bytes were put into the buffer, at least one.
    case bytes(Int)
    /// Nothing now; `Effects.flush` tells when there is.
    case later
    /// Nothing any more.
    case end
    /// The connection is over.
    case gone
}

final class HTTP1Transport {
    private enum Phase {
        case idle
        case asked
        case answered(HTTP1Answer)
        case sending
        /// A stream that was fetched, whose socket is on its way.
        case begun(HTTP1Answer)
        case streaming
        /// All of a stream is in the connection's output.
        case spent
    }

    private let pool: BlockPool
    private var phase = Phase.idle {
        didSet { weigh() }
    }
    /// Bytes that the driver has for the connection, which count as the broker's memory. It clears all of them behind
    /// the first request; until that comes it has touched but the first of them.
    private(set) var memory = Limits.http1Untouched
    /// The latest request's.
    private(set) var stream: UInt32 = 0
    private(set) var handle: UInt32 = .max
    /// Nothing comes behind what the exchange's body holds.
    private(set) var isComplete = false
    /// The connection ends with the request at work.
    var isLast = false
    /// The client sends no more.
    var hasEnded = false
    /// The client reads chunks.
    private(set) var isChunked = true
    /// Bytes that came behind the request of a stream.
    var surplus = 0
    /// Since when there is no request, or nothing of the answer was fetched; on the monotonic clock.
    var quietSince: UInt64

    init(pool: BlockPool, now: UInt64) {
        self.pool = pool
        quietSince = now
        pool.http1 += memory
    }

    var isIdle: Bool { if case .idle = phase { true } else { false } }
    /// The connection's output is written to, and what comes is read.
    var isStreaming: Bool { if case .streaming = phase { true } else { false } }
    var isSpent: Bool { if case .spent = phase { true } else { false } }
    /// The driver has the connection's bytes.
    var isDrivers: Bool {
        switch phase {
        case .idle, .asked, .answered, .sending: true
        case .begun, .streaming, .spent: false
        }
    }

    /// Begins a request, and returns its stream.
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

    /// The answer, if there is one that was not fetched, is not to be it.
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
        // What was given back never comes again.
        guard memory > 0 else { return }
        let held = isDrivers ? Limits.http1Memory : 0
        hold(held)
    }

    private func hold(_ bytes: Int) {
        pool.http1 += bytes - memory
        memory = bytes
    }

    /// The connection is over, as is what the driver has for it.
    func giveBack() { hold(0) }

    /// The answer, once, as soon as it is known whole, or to be a stream that may begin. Where many connections are
    /// kept for their next requests, it ends the connection.
    func fetch(mayStream: Bool) -> HTTP1Answer? {
        guard case .answered(var answer) = phase, answer.length == nil ? mayStream : isComplete else { return nil }
        answer.isLast = isLast || answer.isStream || pool.isHTTP1Short
        phase = answer.isStream ? .begun(answer) : .sending
        return answer
    }

    /// The socket has come: the head that is to be written, once.
    func beginStream() -> HTTP1Answer? {
        guard case .begun(let answer) = phase else { return nil }
        phase = .streaming
        return answer
    }

    /// The end of the stream is in the output.
    func spend() { phase = .spent }

    /// The answer is written, or never will be.
    func end(now: UInt64) {
        phase = .idle
        handle = .max
        quietSince = now
    }
}

// ResumingClient: a client that can resume, as the protocol specifies, over sockets that break where a test says.

import Bytes
import RSocket

@testable import Core

final class ResumingClient {
    /// Where sockets break: after a number of bytes from the broker, or to it, counted over all sockets.
    struct Cuts {
        var incoming: [Int] = []
        var outgoing: [Int] = []
    }

    let broker: TestBroker
    let token: [UInt8]
    private(set) var socket: TestClient
    /// The number of shards; sockets arrive at them in turn.
    private let shards: Int
    private var cuts: Cuts
    /// Bytes received over all sockets so far.
    private(set) var incoming = 0
    private(set) var outgoing = 0
    /// Sent frames of streams, with their lengths, and the position of the oldest that is kept.
    private var sent = ByteBuffer()
    private var firstPosition: UInt64 = 0
    /// Complete frames of streams received, one line each.
    private(set) var lines: [String] = []
    private(set) var received: UInt64 = 0
    /// An unfinished frame at the end of the input.
    private var rest = ByteBuffer()
    /// RESUME_OKs received.
    private(set) var resumed = 0
    /// Sockets that broke.
    private(set) var breaks = 0
    private(set) var refusal: String?
    private var awaitsResume = false
    /// Whether the broker's KEEPALIVEs are answered.
    var answers = true

    init(_ broker: TestBroker, shard: Int = 0, token: [UInt8] = Array("sixteen bytes ok".utf8), cuts: Cuts = Cuts()) {
        self.broker = broker
        self.token = token
        self.cuts = cuts
        shards = broker.shards.count
        socket = TestClient(broker, shard)
        var setup = SetupRequest()
        setup.metadataMime = "text/plain"
        setup.lifetime = 600_000
        setup.resumeToken = token
        socket.send { FrameWriter.setup(setup, into: &$0) }
    }

    /// Sends frames of streams; if a socket breaks on the way, the client resumes.
    func send(_ write: (inout ByteBuffer) -> Void) {
        var frames = ByteBuffer()
        write(&frames)
        sent.append(frames.readable)
        // After RESUME_OK everything that the broker lacks is sent.
        if !awaitsResume { pass(frames.readable) }
        take()
    }

    func request(
        _ route: String, _ text: String = "",
        _ write: (UnsafeRawBufferPointer, UnsafeRawBufferPointer, inout ByteBuffer) -> Void
    ) {
        let (route, text) = (Array(route.utf8), Array(text.utf8))
        send { buffer in
            route.withUnsafeBytes { route in text.withUnsafeBytes { write(route, $0, &buffer) } }
        }
    }

    func subscribe(_ route: String, n: UInt32, stream: UInt32) {
        request(route) {
            FrameWriter.requestStream(stream: stream, initialN: n, metadata: $0, data: $1, fragment: 0, into: &$2)
        }
    }

    func publish(_ route: String, _ text: String, stream: UInt32, fragment: Int = 0) {
        request(route, text) {
            FrameWriter.requestResponse(stream: stream, metadata: $0, data: $1, fragment: fragment, into: &$2)
        }
    }

    /// Reads what has arrived, and acknowledges it.
    func acknowledge() {
        take()
        if !awaitsResume { acknowledge(respond: false) }
        take()
    }

    /// Breaks the socket; the client does not resume yet.
    func lose() {
        socket.disconnect()
        rest.removeAll()
    }

    /// Resumes over another socket. The client sends its actual positions by default.
    func resume(on shard: Int? = nil, has: UInt64? = nil, first: UInt64? = nil) {
        rest.removeAll()
        socket = TestClient(broker, shard ?? (socket.shard + 1) % shards)
        awaitsResume = true
        socket.send {
            FrameWriter.resume(
                token: token, lastReceivedServerPosition: has ?? received,
                firstAvailableClientPosition: first ?? firstPosition, into: &$0)
        }
        take()
    }

    /// Takes what has arrived, as long as the socket lives.
    func take() {
        while socket.bytes.count > 0 {
            let limit = cuts.incoming.first.map { $0 - incoming } ?? .max
            let part = min(limit, socket.bytes.count)
            incoming += part
            rest.append(socket.bytes.readable.slice(0..<part))
            socket.bytes.consume(part)
            if read() { continue }
            if part == limit {
                cuts.incoming.removeFirst()
                breakOff()
            }
        }
    }

    /// Sends `bytes` until the socket breaks. Returns whether it is still open.
    private func pass(_ bytes: UnsafeRawBufferPointer) {
        let limit = cuts.outgoing.first.map { $0 - outgoing } ?? .max
        let part = min(limit, bytes.count)
        outgoing += part
        if part > 0 { socket.send { $0.append(bytes.slice(0..<part)) } }
        if part == limit {
            cuts.outgoing.removeFirst()
            take()
            breakOff()
        }
    }

    private func breakOff() {
        breaks += 1
        lose()
        resume()
    }

    private func acknowledge(respond: Bool) {
        let position = received
        socket.send {
            FrameWriter.keepalive(
                respond: respond, position: position, data: UnsafeRawBufferPointer(start: nil, count: 0), into: &$0)
        }
    }

    /// Takes the complete frames received. Returns true if these caused more output, which has been taken, too.
    private func read() -> Bool {
        while rest.count >= 3, rest.count >= 3 + rest.readable.u24(at: 0) {
            let length = rest.readable.u24(at: 0)
            var frame = ByteBuffer()
            frame.append(rest.readable.slice(0..<3 + length))
            rest.consume(3 + length)
            if accept(frame.readable.slice(3..<3 + length)) { return true }
        }
        return false
    }

    private func accept(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let frame = try? Frame.decode(bytes.bytes) else {
            lines.append("undecodable")
            return false
        }
        guard frame.stream == 0 else {
            if awaitsResume { lines.append("a frame before RESUME_OK") }
            lines.append(TestClient.describe(bytes))
            received += UInt64(bytes.count)
            return false
        }
        switch frame.body {
        case .resumeOK(let position):
            awaitsResume = false
            resumed += 1
            return sendAgain(from: position)
        case .keepalive(let respond, let position, _):
            if awaitsResume { lines.append("a frame before RESUME_OK") }
            discard(before: position)
            if respond, answers { acknowledge(respond: false) }
        case .error(let code, let message):
            refusal = "\(String(code, radix: 16)) \(String(decoding: bytes.slice(message), as: UTF8.self))"
        default: lines.append("unexpected \(frame.header.typeName)")
        }
        return false
    }

    private func sendAgain(from position: UInt64) -> Bool {
        discard(before: position)
        guard position == firstPosition else {
            lines.append("RESUME_OK(\(position)) is not where a frame begins")
            return false
        }
        let again = Array(sent.readable)
        guard !again.isEmpty else { return false }
        again.withUnsafeBytes { pass($0) }
        return true
    }

    /// Drops what the broker has received.
    private func discard(before position: UInt64) {
        while sent.count > 0 {
            let length = sent.readable.u24(at: 0)
            guard firstPosition + UInt64(length) <= position else { return }
            firstPosition += UInt64(length)
            sent.consume(3 + length)
        }
    }

    /// What has arrived on a stream, in order.
    func lines(of stream: Int) -> [String] { lines.filter { $0.hasPrefix("\(stream):") } }
}

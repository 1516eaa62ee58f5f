// A session with an owner that queues bytes, and a client that reads frames: the peer of the tests.

import Bytes
import HTTP2Frames

@testable import HTTP2

/// Takes a session's output, and supplies the bodies that the test queued.
struct TestSink: HTTPSink {
    var output: [UInt8] = []
    var bodies: [UInt32: [UInt8]] = [:]
    /// The number of calls to `body`.
    var asked = 0
    private var promised: (stream: UInt32, count: Int)?

    mutating func write(_ bytes: UnsafeRawBufferPointer) { output += bytes }

    mutating func body(stream: UInt32, handle: UInt32, atMost: Int) -> (count: Int, drained: Bool) {
        precondition(atMost > 0 && handle == stream + 1_000)
        asked += 1
        let waiting = bodies[stream]?.count ?? 0
        let count = min(waiting, atMost)
        promised = (stream, count)
        return (count, count == waiting)
    }

    mutating func data(stream: UInt32, handle: UInt32, head: UnsafeRawBufferPointer, count: Int) {
        precondition(promised?.stream == stream && promised?.count == count && count > 0 && head.count == 9)
        output += head
        output += bodies[stream]!.prefix(count)
        bodies[stream]!.removeFirst(count)
        promised = nil
    }
}

final class Peer {
    var session: ServerSession
    var sink = TestSink()
    let reader = FrameReader()
    /// Events since the last `events()`, as lines.
    private(set) var log: [String] = []
    /// The bodies received, by stream.
    private(set) var bodies: [UInt32: [UInt8]] = [:]
    /// Everything that the session wrote.
    private(set) var frames: [Received] = []
    private(set) var fatal: HTTP2Error?
    /// The units of reading work, one entry for each report.
    private(set) var worked: [Int] = []
    var consumes = true
    var now: UInt64 = 1_000_000_000_000

    /// A session whose client has sent its preface, if `opened`.
    init(limits: HTTP2Limits = HTTP2Limits(), opened: Bool = true) {
        session = ServerSession(limits: limits)
        guard opened else { return }
        feed(preface + settings() + frame(Type.settings, Flag.ack))
        flush()
        frames = []
        log = []
    }

    func feed(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes {
            session.feed($0, now: now)
            pull()
        }
    }

    /// Feeds the bytes in pieces of `size`.
    func feed(_ bytes: [UInt8], by size: Int) {
        for start in stride(from: 0, to: bytes.count, by: size) {
            feed(Array(bytes[start..<min(start + size, bytes.count)]))
        }
    }

    func pull() {
        while let event = session.next() { note(event) }
    }

    func note(_ event: HTTPEvent) {
        switch event {
        case .request(let stream, let head, let complete):
            session.setHandle(stream + 1_000, stream: stream)
            var line = "request \(stream) \(text(head.method)) \(text(head.path))"
            for index in 0..<head.fields.count {
                line += " \(text(head.fields[index].name))=\(text(head.fields[index].value))"
            }
            log.append(line + (complete ? " END" : ""))
        case .data(let stream, let handle, let bytes):
            precondition(handle == stream + 1_000 && bytes.count > 0)
            bodies[stream, default: []] += bytes
            log.append("data \(stream) \(bytes.count)")
            if consumes { session.consume(stream, bytes.count) }
        case .complete(let stream, let handle, let trailers):
            precondition(handle == stream + 1_000)
            var line = "complete \(stream)"
            for index in 0..<(trailers?.count ?? 0) {
                line += " \(text(trailers![index].name))=\(text(trailers![index].value))"
            }
            log.append(line)
        case .reset(let stream, let handle, let code):
            precondition(handle == stream + 1_000)
            log.append("reset \(stream) \(code.rawValue)")
        case .closed(let stream, let handle):
            precondition(handle == stream + 1_000)
            log.append("closed \(stream)")
        case .writable(let stream, _): log.append("writable \(stream)")
        case .pong(let number): log.append("pong \(number)")
        case .worked(let units): worked.append(units)
        case .response, .closing: preconditionFailure("a server received a client's event")
        case .fatal(let error):
            log.append("fatal \(error.code.rawValue)")
            fatal = error
        case .closedByPeer(let error): log.append("closed by peer \(error.code.rawValue) \(error.message)")
        }
    }

    private func text(_ bytes: UnsafeRawBufferPointer) -> String { String(decoding: bytes, as: UTF8.self) }

    /// Lets the session write, and returns the frames as lines.
    @discardableResult
    func flush(atMost limit: Int = .max) -> [String] {
        flushFrames(atMost: limit).map(\.description)
    }

    @discardableResult
    func flushFrames(atMost limit: Int = .max) -> [Received] {
        let count = session.produce(into: &sink, atMost: limit)
        precondition(count == sink.output.count)
        let new = reader.read(sink.output)
        sink.output = []
        frames += new
        pull()
        return new
    }

    func events() -> [String] {
        defer { log = [] }
        return log
    }

    /// Feeds, writes, and returns what was written.
    func talk(_ bytes: [UInt8]) -> [String] {
        feed(bytes)
        return flush()
    }

    func respond(_ stream: UInt32, complete: Bool = false) {
        session.respond(stream, status: 200, fields: ["content-type": "text/plain"], complete: complete)
    }

    func send(_ stream: UInt32, _ bytes: [UInt8]) {
        sink.bodies[stream, default: []] += bytes
        session.bodyAvailable(stream)
    }

    /// Whether a stream is still served, which shows that the connection is intact.
    func serves(_ stream: UInt32) -> Bool {
        let from = frames.count
        feed(get(stream))
        respond(stream, complete: true)
        flush()
        return frames[from...].contains { $0.stream == stream && $0.fields[":status"] == "200" && $0.isEnd }
    }
}

/// Random numbers that are the same in every run (xorshift).
struct Numbers: RandomNumberGenerator {
    private var state: UInt64
    init(seed: UInt64) { state = seed | 1 }

    mutating func next() -> UInt64 {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return state
    }
}

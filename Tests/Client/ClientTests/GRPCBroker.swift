// A broker for the tests of GRPCConnection: the real server's session, with responses from the test. All in memory.

import Bytes
import HTTP2
import Testing

@testable import Client

/// What was received on one stream.
struct Asked: Equatable {
    var path = ""
    var messages: [[UInt8]] = []
    var isHalfClosed = false
    var reset: UInt32?
}

private struct BrokerSink: HTTPSink {
    var output: [UInt8] = []
    var bodies: [UInt32: [UInt8]] = [:]

    mutating func write(_ bytes: UnsafeRawBufferPointer) { output += bytes }

    mutating func body(stream: UInt32, handle: UInt32, atMost: Int) -> (count: Int, drained: Bool) {
        let waiting = bodies[stream]?.count ?? 0
        let count = min(waiting, atMost)
        return (count, count == waiting)
    }

    mutating func data(stream: UInt32, handle: UInt32, head: UnsafeRawBufferPointer, count: Int) {
        output += head
        output += bodies[stream]!.prefix(count)
        bodies[stream]!.removeFirst(count)
    }
}

final class GRPCBroker {
    let connection: GRPCConnection
    private var session: ServerSession
    private var sink = BrokerSink()
    private(set) var asked: [UInt32: Asked] = [:]
    /// The client's GOAWAY.
    private(set) var goAway: HTTP2Error?
    private var partial: [UInt32: [UInt8]] = [:]
    private var answered: Set<UInt32> = []
    private var now: UInt64 = 1_000
    /// The number of bytes that reach the client at a time.
    var step = Int.max

    init(limits: ClientLimits = ClientLimits(), server: HTTP2Limits = HTTP2Limits()) {
        connection = GRPCConnection(authority: "broker:1", limits: limits, now: 0)
        session = ServerSession(limits: server)
    }

    /// The space left in the client's window for a stream.
    func room(_ id: StreamID) -> Int { session.room(id.value) }

    func send(_ id: StreamID, _ write: (inout ByteBuffer) -> Void) {
        if answered.insert(id.value).inserted {
            session.respond(id.value, status: 200, fields: ["content-type": "application/grpc"], complete: false)
        }
        sink.bodies[id.value, default: []] += bytes(write)
        session.bodyAvailable(id.value)
    }

    func respond(_ id: StreamID, status: Int, _ fields: HTTPFields, complete: Bool = true) {
        session.respond(id.value, status: status, fields: fields, complete: complete)
    }

    func end(_ id: StreamID, _ trailers: HTTPFields = ["grpc-status": "0"]) {
        if answered.contains(id.value) {
            session.finish(id.value, trailers: trailers)
        } else {
            var fields = trailers
            fields.add("content-type", "application/grpc")
            session.respond(id.value, status: 200, fields: fields, complete: true)
        }
    }

    func reset(_ id: StreamID, _ code: HTTP2Code) { session.reset(id.value, code) }
    func goAway(_ code: HTTP2Code, _ text: String) { session.goAway(code, text) }

    /// Transfers bytes in both directions until none are left, without pulling events.
    func carry() {
        while true {
            let up = takeOutput()
            if !up.isEmpty { feed(up) }
            session.produce(into: &sink, atMost: .max)
            let down = sink.output
            sink.output = []
            var rest = down[...]
            while !rest.isEmpty {
                arrive(Array(rest.prefix(step)))
                rest = rest.dropFirst(step)
            }
            if up.isEmpty, down.isEmpty { return }
        }
    }

    /// The server's output, which does not reach the client.
    func answer() -> [UInt8] {
        session.produce(into: &sink, atMost: .max)
        defer { sink.output = [] }
        return sink.output
    }

    /// Transfers bytes, and pulls all events.
    func talk() -> [Seen] {
        var seen: [Seen] = []
        while true {
            let up = takeOutput()
            if !up.isEmpty { feed(up) }
            session.produce(into: &sink, atMost: .max)
            let down = sink.output
            sink.output = []
            var rest = down[...]
            while !rest.isEmpty {
                arrive(Array(rest.prefix(step)))
                rest = rest.dropFirst(step)
                seen += pull()
                if case .died? = seen.last { return seen }
            }
            let more = pull()
            seen += more
            if case .died? = seen.last { return seen }
            if up.isEmpty, down.isEmpty, more.isEmpty { return seen }
        }
    }

    /// Bytes that the server did not send.
    func arrive(_ bytes: [UInt8]) {
        now += 1
        bytes.withUnsafeBytes { bytes in
            guard let source = bytes.baseAddress else { return }
            connection.space(bytes.count).copyMemory(from: source, byteCount: bytes.count)
        }
        connection.arrived(bytes.count, now: now)
    }

    func pull() -> [Seen] {
        var seen: [Seen] = []
        do {
            while let event = try connection.next() { seen.append(Seen(event)) }
        } catch {
            seen.append(.died(error))
        }
        return seen
    }

    func takeOutput() -> [UInt8] {
        var all: [UInt8] = []
        while true {
            let output = connection.output()
            if output.isEmpty { return all }
            all += output
            connection.written(output.count)
        }
    }

    private func feed(_ bytes: [UInt8]) {
        now += 1
        bytes.withUnsafeBytes {
            session.feed($0, now: now)
            while let event = session.next() { note(event) }
        }
    }

    private func note(_ event: HTTPEvent) {
        switch event {
        case .request(let stream, let head, let complete):
            session.setHandle(stream, stream: stream)
            #expect(String(decoding: head.authority, as: UTF8.self) == "broker:1")
            asked[stream] = Asked(path: String(decoding: head.path, as: UTF8.self), isHalfClosed: complete)
        case .data(let stream, _, let bytes):
            partial[stream, default: []] += bytes
            while let message = cut(stream) { asked[stream]!.messages.append(message) }
            session.consume(stream, bytes.count)
        case .complete(let stream, _, _): asked[stream]?.isHalfClosed = true
        case .reset(let stream, _, let code): asked[stream]?.reset = code.rawValue
        case .fatal(let error), .closedByPeer(let error): goAway = error
        case .closed, .writable, .pong, .worked, .response, .closing: break
        }
    }

    private func cut(_ stream: UInt32) -> [UInt8]? {
        guard let bytes = partial[stream], bytes.count >= 5 else { return nil }
        let end = 5 + bytes[1..<5].reduce(0) { $0 << 8 | Int($1) }
        guard bytes.count >= end else { return nil }
        partial[stream] = Array(bytes[end...])
        return Array(bytes[5..<end])
    }
}

/// Appends a SubscribeResponse with these messages.
func appendResponse(
    _ messages: [(sequence: UInt64, text: String)], epoch: UInt64 = 9, dropped: UInt64 = 0, metadata: [UInt8] = [],
    to out: inout ByteBuffer
) {
    var entries: [UInt8] = []
    for (sequence, text) in messages {
        let payload = Array(text.utf8)
        metadata.withUnsafeBytes { metadata in
            payload.withUnsafeBytes { payload in
                let entry = MessageEntry(
                    sequence: sequence, timestamp: 1_000, payloadCount: payload.count, metadata: metadata)
                var memory = [UInt8](repeating: 0, count: entry.size)
                memory.withUnsafeMutableBytes { entry.write(payload, to: $0.baseAddress!) }
                entries += memory
            }
        }
    }
    let tail = SubscribeTail(outstandingCredit: 1, epoch: epoch, dropped: dropped)
    tail.writePrefix(entries: entries.count, to: out.reserve(GRPCFraming.prefix))
    out.commit(GRPCFraming.prefix)
    out.append(entries)
    tail.write(to: out.reserve(tail.size))
    out.commit(tail.size)
}

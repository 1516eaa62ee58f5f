// A gRPC client of the tests' broker: HTTP/2 frames by hand, windows under the test's control.

import Bytes
import ForebayWire
import HTTP2
import HTTP2Frames

@testable import Core

/// What a call has received so far.
final class TestCall {
    /// Not yet taken as complete messages.
    fileprivate var bytes: [UInt8] = []
    fileprivate(set) var messages: [[UInt8]] = []
    /// HEADERS in the order of arrival.
    fileprivate(set) var heads: [[String: String]] = []
    fileprivate(set) var isEnded = false
    fileprivate(set) var resetCode: UInt32?
    /// Bytes of DATA.
    fileprivate(set) var received = 0

    /// What has arrived of a plain stream.
    var text: String { String(decoding: bytes, as: UTF8.self) }
    var status: String? { heads.last?["grpc-status"] }
    var message: String? { heads.last?["grpc-message"] }
    var end: String? { heads.last?["forebay-end"] }
    var dropped: String? { heads.last?["forebay-dropped"] }
    /// Whether a message has begun and is incomplete.
    var hasPart: Bool { !bytes.isEmpty }
    fileprivate(set) var taken = 0

    fileprivate func cut() {
        while bytes.count >= 5 {
            let count = Int(bytes.withUnsafeBytes { $0.bigEndian(at: 1, as: UInt32.self) })
            guard bytes.count >= 5 + count else { return }
            messages.append(Array(bytes[5..<5 + count]))
            bytes.removeFirst(5 + count)
        }
    }

    /// The messages since the last call.
    func take() -> [[UInt8]] {
        defer { taken = messages.count }
        return Array(messages[taken...])
    }

    /// The responses of a subscription since the last call.
    func responses() -> [TestResponse] { take().map { TestResponse($0) } }
    func grants() -> [TestGrant] { take().map { TestGrant($0) } }

    /// The payloads of the messages since the last call, as texts.
    func texts() -> [String] { responses().flatMap { $0.messages.map(\.text) } }
}

struct TestMessage: Equatable {
    var sequence: UInt64 = 0
    var payload: [UInt8] = []
    /// Empty in subscriptions to one topic.
    var topic = ""
    var text: String { String(decoding: payload, as: UTF8.self) }
}

struct TestResponse {
    var messages: [TestMessage] = []
    var outstanding: UInt64 = 0
    var epoch: UInt64 = 0
    var dropped: UInt64 = 0
    var next: UInt64 = 0
    /// The topic whose end it reports, and why that failed.
    var ended: (topic: String, failure: String)?

    init(_ bytes: [UInt8]) {
        eachField(bytes) { number, value, inner in
            switch number {
            case 1:
                var message = TestMessage()
                eachField(inner) { number, value, inner in
                    if number == 1 { message.sequence = value }
                    if number == 2 { message.payload = inner }
                    if number == 6 { message.topic = String(decoding: inner, as: UTF8.self) }
                }
                messages.append(message)
            case 2: outstanding = value
            case 3: epoch = value
            case 4: dropped = value
            case 6:
                var end = (topic: "", failure: "")
                eachField(inner) { number, _, inner in
                    if number == 1 { end.topic = String(decoding: inner, as: UTF8.self) }
                    if number == 2 { end.failure = String(decoding: inner, as: UTF8.self) }
                }
                ended = end
            default: next = value
            }
        }
    }
}

/// Publishes one message to each topic, over RSocket.
func publish(_ broker: TestBroker, _ text: String, to topics: [String], shard: Int = 0) {
    let client = broker.connect(shard)
    for (index, topic) in topics.enumerated() { client.publish(topic, text, stream: UInt32(2 * index + 1)) }
    client.disconnect()
}

/// A PublishResponse.
struct TestGrant {
    var granted: UInt64 = 0
    var acknowledged: UInt64 = 0
    var accepted: UInt64 = 0

    init(_ bytes: [UInt8]) {
        eachField(bytes) { number, value, _ in
            switch number {
            case 1: granted = value
            case 2: acknowledged = value
            default: accepted = value
            }
        }
    }
}

func eachField(_ bytes: [UInt8], _ body: (UInt32, UInt64, [UInt8]) -> Void) {
    bytes.withUnsafeBytes { bytes in
        var reader = ProtobufReader(bytes)
        while let (number, value) = try? reader.next() {
            switch value {
            case .varint(let n): body(number, n, [])
            case .bytes(let inner): body(number, 0, Array(inner))
            default: break
            }
        }
    }
}

final class TestGRPC {
    let client: TestClient
    private let reader = FrameReader()
    private(set) var calls: [UInt32: TestCall] = [:]
    private(set) var nextStream: UInt32 = 1
    /// Bytes read and not yet returned to the window, by stream; 0 is the connection.
    private var owed: [UInt32: Int] = [:]
    private(set) var goAway: Received?
    /// Whether reading reopens the windows, except those of streams in `closed`.
    var opensWindows = true
    /// Streams whose window is not reopened.
    var closed: Set<UInt32> = []
    /// Whether the window is so small that the broker fills it with single frames, a few each second.
    private(set) var isNarrow: Bool
    /// The space in the broker's windows, by stream; 0 is the connection.
    private var room: [UInt32: Int] = [0: 65_535]
    private var initialRoom = 65_535
    /// DATA for which there is no space yet, and whether the client's half of the stream ends after it.
    private var unsent: [UInt32: (bytes: [UInt8], size: Int, end: Bool)] = [:]

    /// - Parameters:
    ///   - window: the initial window of a stream.
    ///   - connectionWindow: the window of all streams together.
    init(_ broker: TestBroker, _ shard: Int = 0, window: UInt32 = 65_535, connectionWindow: UInt32 = 65_535) {
        client = TestClient(broker, shard, wireProtocol: .http)
        isNarrow = window < HTTP2Limits().tinyData
        var hello = preface + settings((4, window))
        if connectionWindow > 65_535 { hello += windowUpdate(0, connectionWindow - 65_535) }
        send(hello)
        read()
    }

    func send(_ bytes: [UInt8]) { client.send { $0.append(bytes) } }

    func call(_ method: GRPCMethod, _ fields: [(String, String)] = []) -> UInt32 {
        let stream = nextStream
        nextStream += 2
        calls[stream] = TestCall()
        let head = [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", method.path)]
        send(headers(stream, head + [("content-type", "application/grpc"), ("te", "trailers")] + fields))
        return stream
    }

    /// Sends messages, in DATA frames of at most `size` bytes.
    func sendMessage(_ stream: UInt32, _ messages: [UInt8]..., end: Bool = false, by size: Int = 16_384) {
        sendMessage(stream, messages, end: end, by: size)
    }

    func sendMessage(_ stream: UInt32, _ messages: [[UInt8]], end: Bool = false, by size: Int = 16_384) {
        let rest = unsent[stream]
        unsent[stream] = ((rest?.bytes ?? []) + messages.flatMap { framed($0) }, size, end)
        sendUnsent()
        read()
    }

    func halfClose(_ stream: UInt32) {
        unsent[stream] = (unsent[stream]?.bytes ?? [], 16_384, true)
        sendUnsent()
        read()
    }

    func cancel(_ stream: UInt32) {
        unsent[stream] = nil
        send(reset(stream))
        calls[stream]?.isEnded = true
    }

    /// Sends what the broker's windows allow.
    private func sendUnsent() {
        var frames: [UInt8] = []
        for stream in unsent.keys.sorted() {
            var (bytes, size, end) = unsent[stream]!
            var start = 0
            while start < bytes.count {
                let count = min(size, bytes.count - start, room[0]!, room[stream, default: initialRoom])
                guard count > 0 else { break }
                frames += data(stream, Array(bytes[start..<start + count]))
                room[0]! -= count
                room[stream, default: initialRoom] -= count
                start += count
            }
            bytes.removeFirst(start)
            unsent[stream] = bytes.isEmpty ? nil : (bytes, size, end)
            if bytes.isEmpty, end { frames += data(stream, [UInt8](), end: true) }
        }
        if !frames.isEmpty, !client.isClosed { send(frames) }
    }

    /// Applies the broker's window updates and settings.
    private func takeRoom(_ received: Received) {
        if received.type == Type.windowUpdate {
            room[received.stream, default: initialRoom] += received.increment
        } else {
            for start in stride(from: 0, to: received.payload.count, by: 6) {
                let (id, value) = received.payload.withUnsafeBytes {
                    ($0.bigEndian(at: start, as: UInt16.self), Int($0.bigEndian(at: start + 2, as: UInt32.self)))
                }
                guard id == 4 else { continue }
                for stream in room.keys where stream != 0 { room[stream]! += value - initialRoom }
                initialRoom = value
            }
        }
    }

    /// Gives every stream a window of the usual size from now on.
    func widen() {
        guard isNarrow, !client.isClosed else { return }
        isNarrow = false
        send(settings((4, 65_535)))
    }

    /// Takes what has arrived, and reopens the windows, until nothing more arrives.
    func read() {
        while client.bytes.count > 0 {
            let bytes = Array(client.bytes.readable)
            client.bytes.consume(bytes.count)
            var answer: [UInt8] = []
            for frame in reader.read(bytes) { take(frame, &answer) }
            if !answer.isEmpty, !client.isClosed { send(answer) }
            if !unsent.isEmpty { sendUnsent() }
        }
    }

    private func take(_ received: Received, _ answer: inout [UInt8]) {
        let call = calls[received.stream]
        switch received.type {
        case Type.settings where received.flags & Flag.ack == 0:
            takeRoom(received)
            answer += frame(Type.settings, Flag.ack)
        case Type.windowUpdate: takeRoom(received)
        case Type.ping where received.flags & Flag.ack == 0:
            answer += frame(Type.ping, Flag.ack, received.payload)
        case Type.data:
            call?.bytes += received.payload
            call?.received += received.payload.count
            call?.cut()
            guard opensWindows, !received.payload.isEmpty, !closed.contains(received.stream) else {
                owed[0, default: 0] += received.payload.count
                owed[received.stream, default: 0] += received.payload.count
                break
            }
            answer += windowUpdate(0, UInt32(received.payload.count))
            if !received.isEnd { answer += windowUpdate(received.stream, UInt32(received.payload.count)) }
        case Type.headers: call?.heads.append(received.fields)
        case Type.reset:
            call?.resetCode = received.code
            call?.isEnded = true
            unsent[received.stream] = nil
        case Type.goAway: goAway = received
        default: break
        }
        if received.isEnd { call?.isEnded = true }
    }

    /// Reopens windows for what was read while they were closed.
    func openAllWindows() {
        opensWindows = true
        for (stream, count) in owed.sorted(by: { $0.key < $1.key }) where count > 0 {
            if calls[stream]?.isEnded != true { send(windowUpdate(stream, UInt32(count))) }
        }
        owed = [:]
        read()
    }

    // Calls

    static func open(
        _ topic: String, n: UInt32 = 0x7FFF_FFFF, last: UInt32 = 0, all: Bool = false, from: UInt64 = 0,
        buffer: UInt32 = 0, overflow: Overflow = .dropOldest, gapFails: Bool = false, opening: Bool = false,
        since: Int64 = 0, ago: UInt64 = 0, positions: [(String, UInt64, UInt64)] = []
    ) -> [UInt8] {
        var bytes = Proto.field(1, topic) + Proto.field(2, UInt64(n))
        if last > 0 { bytes += Proto.field(3, UInt64(last)) }
        if all { bytes += Proto.field(4, 1) }
        if from > 0 { bytes += Proto.field(5, from) }
        if buffer > 0 { bytes += Proto.field(7, UInt64(buffer)) }
        bytes += Proto.field(8, UInt64(overflow.rawValue))
        if gapFails { bytes += Proto.field(9, 1) }
        if opening { bytes += Proto.field(10, 1) }
        if since != 0 { bytes += Proto.field(11, UInt64(bitPattern: since)) }
        if ago > 0 { bytes += Proto.field(12, ago) }
        for (topic, epoch, sequence) in positions {
            bytes += Proto.field(13, Proto.field(1, topic) + Proto.field(2, epoch) + Proto.field(3, sequence))
        }
        return Proto.field(1, bytes)
    }

    func subscribe(
        _ topic: String, n: UInt32 = 0x7FFF_FFFF, all: Bool = false, from: UInt64 = 0, buffer: UInt32 = 0,
        overflow: Overflow = .dropOldest, gapFails: Bool = false, opening: Bool = false, since: Int64 = 0,
        ago: UInt64 = 0, positions: [(String, UInt64, UInt64)] = []
    ) -> UInt32 {
        let stream = call(.subscribe)
        sendMessage(
            stream,
            TestGRPC.open(
                topic, n: n, all: all, from: from, buffer: buffer, overflow: overflow, gapFails: gapFails,
                opening: opening, since: since, ago: ago, positions: positions))
        return stream
    }

    /// A plain HTTP stream, as JSON lines or in another form.
    func listen(
        _ topic: String, all: Bool = false, last: Int = 0, accept: String = "application/x-ndjson",
        options: String = "",
        posting body: String? = nil
    ) -> UInt32 {
        let stream = nextStream
        nextStream += 2
        calls[stream] = TestCall()
        let replay = options.contains("since=") ? "" : "replay=\(all ? "all" : "\(last)")"
        let path = "/v1/topics/\(topic)/messages?\(replay)\(options)"
        let method = body == nil ? "GET" : "POST"
        let head = [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)]
        send(headers(stream, head + [("accept", accept)], end: body == nil))
        if let body { send(data(stream, Array(body.utf8), end: true)) }
        read()
        return stream
    }

    /// A plain HTTP request without a body.
    func plain(_ method: String, _ path: String) -> UInt32 {
        let stream = nextStream
        nextStream += 2
        calls[stream] = TestCall()
        send(
            headers(
                stream, [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)], end: true))
        read()
        return stream
    }

    func request(_ n: UInt32, _ stream: UInt32) { sendMessage(stream, Proto.field(2, UInt64(n))) }

    static func channel(_ topic: String, completes: Bool = false) -> [UInt8] {
        Proto.field(1, Proto.field(1, topic) + (completes ? Proto.field(2, 1) : []))
    }

    static func item(_ text: String) -> [UInt8] { Proto.field(2, Proto.field(2, text)) }

    func channel(_ topic: String, completes: Bool = false) -> UInt32 {
        let stream = call(.publish)
        sendMessage(stream, TestGRPC.channel(topic, completes: completes))
        return stream
    }

    func publishOne(_ topic: String, _ text: String) -> UInt32 {
        let stream = call(.publishOne)
        sendMessage(stream, Proto.field(1, topic) + TestGRPC.item(text), end: true)
        return stream
    }

    // The engine's state

    var connection: Connection? { client.broker.shards[client.shard].find(client.id) }
    var http: HTTPConnection? { connection?.http }
    func exchange(_ stream: UInt32) -> Exchange? { http?.exchange(of: stream) }

    subscript(_ stream: UInt32) -> TestCall { calls[stream]! }
}

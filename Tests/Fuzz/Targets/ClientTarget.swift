// The client side: whatever a broker, or something in its place, sends. The input is a script: the client's requests,
// the broker's frames and bytes, and the passing of time. The script is played twice, the second time with the broker's
// bytes in small pieces, which must give the same events; and nothing may be delivered that was not requested, or after
// an end.

import Bytes
import Client
import ForebayWire
import HTTP2
import HTTP2Frames
import RSocket

func fuzzClientRSocket(_ bytes: UnsafeRawBufferPointer) {
    var limits = ClientLimits()
    limits.message = 300
    limits.reassembly = 500
    limits.streams = 6
    limits.fragment = 100
    compare(bytes) { ClientScript(RSocketConnection(limits: limits, now: 0), isHTTP2: false) }
}

func fuzzClientGRPC(_ bytes: UnsafeRawBufferPointer) {
    var limits = ClientLimits()
    limits.message = 300
    limits.streams = 6
    compare(bytes) { ClientScript(GRPCConnection(authority: "a", limits: limits, now: 0), isHTTP2: true) }
}

private func compare(_ bytes: UnsafeRawBufferPointer, _ make: () -> ClientScript) {
    let whole = make()
    whole.play(bytes, step: .max)
    let cut = make()
    cut.play(bytes, step: 1 + bytes.count % 7)
    // The library reports a violation of HTTP/2 when it writes its GOAWAY, and only the latest one. Whether something
    // is a violation may depend on whether the client's RST_STREAM had already been written.
    let isBreach = whole.isHTTP2 && (whole.events + cut.events).contains { $0.hasPrefix("dead ") }
    let (one, other) = (whole.events, cut.events)
    mustHold(isBreach || one == other, "pieces give \(other), the whole \(one)")
}

private final class ClientScript {
    private let connection: any ClientConnection
    let isHTTP2: Bool
    private(set) var events: [String] = []
    private var streams: [StreamID] = []
    private var requested: [StreamID: UInt64] = [:]
    private var granted: [StreamID: UInt64] = [:]
    private var over: Set<StreamID> = []
    private var channels: Set<StreamID> = []
    /// Channels on which the broker sends no more; it may still grant, decline or fail what this side sends.
    private var halfOver: Set<StreamID> = []
    private var now: UInt64 = 0
    private var isDead = false

    init(_ connection: any ClientConnection, isHTTP2: Bool) {
        self.connection = connection
        self.isHTTP2 = isHTTP2
    }

    func play(_ bytes: UnsafeRawBufferPointer, step: Int) {
        var input = FuzzInput(bytes)
        // The broker's SETTINGS and its acknowledgement of the client's, unless the input provides them itself.
        if isHTTP2, input.byte() & 1 == 0 { feed(HTTP2Frames.settings() + frame(Type.settings, Flag.ack), step) }
        while !input.isEmpty {
            let action = input.byte()
            if action < 0x60 { ask(action, &input) } else { feed(answer(action, &input), step) }
            drain()
            let queued = connection.queued
            mustHold(queued < 1 << 20, "\(queued) bytes are queued")
        }
        // The library reports some violations of HTTP/2 only once its GOAWAY has been written.
        while !connection.output().isEmpty { connection.written(connection.output().count) }
        drain()
        if !isDead { note("lost \(connection.receiveEnd())") }
    }

    // The client's actions

    private func ask(_ action: UInt8, _ input: inout FuzzInput) {
        let id = streams.isEmpty ? StreamID(1) : streams[input.number(below: 256) % streams.count]
        do throws(ClientError) {
            switch action & 15 {
            case 0, 1, 2:
                let n = UInt32(1 + input.number(below: 5))
                var options = SubscribeOptions()
                options.meta = action & 0x10 != 0
                open(try connection.subscribe("a", options, n: n), UInt64(n))
            case 3, 4:
                let text = input.piece()
                let id = try connection.openChannel(
                    "a", completesTopic: false, first: text, isOnly: action & 0x10 != 0,
                    acknowledged: action & 0x20 != 0)
                open(id, .max)
                channels.insert(id)
            case 5: open(try connection.publish("a", input.piece()), .max)
            case 6: open(try connection.call(.info), .max)
            case 7, 8:
                let n = UInt32(1 + input.number(below: 200))
                connection.requestN(id, n)
                let sum = requested[id, default: 0].addingReportingOverflow(UInt64(n))
                requested[id] = sum.overflow ? .max : sum.partialValue
            case 9:
                if connection.send(id, input.piece()) {
                    mustHold(granted[id, default: 0] > 0, "a message is sent without credit")
                    granted[id]! -= 1
                }
            case 10: connection.complete(id)
            case 11:
                connection.cancel(id)
                if streams.contains(id) { over.insert(id) }
            case 12:
                now += UInt64(input.byte()) << 28
                try connection.fire(now: now)
            case 13: connection.setReading(action & 0x10 != 0, now: now)
            case 14: try connection.ping(input.take(5), now: now)
            default: connection.written(min(connection.output().count, Int(input.byte()) << 4))
            }
        } catch {
            note("refused \(error.message)")
        }
    }

    private func open(_ id: StreamID, _ n: UInt64) {
        mustHold(!streams.contains(id), "the stream \(id) is opened twice")
        streams.append(id)
        requested[id] = n
    }

    // The broker's actions

    private func answer(_ action: UInt8, _ input: inout FuzzInput) -> [UInt8] {
        if action < 0x70 { return Array(input.piece()) }
        let stream = UInt32(1 + 2 * (input.number(below: 16)))
        if isHTTP2 { return respond(action, stream, &input) }
        let kind = action & 15
        let types: [FrameType] = [
            .payload, .payload, .payload, .payload, .payload, .payload, .requestN, .requestN, .cancel, .error, .error,
            .keepalive, .requestStream, .metadataPush, .lease, .ext,
        ]
        let flags = UInt16(input.byte()) << 2
        let type = types[Int(kind)]
        var out = ByteBuffer()
        let body = input.piece()
        out.append(u24: 6 + body.count)
        out.append(bigEndian: type == .keepalive || (type == .error && flags & 8 != 0) ? 0 : stream)
        out.append(bigEndian: UInt16(type.rawValue) << 10 | flags)
        out.append(body)
        return Array(out.readable)
    }

    private func respond(_ action: UInt8, _ stream: UInt32, _ input: inout FuzzInput) -> [UInt8] {
        switch action & 15 {
        case 0, 1: return headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
        case 2...6:
            let message = Array(input.piece())
            return data(stream, framed(message))
        case 7: return data(stream, Array(input.piece()), end: action & 0x10 != 0)
        case 8, 9:
            let status = String(input.number(below: 18))
            let text = input.piece().asText.filter { $0 > " " && $0 < "~" }
            let fields = [("grpc-status", status), ("grpc-message", text)]
            return headers(stream, fields + [("forebay-dropped", "3"), ("forebay-end", "completed")], end: true)
        case 10: return reset(stream, UInt32(input.number(below: 16)))
        case 11: return windowUpdate(action & 0x10 != 0 ? 0 : stream, UInt32(input.u16()))
        case 12: return frame(Type.goAway, 0, u32(stream) + u32(UInt32(input.number(below: 16))) + input.piece())
        case 13: return settings((UInt16(input.number(below: 8)), UInt32(input.u16())))
        case 14:
            let status = 100 + 2 * input.number(below: 256)
            return headers(stream, [(":status", "\(status)")], end: action & 0x10 != 0)
        default:
            let (type, flags) = (input.byte(), input.byte())
            return frame(type, flags, stream: stream, Array(input.piece()))
        }
    }

    private func feed(_ bytes: [UInt8], _ step: Int) {
        bytes.withUnsafeBytes {
            var rest = FuzzInput($0)
            while !rest.isEmpty, !isDead {
                let piece = rest.take(step)
                connection.space(piece.count).copyMemory(from: piece.baseAddress!, byteCount: piece.count)
                connection.arrived(piece.count, now: now)
                drain()
            }
        }
    }

    // Results

    private func note(_ text: String) { events.append(text) }

    private func drain() {
        guard !isDead else { return }
        do throws(ClientError) {
            while let event = try connection.next() { take(event) }
        } catch {
            note("dead \(error.message)")
            isDead = true
        }
    }

    private func take(_ event: ClientEvent) {
        switch event {
        case .message(let id, let message):
            let metadata = message.metadata.map { "\(Array($0))" } ?? "none"
            note("message \(id.value) \(metadata) \(Array(message.data)) \(message.info?.sequence ?? 0)")
            let left = requested[id, default: 0]
            mustHold(left > 0, "a message arrives that was not requested")
            if left < .max { requested[id] = left - 1 }
            mustHold(message.data.count <= 300, "a message of \(message.data.count) bytes")
            received(id)
        case .opened(let id, let position):
            note("opened \(id.value) \(position)")
            received(id)
        case .topicEnded(let id, let end):
            note("topic ended \(id.value) \(end)")
            received(id)
        case .acknowledged(let id, let reported):
            note("acknowledged \(id.value) \(reported)")
            received(id)
        case .completed(let id, let dropped, _):
            note("completed \(id.value) \(dropped)")
            received(id)
            if channels.contains(id) && !isHTTP2 { halfOver.insert(id) } else { over.insert(id) }
        case .failed(let id, let error):
            note("failed \(id.value) \(error.message)")
            seen(id)
            over.insert(id)
        case .granted(let id, let n):
            note("granted \(id.value) \(n)")
            let sum = granted[id, default: 0].addingReportingOverflow(UInt64(n))
            granted[id] = sum.overflow || n == UInt32.max ? .max : sum.partialValue
            seen(id)
        case .declined(let id): note("declined \(id.value)")
        case .pong(let data): note("pong \(Array(data))")
        case .closing(let why):
            // Whether another GOAWAY is read after all streams have ended depends on whether their resets were written.
            if !events.contains(where: { $0.hasPrefix("closing ") }) { note("closing \(why)") }
        }
    }

    private func received(_ id: StreamID) {
        seen(id)
        mustHold(!halfOver.contains(id), "more arrives after the completion of \(id.value): \(events.last ?? "")")
    }

    private func seen(_ id: StreamID) {
        mustHold(streams.contains(id), "an event of a stream that was never opened")
        mustHold(!over.contains(id), "an event arrives after the end of \(id.value): \(events.last ?? "")")
    }
}

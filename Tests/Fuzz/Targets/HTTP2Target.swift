// The engine with HTTP/2: gRPC and plain HTTP next to an RSocket connection. The input is a script: frames, raw bytes,
// windows that stay closed, logins, reloads and the passing of time. A gRPC subscription receives no more than it
// requested.

import Bytes
import HTTP2
import HTTP2Frames

@testable import Core

func fuzzHTTP2(_ bytes: UnsafeRawBufferPointer) { play(bytes, by: HTTP2Script.self) }

/// An HTTP/2 client that tracks what its subscriptions requested and received, as long as it sends only known requests.
private final class HTTP2Audit: FuzzPeer {
    private struct Call {
        var asked: UInt64 = 0
        var delivered: UInt64 = 0
        var sent: [UInt8] = []
        var came: [UInt8] = []
        var isSubscription = false
        var isOver = false
    }

    private var calls: [UInt32: Call] = [:]
    private let reader = FrameReader()
    private var isRaw = false
    private(set) var unacknowledged = 0
    private(set) var subscription = ""

    init(_ broker: FuzzBroker, _ shard: Int) { super.init(broker, shard, .http) }

    /// From here on the requested amount is unknown.
    func sendRaw(_ bytes: [UInt8]) {
        isRaw = true
        send(bytes)
    }

    func open(_ stream: UInt32, isSubscription: Bool) {
        // Reusing an id ends the connection.
        if calls[stream] != nil { isRaw = true }
        calls[stream] = Call(isSubscription: isSubscription)
    }

    /// - Parameters:
    ///   - times: the number of messages, all alike.
    ///   - step: the maximum number of bytes in each DATA frame.
    func write(_ stream: UInt32, _ message: [UInt8], end: Bool, times: Int = 1, step: Int = .max) {
        for _ in 0..<times { ask(stream, message) }
        var rest = (0..<times).flatMap { _ in framed(message) }[...]
        repeat {
            let part = Array(rest.prefix(step))
            rest = rest.dropFirst(part.count)
            send(data(stream, part, end: end && rest.isEmpty))
        } while !rest.isEmpty
    }

    private func ask(_ stream: UInt32, _ message: [UInt8]) {
        if var call = calls[stream], call.isSubscription {
            message.withUnsafeBytes {
                switch try? SubscribeAction.parse($0) {
                case .open(let open): call.asked += UInt64(open.requestN)
                case .request(let n): call.asked += UInt64(n)
                case nil: break
                }
            }
            calls[stream] = call
        }
    }

    override func take(_ bytes: UnsafeRawBufferPointer) {
        for frame in reader.read(Array(bytes)) { receive(frame) }
    }

    private func receive(_ frame: Received) {
        if frame.type == Type.settings, frame.flags & Flag.ack == 0 { unacknowledged += 1 }
        if frame.type == Type.headers {
            if let id = frame.fields["forebay-subscription"] { subscription = id }
            mustHold(frame.fields["error"] == nil, "a header block is invalid: \(frame.fields)")
        }
        guard !isRaw, frame.stream != 0, var call = calls[frame.stream] else { return }
        // A WINDOW_UPDATE may follow the end, but DATA and HEADERS must not.
        if frame.type == Type.data || frame.type == Type.headers {
            mustHold(!call.isOver, "\(frame) arrives after the end")
        }
        if frame.type == Type.data {
            call.came += frame.payload
            count(&call)
        }
        if frame.isEnd || frame.type == Type.reset { call.isOver = true }
        calls[frame.stream] = call
    }

    private func count(_ call: inout Call) {
        guard call.isSubscription else { return call.came = [] }
        while call.came.count >= 5 {
            let count = call.came.withUnsafeBytes { Int($0.bigEndian(at: 1, as: UInt32.self)) }
            guard call.came.count >= 5 + count else { return }
            let delivered = call.came[5..<5 + count].withUnsafeBytes { bytes -> UInt64 in
                guard var response = try? ReceivedMessages(bytes) else {
                    report("a response is invalid")
                    return 0
                }
                var messages: UInt64 = 0
                while (try? response.next()) != nil { messages += 1 }
                return messages
            }
            call.delivered += delivered
            mustHold(
                call.asked >= 0x7FFF_FFFF || call.delivered <= call.asked,
                "\(call.delivered) were delivered, \(call.asked) requested")
            call.came.removeFirst(5 + count)
        }
    }

    func acknowledge() {
        unacknowledged = 0
        send(frame(Type.settings, Flag.ack))
    }
}

private final class HTTP2Script: BrokerScript {
    private let broker: FuzzBroker
    private let rsocket: RSocketScript
    private var peers: [HTTP2Audit?] = [nil, nil, nil]
    private var next: [UInt32] = [1, 1, 1]
    /// Whether requests name patterns instead of topics, and send positions.
    private var isOfPatterns = false

    init(_ broker: FuzzBroker) {
        self.broker = broker
        rsocket = RSocketScript(broker)
    }

    func step(_ input: inout FuzzInput) {
        if rsocket.takes(&input) { return }
        let first = input.byte()
        let (place, action) = (Int(first >> 6), first & 31)
        isOfPatterns = first & 32 != 0
        guard let peer = peers[place], !peer.isClosed else { return connect(place, &input) }
        guard peer.isReading else { return peer.read(nil) }
        act(place, action, peer, &input)
        if peer.unacknowledged > 0, !peer.isClosed { peer.acknowledge() }
    }

    private func connect(_ place: Int, _ input: inout FuzzInput) {
        let peer = HTTP2Audit(broker, place & 1)
        peers[place] = peer
        next[place] = 1
        let kind = input.byte()
        if kind == 0xFF { return peer.sendRaw(Array(input.piece())) }
        let window: UInt32 = [65_535, 0, 10, 600, 1 << 20][Int(kind) % 5]
        peer.send(preface + settings((4, window)) + (kind & 0x80 != 0 ? windowUpdate(0, 1 << 20) : []))
    }

    private func act(_ place: Int, _ action: UInt8, _ peer: HTTP2Audit, _ input: inout FuzzInput) {
        switch action {
        case 5, 6, 7: subscribe(place, peer, &input)
        case 8: publish(place, peer, &input)
        case 9: call(place, peer, &input)
        case 10, 11: get(place, peer, &input)
        case 12: post(place, peer, &input)
        case 13, 14:
            let (stream, n) = (stream(&input), UInt64(input.number(below: 9)))
            peer.write(stream, Proto.field(2, n == 8 ? 0x7FFF_FFFF : n), end: input.byte() == 0)
        case 15, 16:
            let stream = stream(&input)
            let text = Array(input.piece())
            let isFailure = text.first == 0x7E
            peer.write(stream, isFailure ? Proto.field(3, text) : Proto.field(2, Proto.field(2, text)), end: false)
        case 17: peer.write(stream(&input), Array(input.piece()), end: input.byte() == 0)
        case 18: peer.send(data(stream(&input), Array(input.piece()), end: true))
        case 19: peer.send(reset(stream(&input), UInt32(input.number(below: 14))))
        case 20: peer.send(windowUpdate(input.byte() & 1 == 0 ? 0 : stream(&input), UInt32(1 + input.u16())))
        case 21: peer.send(settings((4, UInt32(input.u16()))))
        case 22: peer.send(ping(input.byte()))
        case 23: peer.window = Int(input.byte())
        case 24: peer.read(input.byte() == 0 ? nil : Int(input.byte()) << 4)
        case 25: broker.act(peer) { shard, id, now in shard.lost(id, reason: "gone", now: now) }
        case 26: broker.act(peer) { shard, id, now in shard.receiveEnd(on: id, now: now) }
        case 27:
            let (type, flags) = (input.byte(), input.byte())
            peer.sendRaw(frame(type, flags, stream: UInt32(input.number(below: 12)), Array(input.piece())))
        case 28: pieces(place, peer, &input)
        case 29: peer.sendRaw(Array(input.piece()))
        case 31: oddCall(place, peer, &input)
        default: request(place, peer, &input)
        }
    }

    private func stream(_ input: inout FuzzInput) -> UInt32 { UInt32(1 + 2 * input.number(below: 8)) }

    private func open(_ place: Int) -> UInt32 {
        defer { next[place] += 2 }
        return next[place]
    }

    private func grpc(_ place: Int, _ peer: HTTP2Audit, _ method: GRPCMethod, _ fields: [(String, String)]) -> UInt32 {
        let stream = open(place)
        peer.open(stream, isSubscription: method == .subscribe)
        let head = [(":method", "POST"), (":scheme", "http"), (":authority", "localhost"), (":path", method.path)]
        peer.send(headers(stream, head + [("content-type", "application/grpc")] + fields))
        return stream
    }

    private func topic(_ input: inout FuzzInput) -> String {
        input.pick(isOfPatterns ? RSocketScript.patterns : RSocketScript.topics)
    }

    private func credentials(_ input: inout FuzzInput) -> [(String, String)] {
        switch input.byte() {
        case 0xF0: [("authorization", "Bearer x")]
        case 0xF1: [("authorization", "Basic bWFsbG9yeTp4")]
        case 0xF2: [("grpc-timeout", "1S")]
        case 0xF3: [("authorization", input.piece().asText.filter { $0 >= " " && $0 < "\u{7F}" })]
        default: []
        }
    }

    private func subscribe(_ place: Int, _ peer: HTTP2Audit, _ input: inout FuzzInput) {
        let topic = topic(&input)
        let n = UInt64(1 + input.number(below: 5))
        let kind = input.byte()
        var open = Proto.field(1, topic) + Proto.field(2, n == 5 ? 0x7FFF_FFFF : n)
        switch kind & 7 {
        case 1: open += Proto.field(3, UInt64(input.byte()))
        case 2: open += Proto.field(4, 1)
        case 3: open += Proto.field(5, UInt64(input.byte()))
        case 4: open += Proto.field(5, 2) + Proto.field(6, UInt64(input.byte()))
        case 5: open += Proto.field(3, 1) + Proto.field(4, 1)
        case 6: open += Proto.field(6, 1)
        default: break
        }
        open += Proto.field(8, UInt64(kind >> 3 & 7))
        if kind & 0x40 != 0 { open += Proto.field(7, UInt64(input.number(below: 5))) }
        if kind & 0x80 != 0 { open += Proto.field(9, 1) }
        if isOfPatterns {
            for position in broker.position(input.number(below: 5), &input) {
                let fields = Proto.field(2, position.epoch) + Proto.field(3, position.sequence)
                open += Proto.field(13, Proto.field(1, position.topic) + fields)
            }
        }
        let stream = grpc(place, peer, .subscribe, credentials(&input))
        peer.write(stream, Proto.field(1, open), end: input.byte() == 0xEE)
    }

    private func publish(_ place: Int, _ peer: HTTP2Audit, _ input: inout FuzzInput) {
        let topic = topic(&input)
        let stream = grpc(place, peer, .publish, credentials(&input))
        let completes = input.byte() & 1 == 0 ? [] : Proto.field(2, 1)
        peer.write(stream, Proto.field(1, Proto.field(1, topic) + completes), end: false)
    }

    private func call(_ place: Int, _ peer: HTTP2Audit, _ input: inout FuzzInput) {
        let method = GRPCMethod.allCases[input.number(below: GRPCMethod.allCases.count)]
        let topic = topic(&input)
        let stream = grpc(place, peer, method, credentials(&input))
        let text = Array(input.piece())
        let isText = input.byte() & 1 == 0
        let message = Proto.field(1, topic) + Proto.field(2, isText ? text : Proto.field(2, text))
        peer.write(stream, method == .publishOne || isText ? message : text, end: true)
    }

    /// A call with one or more messages that arrive in pieces.
    private func pieces(_ place: Int, _ peer: HTTP2Audit, _ input: inout FuzzInput) {
        let method = GRPCMethod.allCases[input.number(below: GRPCMethod.allCases.count)]
        let stream = grpc(place, peer, method, credentials(&input))
        let message = message(of: method, peer, &input)
        let kind = input.byte()
        let step = [1, 2, 4, 7, 20, 1000][Int(kind & 0x3F) % 6]
        peer.write(stream, message, end: kind & 0x40 == 0, times: kind & 0x80 == 0 ? 1 : 3, step: step)
    }

    /// Sometimes the id and number of a publisher.
    private func number(_ input: inout FuzzInput) -> [UInt8] {
        let number = input.number(below: 6)
        return number > 3 ? [] : Proto.field(3, "p") + Proto.field(4, UInt64(number))
    }

    private func message(of method: GRPCMethod, _ peer: HTTP2Audit, _ input: inout FuzzInput) -> [UInt8] {
        let topic = topic(&input)
        switch method {
        case .subscribe: return Proto.field(1, Proto.field(1, topic) + Proto.field(2, 2))
        case .publish: return Proto.field(1, Proto.field(1, topic) + Proto.field(2, 1) + number(&input))
        case .publishOne: return Proto.field(1, topic) + Proto.field(2, Proto.field(2, [1, 2, 3])) + number(&input)
        case .publisherInfo: return Proto.field(1, topic) + Proto.field(2, "p")
        case .closeConnection: return Proto.field(1, peer.name)
        case .closeSubscription: return Proto.field(1, UInt64(input.byte()))
        case .healthCheck, .healthWatch: return Proto.field(1, input.pick(["", "forebay.v1.PubSub", "none"]))
        case .reflection, .reflectionAlpha:
            let name = input.pick([
                "forebay/v1/forebay.proto", "forebay.v1.PubSub", "forebay.v1.Message", "grpc.health.v1.Health", "none",
            ])
            return switch input.number(below: 6) {
            case 0: Proto.field(3, name)
            case 1: Proto.field(4, name)
            case 2: Proto.field(5, Proto.field(1, name) + Proto.field(2, 7))
            case 3: Proto.field(6, name)
            case 4: Proto.field(7, name)
            default: Proto.field(9, name)
            }
        default: return Proto.field(1, topic)
        }
    }

    /// A call with an unusual head.
    private func oddCall(_ place: Int, _ peer: HTTP2Audit, _ input: inout FuzzInput) {
        let stream = open(place)
        peer.open(stream, isSubscription: false)
        let path = input.pick([
            GRPCMethod.publishOne.path, "/forebay.v1.PubSub/Nope", "/nope/Nope", "/", GRPCMethod.info.path,
        ])
        let kind = input.byte()
        let types = ["application/grpc", "application/grpc+proto", "application/grpc ", "application/grpc-web"]
        let field = input.pick([
            ("grpc-encoding", "gzip"), ("grpc-encoding", "identity"), ("grpc-timeout", "0S"), ("grpc-timeout", "100m"),
            ("grpc-timeout", "5H"), ("grpc-timeout", "1M"), ("grpc-timeout", "3u"), ("grpc-timeout", "99999999n"),
            ("grpc-timeout", "123456789S"), ("grpc-timeout", "S"), ("te", "trailers"), ("authorization", "Bearer x"),
        ])
        let method = kind & 1 == 0 ? "POST" : "GET"
        let head = [(":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path)]
        let fields = [("content-type", types[Int(kind >> 1) & 3]), field] + (kind & 0x80 != 0 ? [field] : [])
        peer.send(headers(stream, head + fields, end: kind & 0x40 != 0))
        if kind & 0x40 == 0 { peer.write(stream, Proto.field(1, "a"), end: kind & 0x20 == 0) }
    }

    private func get(_ place: Int, _ peer: HTTP2Audit, _ input: inout FuzzInput) {
        let stream = open(place)
        peer.open(stream, isSubscription: false)
        var path = "/v1/topics/\(topic(&input))/messages"
        path += input.pick(["", "?replay=all", "?request=2", "?request=1&buffer=1&overflow=fail", "?from=1&gap=fail"])
        let accept = input.pick(["text/event-stream", "application/x-ndjson", "*/*;q=0.1", "text/html"])
        let head = [(":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", path)]
        peer.send(headers(stream, head + [("accept", accept)] + credentials(&input), end: true))
    }

    private func post(_ place: Int, _ peer: HTTP2Audit, _ input: inout FuzzInput) {
        let stream = open(place)
        peer.open(stream, isSubscription: false)
        let isCredit = input.byte() & 3 == 0
        let path =
            isCredit
            ? "/v1/subscriptions/\(peer.subscription)/request?n=3" : "/v1/topics/\(topic(&input))/messages"
        let head = [(":method", "POST"), (":scheme", "http"), (":authority", "localhost"), (":path", path)]
        peer.send(headers(stream, head + [("forebay-header-x", "y")] + credentials(&input), end: isCredit))
        guard !isCredit else { return }
        let body = isOfPatterns ? broker.positions(&input) : Array(input.piece())
        peer.send(data(stream, body, end: input.byte() & 7 != 0))
    }

    /// Any method, path and field.
    private func request(_ place: Int, _ peer: HTTP2Audit, _ input: inout FuzzInput) {
        let stream = open(place)
        peer.open(stream, isSubscription: false)
        let (method, path) = (input.part(before: 0).asText, input.part(before: 0).asText)
        let field = (input.part(before: 0).asText, input.part(before: 0).asText)
        let kind = input.byte()
        // The library refuses a request without an authority before anything else sees it.
        let authority = kind & 2 == 0 ? [(":authority", "localhost")] : []
        let head = [(":method", method), (":scheme", "http"), (":path", path)] + authority
        peer.sendRaw(headers(stream, head + [field], end: kind & 1 == 0))
    }
}

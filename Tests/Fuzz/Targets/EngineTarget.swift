// The engine with RSocket connections. The input is a script: connections that come and go, their frames and bytes in
// any pieces, sockets that accept nothing, logins, reloads and the passing of time.

import Bytes
import RSocket

@testable import Core

func fuzzEngine(_ bytes: UnsafeRawBufferPointer) { play(bytes, by: RSocketScript.self) }

/// Turns an input into actions of the engine's peers.
protocol BrokerScript {
    init(_ broker: FuzzBroker)
    func step(_ input: inout FuzzInput)
}

/// Plays the input to a separate broker, next to a canary that must not be affected; then all peers leave.
func play(_ bytes: UnsafeRawBufferPointer, by script: (some BrokerScript).Type) {
    let broker = FuzzBroker()
    let canary = Canary(broker)
    let script = script.init(broker)
    var input = FuzzInput(bytes)
    var steps = 0
    while !input.isEmpty, steps < 120 {
        steps += 1
        script.step(&input)
        if steps % 8 == 0 { canary.sing() }
    }
    canary.sing()
    broker.leave()
}

/// Four slots for connections, two on each shard.
final class RSocketScript: BrokerScript {
    private let broker: FuzzBroker
    private var peers: [RSocketAudit?] = [nil, nil, nil, nil]
    /// The number of bytes of a write that arrive at once.
    private var step = Int.max
    /// Time is the most expensive action; a few of the broker's limits expire within this number of ticks.
    private var ticks = 80
    /// If embedded in another script: the number of following steps that belong to this one.
    private var alone = 0

    static let topics = ["a", "b", "a", "c", "a.b", "$SYS.topics", "$SYS.events", "$SYS.stats", "$SYS.connections"]
    static let options = [
        "", "?replay=all", "?replay=2", "?from=2", "?meta=on", "?meta=on&replay=all&buffer=2&overflow=drop-newest",
        "?overflow=latest", "?buffer=1&overflow=fail", "?buffer=2&overflow=block", "?buffer=3&overflow=replace-newest",
        "?demand=cumulative", "?meta=on&from=1&epoch=5&gap=tell",
    ]

    static let patterns = ["*", ">", "*", "a.*", "*.b", "$SYS.>", "**"]

    init(_ broker: FuzzBroker) { self.broker = broker }

    func step(_ input: inout FuzzInput) {
        let action = input.byte()
        let place = Int(action >> 6)
        switch action & 31 {
        case 0: pass(input.byte())
        case 1: broker.answerLogin(input.number(below: 8))
        case 2: broker.reload(Int(input.byte()))
        case 3: step = [1, 2, 5, 9, 64, .max][input.number(below: 6)]
        case 4 where input.byte() == 0xDD: broker.drain()
        default:
            guard let peer = peers[place], !peer.isClosed else { return connect(place, &input) }
            if (5...7).contains(action & 31), action & 32 != 0 { return follow(peer, &input) }
            act(action & 31, place, peer, &input)
        }
    }

    /// If embedded in another script: takes the step if it belongs to this script. Both scripts share time, logins and
    /// reloads; only this script uses the last slot.
    func takes(_ input: inout FuzzInput) -> Bool {
        let first = input.rest.first ?? 0
        if alone == 0, first == 0xFF {
            _ = input.byte()
            alone = Int(input.byte())
            return true
        }
        guard alone > 0 || first >> 6 == 3 || first & 31 < 5 else { return false }
        alone = max(0, alone - 1)
        step(&input)
        return true
    }

    private func pass(_ time: UInt8) {
        guard time < 0xFF else { return broker.standStill() }
        let count = min(1 + Int(time) % 24, ticks)
        ticks -= count
        broker.advance(count)
    }

    private func connect(_ place: Int, _ input: inout FuzzInput) {
        let peer = RSocketAudit(broker, place & 1)
        peers[place] = peer
        let kind = input.byte()
        if kind == 0xFF { return }
        var setup = SetupRequest()
        setup.lifetime = kind & 0x80 != 0 ? 2000 : 600_000
        let mimes = [MimeType.text, MimeType.compositeMetadata, MimeType.routing, MimeType.authentication]
        setup.metadataMime = mimes[Int(kind & 3)]
        guard kind & 4 != 0 else { return write(peer) { FrameWriter.setup(setup, into: &$0) } }
        let metadata = input.piece()
        write(peer) { FrameWriter.setup(setup, metadata: metadata, into: &$0) }
    }

    /// Lets a new peer with credentials take the slot, and answers the oldest login request.
    private func logIn(_ place: Int, _ answer: Int) {
        let peer = RSocketAudit(broker, place & 1)
        peers[place] = peer
        write(peer) { writeLogin("mallory", into: &$0) }
        broker.answerLogin(answer)
    }

    private func write(_ peer: RSocketAudit, _ body: (inout ByteBuffer) -> Void) {
        var out = ByteBuffer()
        body(&out)
        var rest = FuzzInput(out.readable)
        while !rest.isEmpty, !peer.isClosed {
            // What the broker does not want to read stays in the client's socket.
            guard peer.isReading else { return }
            peer.send(rest.take(step))
        }
    }

    private func act(_ action: UInt8, _ place: Int, _ peer: RSocketAudit, _ input: inout FuzzInput) {
        let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
        switch action {
        case 5...10: request(action, peer, &input)
        case 11, 12:
            let (stream, n) = (stream(&input), UInt32(input.number(below: 9)))
            write(peer) { FrameWriter.requestN(stream: stream, n: n == 8 ? Wire.maxU31 : n, into: &$0) }
        case 13:
            let stream = stream(&input)
            write(peer) { FrameWriter.cancel(stream: stream, into: &$0) }
        case 14, 15, 16:
            let stream = stream(&input)
            let count = 1 + input.number(below: 8)
            let text = input.piece()
            write(peer) { out in
                for _ in 0..<count {
                    FrameWriter.payload(
                        stream: stream, next: true, complete: false, metadata: nil, data: text, fragment: 0, into: &out)
                }
            }
        case 17:
            let stream = stream(&input)
            write(peer) {
                FrameWriter.payload(
                    stream: stream, next: false, complete: true, metadata: nil, data: nothing, fragment: 0, into: &$0)
            }
        case 18:
            let stream = stream(&input)
            write(peer) { FrameWriter.error(stream: stream, code: 0x201, message: "no", into: &$0) }
        case 19: peer.window = Int(input.byte())
        case 20: peer.read(Int(input.byte()) << 4)
        case 21: peer.read(nil)
        case 22: broker.act(peer) { shard, id, now in shard.lost(id, reason: "gone", now: now) }
        case 23: broker.act(peer) { shard, id, now in shard.receiveEnd(on: id, now: now) }
        case 24, 25, 26, 27: frame(peer, &input)
        case 29: control(peer, &input)
        case 30:
            broker.act(peer) { shard, id, now in shard.lost(id, reason: "gone", now: now) }
            logIn(place, [5, 7, 4, 0][input.number(below: 4)])
        default:
            let bytes = input.piece()
            write(peer) { $0.append(bytes) }
        }
    }

    private func stream(_ input: inout FuzzInput) -> UInt32 { UInt32(1 + 2 * input.number(below: 8)) }

    /// A request with known topics and options, or with any text.
    private func request(_ action: UInt8, _ peer: RSocketAudit, _ input: inout FuzzInput) {
        let stream = stream(&input)
        let choice = input.byte()
        var route = input.pick(RSocketScript.topics)
        switch choice & 3 {
        case 0: route += input.piece().asText
        case 1: route = "$SYS." + input.piece().asText
        default: if action < 8 { route += RSocketScript.options[Int(choice >> 2) % RSocketScript.options.count] }
        }
        if action == 9, choice & 4 != 0 { route += "?complete=true" }
        if action == 9, choice & 8 != 0 { route += "?on-loss=fail" }
        var metadata = ByteBuffer()
        if choice & 0x80 == 0 {
            metadata.append(route)
        } else {
            try? CompositeMetadata.appendRoute([route], into: &metadata)
        }
        if choice & 0xC0 == 0xC0 { CompositeMetadata.appendEntry(name: "x/y", input.take(20), into: &metadata) }
        let n = UInt32(1 + input.number(below: 4))
        let text = input.piece()
        let fragment = choice & 0x40 != 0 ? 64 : 0
        let reported = metadata.readable
        write(peer) {
            switch action {
            case 5, 6, 7:
                FrameWriter.requestStream(
                    stream: stream, initialN: n, metadata: reported, data: text, fragment: fragment, into: &$0)
            case 8:
                FrameWriter.requestResponse(
                    stream: stream, metadata: reported, data: text, fragment: fragment, into: &$0)
            case 9:
                FrameWriter.requestChannel(
                    stream: stream, initialN: n, complete: n == 4, metadata: reported, data: text, fragment: fragment,
                    into: &$0)
            default:
                FrameWriter.requestFNF(stream: stream, metadata: reported, data: text, fragment: fragment, into: &$0)
            }
        }
    }

    /// A subscription to a pattern, with positions or other data.
    private func follow(_ peer: RSocketAudit, _ input: inout FuzzInput) {
        let stream = stream(&input)
        let choice = input.byte()
        let route = input.pick(RSocketScript.patterns) + input.pick(RSocketScript.options)
        var metadata = ByteBuffer()
        if choice & 0x80 == 0 {
            metadata.append(route)
        } else {
            try? CompositeMetadata.appendRoute([route], into: &metadata)
        }
        let n = UInt32(1 + Int(choice & 3))
        broker.positions(&input).withUnsafeBytes { data in
            write(peer) {
                FrameWriter.requestStream(
                    stream: stream, initialN: n, metadata: metadata.readable, data: data,
                    fragment: choice & 0x40 != 0 ? 64 : 0, into: &$0)
            }
        }
    }

    /// A call about a topic, a subscription or a connection by its actual name, or a call for a list.
    private func control(_ peer: RSocketAudit, _ input: inout FuzzInput) {
        let stream = stream(&input)
        let choice = input.byte()
        let number = Int(input.byte())
        let topic = RSocketScript.topics[number % 5]
        let other = peers[number & 3] ?? peer
        let calls = [
            "topic.info?name=\(topic)", "topic.complete?name=\(topic)", "topic.fail?name=\(topic)&message=no",
            "topic.delete?name=\(topic)", "connection.close?id=\(other.name)", "subscription.close?id=\(number)",
            "info",
        ]
        let lists = ["subscriptions", "connections", "topics"]
        let isList = choice & 0x80 != 0
        let names = isList ? lists : calls
        withBytes("$SYS." + names[Int(choice & 0x7F) % names.count]) { route in
            let nothing = route.slice(0..<0)
            write(peer) {
                if isList {
                    FrameWriter.requestStream(
                        stream: stream, initialN: UInt32(1 + number), metadata: route, data: nothing, fragment: 0,
                        into: &$0)
                } else {
                    FrameWriter.requestResponse(stream: stream, metadata: route, data: nothing, fragment: 0, into: &$0)
                }
            }
        }
    }

    /// Any frame with a correct length.
    private func frame(_ peer: RSocketAudit, _ input: inout FuzzInput) {
        let type = input.byte()
        let stream = UInt32(input.number(below: 20))
        let flags = UInt16(input.byte()) << 2
        let body = input.piece()
        write(peer) {
            $0.append(u24: 6 + body.count)
            $0.append(bigEndian: stream)
            $0.append(bigEndian: UInt16(type & 63) << 10 | flags)
            $0.append(body)
        }
    }
}

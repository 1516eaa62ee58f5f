// GRPCWire: subscribers that call `Subscribe` of forebay.v1.PubSub over HTTP/2 without TLS, each on its own connection.
// Publishers are not part of the comparison: Forebay's uses RSocket as in the other cases, the grpcio server's a plain
// TCP connection.

struct GRPCWire: Wire {
    /// The protocol of publishers, on their own port.
    private let publishers: any Wire

    init(publishers: any Wire) { self.publishers = publishers }

    var grantsPublishers: Bool { publishers.grantsPublishers }

    /// The client's first stream.
    static let stream: UInt32 = 1
    /// How much a server may send without acknowledgement, on the stream and on the connection: enough that it never
    /// has to wait. Half of it is acknowledged at a time.
    static let window = 8 << 20
    /// The initial window of a connection (RFC 9113, 6.9.2).
    private static let initialWindow = 65_535

    func subscriber(_ subscription: Subscription) throws(BenchError) -> Greeting {
        var bytes = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
        // SETTINGS_INITIAL_WINDOW_SIZE.
        bytes += GRPCWire.frame(type: 4, stream: 0, [0, 4] + GRPCWire.bigEndian(GRPCWire.window))
        bytes += GRPCWire.windowUpdate(stream: 0, GRPCWire.window - GRPCWire.initialWindow)
        // END_HEADERS.
        bytes += GRPCWire.frame(type: 1, flags: 4, stream: GRPCWire.stream, GRPCWire.head)
        bytes += GRPCWire.message(GRPCWire.field(1, try open(subscription)))
        // This waits for nothing: a probe determines when every subscription is in effect.
        return Greeting(bytes)
    }

    func publisher(topic: Int, payload: Int) throws(BenchError) -> Greeting {
        try publishers.publisher(topic: topic, payload: payload)
    }

    func published(topic: Int, payload: Int) -> MessageFrame { publishers.published(topic: topic, payload: payload) }

    /// Responses take many forms: their messages are counted, each as its payload.
    func delivered(to subscription: Subscription, payload: Int) -> MessageFrame {
        MessageFrame(head: [], payload: payload)
    }

    func reader(payload: Int) -> (any MessageReader)? { ResponseReader(payload: payload) }

    func refill(_ subscription: Subscription, _ count: Int) -> [UInt8]? {
        GRPCWire.message([2 << 3] + GRPCWire.varint(UInt64(count)))
    }

    /// The Open message.
    private func open(_ subscription: Subscription) throws(BenchError) -> [UInt8] {
        var bytes = GRPCWire.field(1, Array(name(subscription.topic).utf8))
        let credit = subscription.window ?? Int(RSocketWire.unbounded)
        bytes += [2 << 3] + GRPCWire.varint(UInt64(credit))
        for option in subscription.options.split(separator: "&") {
            if option == "overflow=block" {
                bytes += [8 << 3, 5]
            } else if option.hasPrefix("buffer="), let buffer = UInt64(option.dropFirst("buffer=".count)) {
                bytes += [7 << 3] + GRPCWire.varint(buffer)
            } else {
                throw BenchError("the option \(option) is not supported over gRPC")
            }
        }
        return bytes
    }

    /// The header section, from the static table and from literals that are not indexed (RFC 7541, 6.2.2).
    private static let head: [UInt8] = {
        // :method POST, :scheme http, then :path, :authority and content-type by index.
        var bytes: [UInt8] = [0x83, 0x86]
        bytes += [0x04] + text("/forebay.v1.PubSub/Subscribe")
        bytes += [0x01] + text("127.0.0.1")
        bytes += [0x0f, 31 - 15] + text("application/grpc")
        return bytes + [0] + text("te") + text("trailers")
    }()

    private static func text(_ text: String) -> [UInt8] { [UInt8(text.utf8.count)] + Array(text.utf8) }

    // MARK: Frames

    /// A DATA frame with one gRPC message.
    static func message(_ bytes: [UInt8]) -> [UInt8] {
        frame(type: 0, stream: stream, [0] + bigEndian(bytes.count) + bytes)
    }

    static func windowUpdate(stream: UInt32, _ count: Int) -> [UInt8] {
        frame(type: 8, stream: stream, bigEndian(count))
    }

    static func frame(type: UInt8, flags: UInt8 = 0, stream: UInt32, _ payload: [UInt8]) -> [UInt8] {
        bigEndian(payload.count)[1...] + [type, flags] + bigEndian(Int(stream)) + payload
    }

    private static func bigEndian(_ number: Int) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
    }

    // MARK: Protobuf

    private static func field(_ number: UInt8, _ bytes: [UInt8]) -> [UInt8] {
        [number << 3 | 2] + varint(UInt64(bytes.count)) + bytes
    }

    static func varint(_ number: UInt64) -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = number
        repeat {
            bytes.append(UInt8(rest & 0x7f) | (rest > 0x7f ? 0x80 : 0))
            rest >>= 7
        } while rest > 0
        return bytes
    }
}

/// A publisher that sends payloads one after another and nothing else, for the grpcio server.
struct BareWire: Wire {
    func subscriber(_ subscription: Subscription) throws(BenchError) -> Greeting {
        throw BenchError("this protocol has no subscribers")
    }

    func publisher(topic: Int, payload: Int) -> Greeting { Greeting([]) }

    func published(topic: Int, payload: Int) -> MessageFrame { MessageFrame(head: [], payload: payload) }

    func delivered(to subscription: Subscription, payload: Int) -> MessageFrame {
        MessageFrame(head: [], payload: payload)
    }
}

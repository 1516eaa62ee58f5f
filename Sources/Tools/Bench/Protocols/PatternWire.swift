// PatternWire: many topics, in the protocols of Forebay, NATS and Redis. A publisher sends to all of its topics in turn
// on one connection; a subscriber asks for a pattern that they match or, with Forebay, for each of them.

import Bytes
import RSocket

struct PatternWire: Wire {
    enum Dialect { case rsocket, nats, redis }

    var dialect: Dialect
    /// How many topics there are.
    var topics: Int
    var interest = Interest.pattern
    /// The topic whose latencies are not measured, with a reader; without, received bytes are only counted.
    var reading: PatternReader.Ignored?

    init(_ system: System, topics: Int, _ interest: Interest, reading: PatternReader.Ignored? = nil) {
        dialect = system == .nats ? .nats : system == .redis ? .redis : .rsocket
        self.topics = topics
        self.interest = interest
        self.reading = reading
    }

    var noise: Noise? { dialect == .nats ? NATSWire().noise : nil }

    /// All names have the same length.
    static func topic(_ index: Int) -> String { "p.\(firstName + index)" }

    static let firstName = 10_000
    static let nameSize = "p.10000".utf8.count
    private static let pattern = "p.>"
    /// Nothing is dropped: the generator does not let subscribers fall behind. A pattern cannot hold publishers back.
    static let unlimited = "overflow=drop-oldest&buffer=1000000"

    func subscriber(_ subscription: Subscription) throws(BenchError) -> Greeting {
        switch dialect {
        case .rsocket:
            let routes = interest == .pattern ? [PatternWire.pattern] : (0..<topics).map(PatternWire.topic)
            let suffix = "?" + subscription.options + (interest == .topicsMeta ? "&meta=on" : "")
            return try RSocketWire().streams(routes.map { $0 + suffix }, window: subscription.window)
        case .nats:
            var greeting = NATSWire().subscriber(subscription)
            greeting.bytes = Array((NATSWire.connect + "SUB \(PatternWire.pattern) 1\r\n").utf8)
            return greeting
        case .redis:
            return Greeting(RedisWire.command(["PSUBSCRIBE", "p.*"]), sign: Array("$3\r\np.*\r\n:1\r\n".utf8))
        }
    }

    func publisher(topic: Int, payload: Int) -> Greeting {
        switch dialect {
        case .rsocket: RSocketWire().connection()
        case .nats: NATSWire().publisher(topic: topic, payload: payload)
        case .redis: RedisWire().publisher(topic: topic, payload: payload)
        }
    }

    func published(topic: Int, payload: Int) -> MessageFrame {
        let name = PatternWire.topic(topic)
        switch dialect {
        case .rsocket: return RSocketWire.fired(topic: name, payload: payload)
        case .nats:
            return MessageFrame(head: Array("PUB \(name) \(payload)\r\n".utf8), payload: payload, tail: [13, 10])
        case .redis:
            let head = "*3\r\n$7\r\nPUBLISH\r\n$\(name.utf8.count)\r\n\(name)\r\n$\(payload)\r\n"
            return MessageFrame(head: Array(head.utf8), payload: payload, tail: [13, 10])
        }
    }

    func delivered(to subscription: Subscription, payload: Int) -> MessageFrame {
        let name = PatternWire.topic(0)
        let head: String
        switch dialect {
        case .rsocket:
            switch interest {
            case .pattern: return RSocketWire.described(payload: payload, topic: name)
            case .topicsMeta: return RSocketWire.described(payload: payload)
            case .topics:
                var frame = RSocketWire().delivered(to: subscription, payload: payload)
                frame.varying = [RSocketWire.streamPlace]
                return frame
            }
        case .nats: head = "MSG \(name) 1 \(payload)\r\n"
        case .redis: head = "*4\r\n$8\r\npmessage\r\n$3\r\np.*\r\n$\(name.utf8.count)\r\n\(name)\r\n$\(payload)\r\n"
        }
        var frame = MessageFrame(head: Array(head.utf8), payload: payload, tail: [13, 10])
        // The name's digits.
        let place = frame.head.firstRange(of: Array(name.utf8)) ?? 0..<0
        frame.varying = [(place.lowerBound + 2)..<place.upperBound]
        return frame
    }

    func reader(payload: Int) -> (any MessageReader)? {
        reading.map { PatternReader(delivered(to: Subscription(), payload: payload), topics: topics, ignoring: $0) }
    }

    func refill(_ subscription: Subscription, _ count: Int) -> [UInt8]? {
        dialect == .rsocket ? RSocketWire().refill(subscription, count) : nil
    }
}

extension RSocketWire {
    /// The bytes of a frame that hold its stream id.
    static let streamPlace = 3..<7

    /// A subscription for each of these routes, on one connection.
    func streams(_ routes: [String], window: Int? = nil) throws(BenchError) -> Greeting {
        var out = ByteBuffer()
        setup(&out)
        for (index, text) in routes.enumerated() {
            let route = try RSocketWire.route(text)
            FrameWriter.requestStream(
                stream: 1 + 2 * UInt32(index), initialN: window.map(UInt32.init) ?? RSocketWire.unbounded,
                metadata: route.readable, data: RSocketWire.nothing, fragment: 0, into: &out)
        }
        return RSocketWire.answered(out)
    }

    /// A message to each of these topics.
    func messages(to topics: [String], payload: Int) -> Greeting {
        var out = ByteBuffer()
        setup(&out)
        for topic in topics { out.append(RSocketWire.fired(topic: topic, payload: payload).bytes) }
        return RSocketWire.answered(out)
    }

    private static let figuresName = "application/vnd.forebay.message"
    private static let topicName = "application/vnd.forebay.topic"

    /// A message with metadata, as a subscriber with meta=on receives it.
    /// - Parameter topic: in a subscription to a pattern, the topic's name.
    static func described(payload: Int, topic: String? = nil) -> MessageFrame {
        var metadata = entry(figuresName, [UInt8](repeating: 0, count: 32))
        if let topic { metadata += entry(topicName, Array(topic.utf8)) }
        var out = ByteBuffer()
        let data = [UInt8](repeating: 0, count: payload)
        metadata.withUnsafeBytes { metadata in
            data.withUnsafeBytes {
                FrameWriter.payload(
                    stream: stream, next: true, complete: false, metadata: metadata, data: $0, fragment: 0, into: &out)
            }
        }
        var frame = MessageFrame(head: Array(out.readable.dropLast(payload)), payload: payload)
        frame.varying = [streamPlace, figures(in: frame)]
        // The name's digits.
        if let topic { frame.varying.append((frame.head.count - topic.utf8.count + 2)..<frame.head.count) }
        return frame
    }

    /// The place of the 32 bytes of figures in a message with metadata.
    static func figures(in frame: MessageFrame) -> Range<Int> {
        let name = frame.head.firstRange(of: Array(figuresName.utf8)) ?? 0..<0
        return (name.upperBound + 3)..<(name.upperBound + 3 + 32)
    }

    private static func entry(_ name: String, _ content: [UInt8]) -> [UInt8] {
        [UInt8(name.utf8.count - 1)] + Array(name.utf8) + [0, 0, UInt8(content.count)] + content
    }
}

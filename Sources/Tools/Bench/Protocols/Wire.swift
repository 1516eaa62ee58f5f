// Wire: what a protocol looks like to the load generator, as bytes made beforehand. While a figure is taken a publisher
// sends copies of one frame and a subscriber counts bytes, whatever the protocol is. Only credits (RSocket),
// acknowledgements and responses (gRPC), which hold as many messages as the server likes, are read.

/// What is said first on a connection, and the bytes at the end of the answer that tell that it took effect.
struct Greeting: Equatable {
    var bytes: [UInt8]
    /// What has no purpose but to be answered.
    var question: [UInt8]
    /// Empty when there is nothing to wait for.
    var sign: [UInt8]

    init(_ bytes: [UInt8], question: [UInt8] = [], sign: [UInt8] = []) {
        self.bytes = bytes
        self.question = question
        self.sign = sign
    }

    /// The same without waiting for it to take effect.
    var unanswered: Greeting { Greeting(bytes) }
}

/// A message on the wire. Its size is the same for every message of a case, so that bytes count messages.
struct MessageFrame: Equatable {
    var head: [UInt8]
    var payload: Int
    var tail: [UInt8]

    init(head: [UInt8], payload: Int, tail: [UInt8] = []) {
        self.head = head
        self.payload = payload
        self.tail = tail
    }

    var size: Int { head.count + payload + tail.count }

    /// The frame around a payload of one repeated byte.
    var bytes: [UInt8] { head + [UInt8](repeating: UInt8(ascii: "x"), count: payload) + tail }
}

/// Something that the broker may put between messages unasked, known by its first byte: NATS's PING.
struct Noise: Equatable {
    var first: UInt8
    var count: Int
}

/// One subscription of a case.
struct Subscription: Equatable {
    var topic = 0
    /// RSocket: the id of its stream.
    var stream: UInt32 = 1
    /// RSocket and gRPC: messages asked for at a time, refilled when half are used; nil asks for all.
    var window: Int?
    /// RSocket and gRPC: options, as in an RSocket route.
    var options = Subscription.unlimited

    /// What a throughput case subscribes with: nothing is dropped, publishers are held back before it would be.
    static let unlimited = "overflow=block&buffer=1000000"
}

/// A protocol of a pub/sub system.
protocol Wire {
    var noise: Noise? { get }
    /// The broker grants each message of a publisher, beginning with the second.
    var grantsPublishers: Bool { get }
    /// What a subscriber receives is read by a `ResponseReader`: its bytes do not tell how many messages they are.
    var answersWithResponses: Bool { get }

    func subscriber(_ subscription: Subscription) throws(BenchError) -> Greeting
    func publisher(topic: Int, payload: Int) throws(BenchError) -> Greeting
    func published(topic: Int, payload: Int) -> MessageFrame
    func delivered(to subscription: Subscription, payload: Int) -> MessageFrame
    /// What asks for `count` more messages; nil where everything is sent unasked.
    func refill(_ subscription: Subscription, _ count: Int) -> [UInt8]?
}

extension Wire {
    var noise: Noise? { nil }
    var grantsPublishers: Bool { false }
    var answersWithResponses: Bool { false }

    func refill(_ subscription: Subscription, _ count: Int) -> [UInt8]? { nil }

    /// Every name of a topic has the same length.
    func name(_ topic: Int) -> String { "bench\(topic)" }
}

/// Why a figure could not be taken.
struct BenchError: Error, CustomStringConvertible {
    var description: String

    init(_ description: String) { self.description = description }
}

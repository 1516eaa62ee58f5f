// Wire: a protocol as the load generator sees it: bytes prepared in advance. During a measurement a publisher sends
// copies of one frame and a subscriber counts bytes, in any protocol. Only credit (RSocket), acknowledgements, and
// responses with any number of messages (gRPC) are parsed.

/// What is sent first on a connection, and the bytes at the end of the response that confirm it.
struct Greeting: Equatable {
    var bytes: [UInt8]
    /// A request whose only purpose is its response.
    var question: [UInt8]
    /// Empty if there is nothing to wait for.
    var sign: [UInt8]

    init(_ bytes: [UInt8], question: [UInt8] = [], sign: [UInt8] = []) {
        self.bytes = bytes
        self.question = question
        self.sign = sign
    }

    /// The same greeting, without waiting for confirmation.
    var unanswered: Greeting { Greeting(bytes) }
}

/// A message on the wire. All messages of a case have the same size, so that bytes can be converted to messages.
struct MessageFrame: Equatable {
    var head: [UInt8]
    var payload: Int
    var tail: [UInt8]
    /// Places in `head` whose bytes differ between messages.
    var varying: [Range<Int>] = []

    init(head: [UInt8], payload: Int, tail: [UInt8] = []) {
        self.head = head
        self.payload = payload
        self.tail = tail
    }

    var size: Int { head.count + payload + tail.count }

    /// The frame around a payload of one repeated byte.
    var bytes: [UInt8] { head + [UInt8](repeating: UInt8(ascii: "x"), count: payload) + tail }
}

/// Something that the broker may send unasked between messages, identified by its first byte: NATS's PING.
struct Noise: Equatable {
    var first: UInt8
    var count: Int
}

/// One subscription of a case.
struct Subscription: Equatable {
    var topic = 0
    /// RSocket: the stream id.
    var stream: UInt32 = 1
    /// RSocket and gRPC: messages requested at a time, refilled when half are used; nil for unbounded credit.
    var window: Int?
    /// RSocket and gRPC: options, as in an RSocket route.
    var options = Subscription.unlimited

    /// The options in throughput cases: nothing is dropped, because publishers are held back first.
    static let unlimited = "overflow=block&buffer=1000000"
}

/// A protocol of a pub/sub system.
protocol Wire {
    var noise: Noise? { get }
    /// Whether the broker grants each message of a publisher, starting with the second.
    var grantsPublishers: Bool { get }

    func subscriber(_ subscription: Subscription) throws(BenchError) -> Greeting
    func publisher(topic: Int, payload: Int) throws(BenchError) -> Greeting
    func published(topic: Int, payload: Int) -> MessageFrame
    func delivered(to subscription: Subscription, payload: Int) -> MessageFrame
    /// Reads what a subscriber receives if its bytes are not proportional to messages; otherwise nil.
    func reader(payload: Int) -> (any MessageReader)?
    /// A request for `count` more messages; nil if the broker sends everything without requests.
    func refill(_ subscription: Subscription, _ count: Int) -> [UInt8]?
}

extension Wire {
    var noise: Noise? { nil }
    var grantsPublishers: Bool { false }

    func reader(payload: Int) -> (any MessageReader)? { nil }
    func refill(_ subscription: Subscription, _ count: Int) -> [UInt8]? { nil }

    /// All topic names have the same length.
    func name(_ topic: Int) -> String { "bench\(topic)" }
}

/// Finds messages in what a subscriber receives.
protocol MessageReader {
    /// Bytes to send to the broker.
    var replies: [UInt8] { get }
    /// Messages that the broker reported as dropped.
    var dropped: Int { get }

    /// Parses bytes from the socket; returns how many messages they complete. With `comparing`, which may only change
    /// between messages, their payloads must equal those of `MessageFrame.bytes`.
    ///
    /// - Parameter found: called with the first eight bytes of each payload, unless the reader does not read these.
    mutating func take(
        _ bytes: UnsafeRawBufferPointer, comparing: Bool, _ found: (_ stamp: UInt64) -> Void
    ) throws(BenchError) -> Int
    /// Removes the replies, which have been sent.
    mutating func clearReplies()
}

extension MessageReader {
    var dropped: Int { 0 }
}

/// Why a measurement failed.
struct BenchError: Error, CustomStringConvertible {
    var description: String

    init(_ description: String) { self.description = description }
}

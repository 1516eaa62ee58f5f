// ClientConnection: what a client can ask of a broker, whatever protocol they speak. No I/O and no clock: who owns a
// connection carries its bytes (Link does), and pulls what came.
//
//     bytes read ──► space, arrived ──► next() ──► events, one at a time
//     requests, credit, cancel ──► output ──► bytes to write
//
// RSocketConnection and GRPCConnection are the two there are.

import ForebayWire
import RSocket

/// One connection to a broker, owned by one thread. Each request has a stream; what comes on it names it. What concerns
/// a stream that is not open any more is ignored.
///
/// Events are pulled, so that a user who cannot take more stops pulling; the driver stops reading, and the broker is
/// held up by TCP, or by the windows of HTTP/2: what was not pulled is not acknowledged.
public protocol ClientConnection: AnyObject {
    // MARK: Requests

    /// Subscribes to a topic with credit for `n` messages, 1 to 2³¹−1; 2³¹−1 is unbounded. `.message`s come, then
    /// `.completed` or `.failed`.
    func subscribe(_ topic: String, _ options: SubscribeOptions, n: UInt32) throws(ClientError) -> StreamID

    /// Publishes one message: `.acknowledged` and `.completed`, or `.failed`.
    /// - Parameter properties: go with it; they are valid.
    func publish(
        _ topic: String, _ payload: UnsafeRawBufferPointer, _ properties: MessageProperties
    ) throws(ClientError) -> StreamID

    /// Opens a publishing stream: `first` is sent at once, the next ones with `send` as `.granted` credit allows.
    ///
    /// - Parameters:
    ///   - properties: go with `first`; they are valid.
    ///   - completesTopic: its end is the topic's.
    ///   - isOnly: `first` is all there is to send.
    ///   - acknowledged: `.acknowledged` is wanted as messages are accepted. Their end, `.completed`, acknowledges all.
    func openChannel(
        _ topic: String, completesTopic: Bool, first: UnsafeRawBufferPointer, _ properties: MessageProperties,
        isOnly: Bool, acknowledged: Bool
    ) throws(ClientError) -> StreamID

    /// Asks for something that has one answer, a JSON object: `.message` and `.completed`, or `.failed`.
    func call(_ call: ControlCall) throws(ClientError) -> StreamID

    /// Asks for a list: a `.message` for each row, a JSON object, then `.completed`. `n` as in `subscribe`; gRPC's
    /// lists know no credit and take no notice of it.
    func list(_ list: BrokerList, n: UInt32) throws(ClientError) -> StreamID

    /// Streams that may be open at a time, by this side's limits and the broker's settings. Over HTTP/2 a request above
    /// the broker's setting waits until another one has ended.
    var streamLimit: Int { get }

    // MARK: Credit, items, ends

    /// Gives a subscription `n` more credit, 1 to 2³¹−1.
    func requestN(_ id: StreamID, _ n: UInt32)

    /// Messages that the broker may still send; 2³¹−1 is unbounded, 0 also stands for a stream that has ended.
    func outstanding(on id: StreamID) -> UInt32

    /// Items that may be sent now on a channel; 2³¹−1 is unbounded, 0 also stands for a channel that has ended.
    func credit(of id: StreamID) -> UInt32

    /// Sends a message on a channel, for one credit of the broker's; false when there is none, and then nothing is
    /// sent.
    /// - Parameter properties: go with it; they are valid.
    func send(_ id: StreamID, _ payload: UnsafeRawBufferPointer, _ properties: MessageProperties) -> Bool

    /// Ends our half of a channel. `.completed` follows when everything is acknowledged.
    func complete(_ id: StreamID)

    /// Gives a stream up: no event of it follows.
    func cancel(_ id: StreamID)

    /// Asks the broker to answer, with `data` (at most 1 KiB) in `.pong`.
    func ping(_ data: UnsafeRawBufferPointer, now: UInt64) throws(ClientError)

    // MARK: What came

    /// The next event; nil when there is none in what has arrived.
    /// - Throws: what the connection dies of, now and at every call after it.
    func next() throws(ClientError) -> ClientEvent?

    // MARK: Bytes and time, for the driver. Times are nanoseconds of one clock that never steps back.

    /// Where `count` bytes can be read to; follow it with `arrived`.
    func space(_ count: Int) -> UnsafeMutableRawPointer

    /// `count` bytes were read to `space`.
    func arrived(_ count: Int, now: UInt64)

    /// The other side will send nothing more: what the connection dies of.
    func receiveEnd() -> ClientError

    /// Bytes to write; none when there is nothing to write for now. Valid until the next call.
    func output() -> UnsafeRawBufferPointer

    /// The first `count` bytes of `output` were written.
    func written(_ count: Int)

    /// Bytes of `output`, and of messages that wait for the broker to take them.
    var queued: Int { get }

    /// Bytes of `output` are there: the socket did not take all of them.
    var hasOutput: Bool { get }

    /// Nothing can be written any more.
    func discardOutput()

    /// When `fire`, and then `next`, is to be called at the latest.
    var deadline: UInt64 { get }

    /// Sends signs of life that are due, and gives up on a broker that was silent for the lifetime.
    func fire(now: UInt64) throws(ClientError)

    /// The driver stops reading, or goes on. While it does not read, silence is its own doing.
    func setReading(_ reading: Bool, now: UInt64)
}

extension ClientConnection {
    /// Publishes one message that nothing goes with.
    public func publish(_ topic: String, _ payload: UnsafeRawBufferPointer) throws(ClientError) -> StreamID {
        try publish(topic, payload, MessageProperties())
    }

    /// Opens a publishing stream with a message that nothing goes with.
    public func openChannel(
        _ topic: String, completesTopic: Bool, first: UnsafeRawBufferPointer, isOnly: Bool, acknowledged: Bool
    ) throws(ClientError) -> StreamID {
        try openChannel(
            topic, completesTopic: completesTopic, first: first, MessageProperties(), isOnly: isOnly,
            acknowledged: acknowledged)
    }

    /// Sends a message that nothing goes with on a channel.
    public func send(_ id: StreamID, _ payload: UnsafeRawBufferPointer) -> Bool {
        send(id, payload, MessageProperties())
    }
}

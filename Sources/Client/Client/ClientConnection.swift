// ClientConnection: what a client can ask of a broker, whatever the protocol. It has no I/O and no clock: its owner
// (usually Link) transports its bytes and pulls its events.
//
//     bytes read ──► space, arrived ──► next() ──► events, one at a time
//     requests, credit, cancel ──► output ──► bytes to write
//
// RSocketConnection and GRPCConnection implement it.

import ForebayWire
import RSocket

/// One connection to a broker, owned by one thread. Each request has a stream, whose id its events carry. Calls for a
/// stream that is no longer open are ignored.
///
/// Events are pulled. A caller that cannot take more stops pulling, the driver stops reading, and TCP or HTTP/2's
/// windows hold the broker back: events that were not pulled are not acknowledged.
public protocol ClientConnection: AnyObject {
    // MARK: Requests

    /// Subscribes to a topic, or to a pattern, with credit for `n` messages, 1 to 2³¹−1; 2³¹−1 is unbounded. Events are
    /// `.message`s, then `.completed` or `.failed`.
    func subscribe(_ topic: String, _ options: SubscribeOptions, n: UInt32) throws(ClientError) -> StreamID

    /// Publishes one message. Events are `.acknowledged` and `.completed`, or `.failed`.
    /// - Parameters:
    ///   - properties: content type and headers of the message; must be valid.
    ///   - number: the publisher's id and the message's number, if messages are numbered.
    func publish(
        _ topic: String, _ payload: UnsafeRawBufferPointer, _ properties: MessageProperties, number: PublisherNumber?
    ) throws(ClientError) -> StreamID

    /// Opens a publishing stream: `first` is sent at once, further messages with `send` as `.granted` credit allows.
    ///
    /// - Parameters:
    ///   - properties: content type and headers of `first`; must be valid.
    ///   - completesTopic: the end of the stream completes the topic.
    ///   - isOnly: `first` is the only message.
    ///   - acknowledged: report `.acknowledged` as messages are accepted. The final `.completed` acknowledges all.
    ///   - number: the publisher's id and the number of `first`, if messages are numbered.
    func openChannel(
        _ topic: String, completesTopic: Bool, first: UnsafeRawBufferPointer, _ properties: MessageProperties,
        isOnly: Bool, acknowledged: Bool, number: PublisherNumber?
    ) throws(ClientError) -> StreamID

    /// Makes a request with one response, a JSON object: `.message` and `.completed`, or `.failed`.
    func call(_ call: ControlCall) throws(ClientError) -> StreamID

    /// Requests a list: a `.message` for each row, a JSON object, then `.completed`. `n` as in `subscribe`; gRPC's
    /// lists have no credit and ignore it.
    func list(_ list: BrokerList, n: UInt32) throws(ClientError) -> StreamID

    /// The number of concurrent streams allowed by this side's limits and the broker's settings. Over HTTP/2, a request
    /// above the broker's setting waits until another request has ended.
    var streamLimit: Int { get }

    // MARK: Credit, items, ends

    /// Gives a subscription `n` more credit, 1 to 2³¹−1.
    func requestN(_ id: StreamID, _ n: UInt32)

    /// Messages that the broker may still send; 2³¹−1 is unbounded, 0 includes a stream that has ended.
    func outstanding(on id: StreamID) -> UInt32

    /// Messages that may be sent now on a channel; 2³¹−1 is unbounded, 0 includes a channel that has ended.
    func credit(of id: StreamID) -> UInt32

    /// Sends a message on a channel, using one credit from the broker. Returns false, without sending the message, if
    /// there is no credit.
    /// - Parameter properties: content type and headers of the message; must be valid.
    func send(_ id: StreamID, _ payload: UnsafeRawBufferPointer, _ properties: MessageProperties) -> Bool

    /// Ends our half of a channel. `.completed` follows when all messages are acknowledged.
    func complete(_ id: StreamID)

    /// Cancels a stream: no further event of it follows.
    func cancel(_ id: StreamID)

    /// Asks the broker to answer; `.pong` then carries `data` (at most 1 KiB).
    func ping(_ data: UnsafeRawBufferPointer, now: UInt64) throws(ClientError)

    // MARK: Events

    /// The next event; nil if the received bytes contain none.
    /// - Throws: the error that ended the connection, from this call on.
    func next() throws(ClientError) -> ClientEvent?

    // MARK: Bytes and time, for the driver. Times are nanoseconds of one monotonic clock.

    /// Where to read `count` bytes to; call `arrived` afterwards.
    func space(_ count: Int) -> UnsafeMutableRawPointer

    /// Reports that `count` bytes have been read to `space`.
    func arrived(_ count: Int, now: UInt64)

    /// Reports that the other side will send nothing more. Returns the error that ends the connection.
    func receiveEnd() -> ClientError

    /// Bytes to write; empty if there is nothing to write for now. Valid until the next call.
    func output() -> UnsafeRawBufferPointer

    /// Reports that the first `count` bytes of `output` have been written.
    func written(_ count: Int)

    /// Bytes of `output`, and of messages waiting for the broker to take them.
    var queued: Int { get }

    /// Whether `output` has bytes that the socket has not taken.
    var hasOutput: Bool { get }

    /// Drops the output, because nothing more can be written.
    func discardOutput()

    /// The latest time to call `fire`, and then `next`.
    var deadline: UInt64 { get }

    /// Sends due keepalives, and gives up on a broker that has been silent for the lifetime.
    func fire(now: UInt64) throws(ClientError)

    /// Reports that the driver stops or resumes reading. While it does not read, the broker's silence is not counted.
    func setReading(_ reading: Bool, now: UInt64)
}

extension ClientConnection {
    /// Publishes one message without content type and headers.
    public func publish(_ topic: String, _ payload: UnsafeRawBufferPointer) throws(ClientError) -> StreamID {
        try publish(topic, payload, MessageProperties(), number: nil)
    }

    /// Opens a publishing stream with a message without content type and headers.
    public func openChannel(
        _ topic: String, completesTopic: Bool, first: UnsafeRawBufferPointer, isOnly: Bool, acknowledged: Bool
    ) throws(ClientError) -> StreamID {
        try openChannel(
            topic, completesTopic: completesTopic, first: first, MessageProperties(), isOnly: isOnly,
            acknowledged: acknowledged, number: nil)
    }

    /// Sends a message without content type and headers on a channel.
    public func send(_ id: StreamID, _ payload: UnsafeRawBufferPointer) -> Bool {
        send(id, payload, MessageProperties())
    }
}

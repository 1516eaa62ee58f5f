// RSocketConnection: maps a client's requests to RSocket: routes with options, and interaction models.

import Bytes
import ForebayWire
import RSocket

/// A connection that speaks RSocket 1.0.
public final class RSocketConnection: ClientConnection {
    private var requester: RSocketRequester

    /// Begins a connection. `now` is monotonic time in nanoseconds.
    public init(credentials: Credentials? = nil, limits: ClientLimits = ClientLimits(), now: UInt64) {
        requester = RSocketRequester(credentials: credentials, limits: limits, now: now)
    }

    // MARK: Requests

    public func subscribe(_ topic: String, _ options: SubscribeOptions, n: UInt32) throws(ClientError) -> StreamID {
        var data = ByteBuffer()
        if !options.positions.isEmpty { ResumePosition.append(options.positions, to: &data) }
        return try requester.requestStream(
            options.route(to: topic), n: n, data: data.readable, opens: options.opening,
            ofPattern: TopicName.isPattern(topic))
    }

    public func publish(
        _ topic: String, _ payload: UnsafeRawBufferPointer, _ properties: MessageProperties, number: PublisherNumber?
    ) throws(ClientError) -> StreamID {
        try requester.request(
            Route(topic, options: number?.options ?? []), data: payload, answers: .acknowledgements,
            properties: properties)
    }

    /// Opens a publishing stream. Acknowledgements need credit from us. Only one is outstanding at a time, so that they
    /// are conflated instead of being sent for each message.
    public func openChannel(
        _ topic: String, completesTopic: Bool, first: UnsafeRawBufferPointer, _ properties: MessageProperties,
        isOnly: Bool, acknowledged: Bool, number: PublisherNumber?
    ) throws(ClientError) -> StreamID {
        let ending: [(name: String, value: String)] = completesTopic ? [("complete", "true")] : []
        let route = Route(topic, options: ending + (number?.options ?? []))
        return try requester.requestChannel(
            route, n: 1, data: first, complete: isOnly,
            answers: acknowledged ? .allAcknowledgements : .acknowledgements, properties: properties)
    }

    public func call(_ call: ControlCall) throws(ClientError) -> StreamID {
        let route = call.route
        if route.tags != nil { return try requester.request(route, data: Frames.nothing) }
        // Options that no tag can hold go into the data.
        var data = ByteBuffer()
        data.append(route.query)
        return try requester.request(Route(route.name), data: data.readable)
    }

    public func list(_ list: BrokerList, n: UInt32) throws(ClientError) -> StreamID {
        try requester.requestStream(Route(list.rawValue), n: n)
    }

    public var streamLimit: Int { requester.limits.streams }

    // MARK: Credit, items, ends

    public func requestN(_ id: StreamID, _ n: UInt32) { requester.requestN(id, n) }
    public func outstanding(on id: StreamID) -> UInt32 { requester.outstanding(on: id) }
    public func credit(of id: StreamID) -> UInt32 { requester.credit(of: id) }
    public func send(_ id: StreamID, _ payload: UnsafeRawBufferPointer, _ properties: MessageProperties) -> Bool {
        requester.send(id, data: payload, properties: properties)
    }
    public func complete(_ id: StreamID) { requester.complete(id) }
    public func cancel(_ id: StreamID) { requester.cancel(id) }

    /// Sends a ping. Uses KEEPALIVE, which the broker answers ahead of all data.
    public func ping(_ data: UnsafeRawBufferPointer, now: UInt64) { requester.ping(data, now: now) }

    // MARK: Events

    public func next() throws(ClientError) -> ClientEvent? { try requester.next() }

    // MARK: Bytes and time

    public func space(_ count: Int) -> UnsafeMutableRawPointer { requester.input.reserve(count) }

    public func arrived(_ count: Int, now: UInt64) {
        requester.input.commit(count)
        requester.heard(now: now)
    }

    public func receiveEnd() -> ClientError { requester.receiveEnd() }
    public func output() -> UnsafeRawBufferPointer { requester.output.readable }
    public func written(_ count: Int) { requester.output.consume(count) }
    public func discardOutput() { requester.output.removeAll() }
    public var queued: Int { requester.output.count }
    public var hasOutput: Bool { !requester.output.isEmpty }
    public var deadline: UInt64 { requester.deadline }
    public func fire(now: UInt64) throws(ClientError) { try requester.fire(now: now) }
    public func setReading(_ reading: Bool, now: UInt64) { requester.setReading(reading, now: now) }
}

extension SubscribeOptions {
    /// The route for a topic with these options.
    func route(to topic: String) -> Route {
        var options: [(name: String, value: String)] = []
        switch start {
        case .next: break
        case .last(let count): options.append(("replay", String(count)))
        case .all: options.append(("replay", "all"))
        case .from(let sequence, let epoch):
            options.append(("from", String(sequence)))
            if let epoch { options.append(("epoch", String(epoch))) }
        case .since(let time): options.append(("since", time.description))
        }
        if let buffer { options.append(("buffer", String(buffer))) }
        if let overflow { options.append(("overflow", overflow.name)) }
        if let gap { options.append(("gap", gap.rawValue)) }
        if meta { options.append(("meta", "on")) }
        if opening { options.append(("opening", "on")) }
        return Route(topic, options: options)
    }
}

extension PublisherNumber {
    /// The options of a route.
    var options: [(name: String, value: String)] { [("publisher", publisher), ("number", String(number))] }
}

extension ControlCall {
    /// The call as a route; its `tags` is nil if a name or message is longer than a tag can hold.
    public var route: Route {
        Route(name.rawValue, options: options)
    }

    private var options: [(name: String, value: String)] {
        switch self {
        case .info: []
        case .topicInfo(let topic), .completeTopic(let topic), .deleteTopic(let topic): [("name", topic)]
        case .failTopic(let topic, let message): [("name", topic)] + (message.map { [("message", $0)] } ?? [])
        case .closeConnection(let id): [("id", id)]
        case .closeSubscription(let id): [("id", String(id))]
        case .publisherInfo(let topic, let publisher): [("topic", topic), ("publisher", publisher)]
        }
    }
}

// ConnectionStreams: the objects bound to the streams of a connection, and those that wait for output space.

/// Unordered: removing a stream moves the last one into its place.
struct ConnectionStreams: RandomAccessCollection {
    private var streams: [BoundStream] = []
    /// Publishing channels.
    private(set) var channels: [Publisher] = []
    private(set) var subscriptions = 0
    /// Lists in progress. A list that ends while its page is being fetched counts until the page arrives.
    var listCount = 0

    var startIndex: Int { 0 }
    var endIndex: Int { streams.count }
    subscript(place: Int) -> BoundStream { streams[place] }

    mutating func add(_ stream: BoundStream) {
        stream.place = streams.count
        streams.append(stream)
        if stream.isSubscription { subscriptions += 1 }
    }

    mutating func remove(_ stream: BoundStream) {
        assert(streams[stream.place] === stream)
        let last = streams.removeLast()
        if last !== stream {
            streams[stream.place] = last
            last.place = stream.place
        }
        if stream.isSubscription { subscriptions -= 1 }
    }

    mutating func add(channel publisher: Publisher) {
        publisher.channelPlace = channels.count
        channels.append(publisher)
    }

    mutating func remove(channel publisher: Publisher) {
        assert(channels[publisher.channelPlace] === publisher)
        let last = channels.removeLast()
        if last !== publisher {
            channels[publisher.channelPlace] = last
            last.channelPlace = publisher.channelPlace
        }
    }

    mutating func removeAll() { streams.removeAll() }
}

/// What waits for output space.
struct OutputWaiters {
    /// Subscribers with messages to hand over, in order.
    private var outputWaiters = TurnQueue<Subscriber>()
    /// Lists with rows and credit.
    private var waitingLists: [ListStream] = []
    /// Whether acknowledgements wait until the peer has read earlier ones.
    var hasUnsent = false

    @inline(__always)
    var isEmpty: Bool { !hasUnsent && outputWaiters.isEmpty && waitingLists.isEmpty }
    var outputWaiterCount: Int { outputWaiters.count }
    var listCount: Int { waitingLists.count }

    mutating func add(outputWaiter subscriber: Subscriber) {
        assert(!subscriber.isWaitingForOutput)
        subscriber.outputTurn = outputWaiters.append(subscriber)
    }

    /// Removes a subscriber that waits for output space.
    mutating func remove(outputWaiter subscriber: Subscriber) {
        guard let turn = subscriber.outputTurn else { return }
        subscriber.outputTurn = nil
        outputWaiters.withdraw(turn)
    }

    /// The subscriber at the head of the queue.
    mutating func nextOutputWaiter() -> Subscriber? {
        let subscriber = outputWaiters.popFirst()
        subscriber?.outputTurn = nil
        return subscriber
    }

    func forEachOutputWaiter(_ body: (Subscriber) -> Void) { outputWaiters.forEach(body) }

    mutating func add(_ listStream: ListStream) { waitingLists.append(listStream) }

    mutating func remove(_ listStream: ListStream) { waitingLists.removeAll { $0 === listStream } }

    mutating func takeLists() -> [ListStream] {
        defer { waitingLists.removeAll() }
        return waitingLists
    }

    /// Removes everything, because subscribers and lists refer back to the connection.
    mutating func removeAll() {
        outputWaiters.removeAll()
        waitingLists.removeAll()
    }
}

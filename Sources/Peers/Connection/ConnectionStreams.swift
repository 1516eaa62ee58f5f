// ConnectionStreams: the objects bound to the streams of a connection, and those of them that wait for output space.

/// Unordered: removing a stream moves the last one into its place.
struct ConnectionStreams: RandomAccessCollection {
    private var streams: [BoundStream] = []
    /// Publishing channels.
    private(set) var channels: [Publisher] = []
    private(set) var subscriptions = 0
    /// Lists in progress. One that ends while a page is being fetched for it counts until the page arrives.
    var listings = 0

    var startIndex: Int { 0 }
    var endIndex: Int { streams.count }
    subscript(place: Int) -> BoundStream { streams[place] }

    mutating func add(_ stream: BoundStream) {
        stream.place = streams.count
        streams.append(stream)
        if stream.kind == .subscriber { subscriptions += 1 }
    }

    mutating func remove(_ stream: BoundStream) {
        assert(streams[stream.place] === stream)
        let last = streams.removeLast()
        if last !== stream {
            streams[stream.place] = last
            last.place = stream.place
        }
        if stream.kind == .subscriber { subscriptions -= 1 }
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
    private var hungry = TurnQueue<Subscriber>()
    /// Lists with rows and credit.
    private var waitingListings: [Listing] = []
    /// Acknowledgements wait until the peer has read earlier ones.
    var hasUntold = false

    @inline(__always)
    var isEmpty: Bool { !hasUntold && hungry.isEmpty && waitingListings.isEmpty }
    var hungryCount: Int { hungry.count }
    var listingCount: Int { waitingListings.count }

    mutating func add(hungry subscriber: Subscriber) {
        assert(!subscriber.isHungry)
        subscriber.outputTurn = hungry.append(subscriber)
    }

    /// Removes a subscriber that waits for output space.
    mutating func leave(hungry subscriber: Subscriber) {
        guard let turn = subscriber.outputTurn else { return }
        subscriber.outputTurn = nil
        hungry.withdraw(turn)
    }

    /// The subscriber at the head of the queue.
    mutating func nextHungry() -> Subscriber? {
        let subscriber = hungry.popFirst()
        subscriber?.outputTurn = nil
        return subscriber
    }

    func forEachHungry(_ body: (Subscriber) -> Void) { hungry.forEach(body) }

    mutating func add(_ listing: Listing) { waitingListings.append(listing) }

    mutating func remove(_ listing: Listing) { waitingListings.removeAll { $0 === listing } }

    mutating func takeListings() -> [Listing] {
        defer { waitingListings.removeAll() }
        return waitingListings
    }

    /// Subscribers and lists refer back to the connection.
    mutating func removeAll() {
        hungry.removeAll()
        waitingListings.removeAll()
    }
}

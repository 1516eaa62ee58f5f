// ConnectionStreams: what stands behind the streams of a connection, and what of that waits for room in its output.

/// In no particular order: one that ends has the last one take its place.
struct ConnectionStreams: RandomAccessCollection {
    private var streams: [BoundStream] = []
    /// Publishing channels.
    private(set) var channels: [Publisher] = []
    private(set) var subscriptions = 0
    /// Lists under way. One that ends while a page is fetched for it counts until that has come.
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

/// What waits until the output has room.
struct OutputWaiters {
    /// Subscribers with messages to hand over, in turn.
    private var hungry = TurnQueue<Subscriber>()
    /// Lists with rows and credit.
    private var waitingListings: [Listing] = []
    /// Acknowledgements wait until the peer has read others.
    var hasUntold = false

    @inline(__always)
    var isEmpty: Bool { !hasUntold && hungry.isEmpty && waitingListings.isEmpty }
    var hungryCount: Int { hungry.count }
    var listingCount: Int { waitingListings.count }

    mutating func add(hungry subscriber: Subscriber) {
        assert(!subscriber.isHungry)
        subscriber.outputTurn = hungry.append(subscriber)
    }

    /// A hungry subscriber is gone.
    mutating func leave(hungry subscriber: Subscriber) {
        guard let turn = subscriber.outputTurn else { return }
        subscriber.outputTurn = nil
        hungry.withdraw(turn)
    }

    /// The one whose turn it is.
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

    /// Subscribers and lists refer to the connection in turn.
    mutating func removeAll() {
        hungry.removeAll()
        waitingListings.removeAll()
    }
}

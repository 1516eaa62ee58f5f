// TimeSearch: searches of the store by time. A subscription that asks for messages since a time joins once the store
// has found the first of them, if that may be in the store only. A topic with retain-age searches for messages of
// earlier runs that have become too old.

import Replay

/// A search for the first message at or after a time.
public struct TimeSearch: Sendable {
    public let id: StoreID
    /// The topic's epoch.
    public let topic: UInt64
    /// In ns since 1970.
    public let time: Int64
    /// Nil for the topic itself.
    let subscriber: Handle?
    /// The first message in memory when the search was requested: those before it were in the store.
    let head: SequenceNumber

    init(id: StoreID, topic: UInt64, time: Int64, subscriber: Handle?, head: SequenceNumber = .first) {
        self.id = id
        self.topic = topic
        self.time = time
        self.subscriber = subscriber
        self.head = head
    }
}

/// Searches of a shard that wait until fewer are in flight.
struct SearchQueue<Waiter> {
    private let most: Int
    private var inFlight = 0
    private var waiting = TurnQueue<Waiter>()

    /// - Parameter most: searches in flight at a time.
    init(most: Int) { self.most = most }

    @discardableResult
    mutating func append(_ waiter: Waiter) -> TurnQueue<Waiter>.Ticket { waiting.append(waiter) }

    mutating func withdraw(_ ticket: TurnQueue<Waiter>.Ticket) { waiting.withdraw(ticket) }

    /// The next search to request; nil if enough are in flight or nothing waits.
    /// - Parameter search: the search for a waiter; nil if it needs none any more.
    mutating func next(_ search: (Waiter) -> TimeSearch?) -> TimeSearch? {
        while inFlight < most, let waiter = waiting.popFirst() {
            guard let search = search(waiter) else { continue }
            inFlight += 1
            return search
        }
        return nil
    }

    /// A search has been answered.
    mutating func answered() { inFlight -= 1 }
}

extension TimeSearch {
    /// The most searches in flight of a shard's subscriptions: clients may subscribe and cancel faster than the store
    /// answers.
    static let mostForSubscriptions = 64
    /// The most in flight of its topics: many may have messages of earlier runs that have become too old.
    static let mostForTopics = 256

    /// A subscription that waits, and the time that it asked for.
    typealias Waiting = (subscriber: Subscriber, time: Int64)
}

extension Subscribing {
    /// The first message at or after `time`, in ns since 1970. Nil if the store has to search for it.
    func first(atOrAfter time: Int64, for subscriber: Subscriber) -> SequenceNumber? {
        let view = subscriber.view
        let oldest = window(of: view).lower
        if let first = view.log.first(atOrAfter: time) { return first }
        guard view.isStored, oldest < view.log.head else { return oldest }
        view.addWaiting(subscriber)
        queueSearch(for: subscriber, time: time)
        requestSearches()
        return nil
    }

    private func queueSearch(for subscriber: Subscriber, time: Int64) {
        subscriber.search = views.searches.append((subscriber, time))
    }

    private func requestSearches() {
        while let search = views.searches.next({ search(for: $0.subscriber, time: $0.time) }) {
            effects.store.append(.search(search))
        }
    }

    private func search(for subscriber: Subscriber, time: Int64) -> TimeSearch? {
        subscriber.search = nil
        let view = subscriber.view
        return view.store.map {
            TimeSearch(id: $0.id, topic: view.epoch, time: time, subscriber: subscriber.handle, head: view.log.head)
        }
    }

    /// The store has searched.
    /// - Parameter first: nil if the store has no such message.
    func found(_ first: SequenceNumber?, _ search: TimeSearch, now: Instant) {
        guard let handle = search.subscriber else {
            ownership.ageSearches.answered()
            topics[epoch: search.topic]?.foundOld(before: first, now: now)
            return ownership.requestAgeSearches(now: now)
        }
        views.searches.answered()
        defer { requestSearches() }
        guard let subscriber = self.subscriber(handle, search.topic), subscriber.isWaiting else { return }
        let view = subscriber.view
        guard let first = first ?? firstInMemory(of: view, search) else {
            return queueSearch(for: subscriber, time: search.time)
        }
        view.removeWaiting(subscriber)
        if subscriber.match == nil { return join(subscriber, atOrAfter: first, now: now) }
        join(subscriber, since: first, now: now)
    }

    /// The subscription with this handle, or its cursor in one topic.
    private func subscriber(_ handle: Handle, _ epoch: UInt64) -> Subscriber? {
        guard let stream = streams[handle] else { return nil }
        return switch stream.kind {
        case .subscriber: stream.asSubscriber
        case .pattern: stream.asPattern.cursors[epoch]
        case .publisher, .call, .listStream: nil
        }
    }

    /// The first message that a search looks for, if the store did not have it. Nil if messages have left memory since
    /// then, which have to be searched, too.
    private func firstInMemory(of view: TopicView, _ search: TimeSearch) -> SequenceNumber? {
        if let first = view.log.first(atOrAfter: search.time) { return first }
        return view.log.head > search.head ? nil : Swift.max(view.log.head, window(of: view).lower)
    }

    /// If some of the messages since a time are no longer retained, that is not a gap, just as if the subscription had
    /// asked for a number of messages.
    func join(_ subscriber: Subscriber, atOrAfter first: SequenceNumber, now: Instant) {
        let window = window(of: subscriber.view)
        let first = Swift.min(Swift.max(first, window.lower), window.upper)
        let holes = subscriber.view.log.holes.count(in: SequenceRange(lower: first, upper: window.upper))
        join(subscriber, at: .last(UInt64(window.upper - first - holes)), now: now)
    }
}

extension StoredMessages {
    /// The first of the messages at or after `time`, in ns since 1970; nil if all are earlier.
    public func first(atOrAfter time: Int64) -> SequenceNumber? {
        let place = (0..<piece.visible).first { piece.chunk.entry($0).timestamp >= time }
        return place.map { piece.first.advanced(by: $0) }
    }
}

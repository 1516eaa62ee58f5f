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

/// The searches of a shard's subscriptions. Only a few are in flight at a time: clients may subscribe and cancel faster
/// than the store answers.
struct TimeSearches {
    static let mostInFlight = 64

    private var inFlight = 0
    private var waiting = TurnQueue<(subscriber: Subscriber, time: Int64)>()

    mutating func append(_ subscriber: Subscriber, time: Int64) {
        subscriber.search = waiting.append((subscriber, time))
    }

    /// A subscription has ended before its search was requested.
    mutating func withdraw(_ subscriber: Subscriber) {
        if let ticket = subscriber.search { waiting.withdraw(ticket) }
        subscriber.search = nil
    }

    /// The next search to request; nil if enough are in flight or no subscription waits.
    mutating func next() -> TimeSearch? {
        while inFlight < TimeSearches.mostInFlight, let (subscriber, time) = waiting.popFirst() {
            subscriber.search = nil
            guard let id = subscriber.view.store?.id else { continue }
            inFlight += 1
            let view = subscriber.view
            return TimeSearch(
                id: id, topic: view.epoch, time: time, subscriber: subscriber.handle, head: view.log.head)
        }
        return nil
    }

    /// A search has been answered.
    mutating func answered() { inFlight -= 1 }
}

/// The searches of a shard's topics for messages of earlier runs that have become too old. Only a few are in flight at
/// a time, because many topics may have such messages after a start.
struct AgeSearches {
    static let mostInFlight = 256

    private var inFlight = 0
    private var waiting = TurnQueue<Topic>()

    mutating func append(_ topic: Topic) { waiting.append(topic) }

    /// The next search to request; nil if enough are in flight or no topic waits.
    mutating func next(now: Instant) -> TimeSearch? {
        while inFlight < AgeSearches.mostInFlight, let topic = waiting.popFirst() {
            guard let id = topic.window.stored?.id, let time = topic.window.oldestTime(now: now) else {
                topic.window.stored?.isSearching = false
                continue
            }
            inFlight += 1
            return TimeSearch(id: id, topic: topic.epoch, time: time, subscriber: nil)
        }
        return nil
    }

    /// A search has been answered.
    mutating func answered() { inFlight -= 1 }
}

extension Subscribing {
    /// The first message at or after `time`, in ns since 1970. Nil if the store has to search for it.
    func first(atOrAfter time: Int64, for subscriber: Subscriber) -> SequenceNumber? {
        let view = subscriber.view
        let oldest = window(of: view).lower
        if let first = view.log.first(atOrAfter: time) { return first }
        guard view.isStored, oldest < view.log.head else { return oldest }
        view.addWaiting(subscriber)
        views.searches.append(subscriber, time: time)
        requestSearches()
        return nil
    }

    private func requestSearches() {
        while let search = views.searches.next() { effects.store.append(.search(search)) }
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
        guard let stream = streams[handle], stream.kind == .subscriber else { return }
        let subscriber = stream.asSubscriber
        guard subscriber.isWaiting else { return }
        let view = subscriber.view
        guard let first = first ?? firstInMemory(of: view, search) else {
            views.searches.append(subscriber, time: search.time)
            return
        }
        view.removeWaiting(subscriber)
        join(subscriber, atOrAfter: first, now: now)
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
        join(subscriber, at: .last(UInt64(window.upper - first)), now: now)
    }
}

extension StoredMessages {
    /// The first of the messages at or after `time`, in ns since 1970; nil if all are earlier.
    public func first(atOrAfter time: Int64) -> SequenceNumber? {
        let place = (0..<piece.visible).first { piece.chunk.entry($0).timestamp >= time }
        return place.map { piece.first.advanced(by: $0) }
    }
}

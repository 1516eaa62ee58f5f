// HistoryReads: the subscriptions of a view that wait for messages from the store, and the reads requested for them.
// Each subscription waits for one piece at a time; those that need the same piece share a read. Only a few reads are in
// flight at a time, so that pieces are used before they are evicted.
//
//     lacks history ─▶ waiting ─▶ in flight, with others ─▶ delivered to, and perhaps lacks history again

import Replay

struct HistoryReads {
    private var waiting = TurnQueue<Subscriber>()
    private var underWay: [(request: HistoryRequest, subscribers: [Subscriber])] = []

    var isWaiting: Bool { !waiting.isEmpty }
    /// Whether the view waits until fewer reads are in flight.
    var isQueued = false

    /// Adds a subscription whose next message is in the store.
    mutating func append(_ subscriber: Subscriber) {
        guard !subscriber.awaitsHistory else { return }
        subscriber.awaitsHistory = true
        waiting.append(subscriber)
    }

    /// The next read to request; nil if enough are in flight or no subscription waits. Subscriptions that no longer
    /// need a read are passed to `ready`.
    mutating func next(_ view: TopicView, ready: (Subscriber) -> Void) -> HistoryRequest? {
        while let subscriber = waiting.first {
            let range = subscriber.isMember ? subscriber.cursor.deliverable(subscriber.demand) : nil
            guard let range, !range.isEmpty, !view.log.holds(range.lower) else {
                waiting.popFirst()
                subscriber.awaitsHistory = false
                ready(subscriber)
                continue
            }
            if let place = underWay.firstIndex(where: { $0.request.covers(range.lower) }) {
                waiting.popFirst()
                underWay[place].subscribers.append(subscriber)
                continue
            }
            guard underWay.count < History.most, let id = view.store?.id else { return nil }
            waiting.popFirst()
            let end = Swift.min(range.upper, view.log.head)
            let request = HistoryRequest(id: id, topic: view.epoch, first: range.lower, end: end)
            underWay.append((request, [subscriber]))
            return request
        }
        return nil
    }

    /// Removes a subscription without a read in flight from the queue; nil if none waits.
    mutating func giveUp() -> Subscriber? {
        let subscriber = waiting.popFirst()
        subscriber?.awaitsHistory = false
        return subscriber
    }

    /// Removes a request that the store has answered. Returns the subscriptions that waited for the answer; nil if
    /// there was no such request.
    mutating func answered(_ request: HistoryRequest) -> [Subscriber]? {
        guard let place = underWay.firstIndex(where: { $0.request.first == request.first }) else { return nil }
        let subscribers = underWay.remove(at: place).subscribers
        for subscriber in subscribers { subscriber.awaitsHistory = false }
        return subscribers
    }
}

extension HistoryRequest {
    fileprivate func covers(_ sequence: SequenceNumber) -> Bool { first <= sequence && sequence < end }
}

final class HistoryReading: ShardPart {
    let delivery: Delivery
    let views: ViewTable

    init(_ context: ShardContext, _ delivery: Delivery, _ views: ViewTable) {
        self.delivery = delivery
        self.views = views
        super.init(context)
    }

    /// Subscriptions that receive history as soon as it arrives, before others have their turn.
    private static let atOnce = 64
    /// Maximum number of reads in flight.
    private static let most = 64

    /// Queues a subscription whose next message is in the store. The message is delivered once it has been read.
    func askForHistory(_ subscriber: Subscriber) {
        subscriber.lacksHistory = false
        subscriber.view.reads.append(subscriber)
        askForHistory(subscriber.view)
    }

    private func askForHistory(_ view: TopicView) {
        // While memory is short, this shard reads one piece at a time; other subscriptions wait for a tick.
        while views.readsUnderWay == 0 || memory.used <= memory.limit {
            guard views.readsUnderWay < HistoryReading.most else {
                if view.reads.isWaiting { views.addWaitingForReads(view) }
                return
            }
            guard let request = view.reads.next(view, ready: { work.makeLater(for: $0) }) else { return }
            views.readsUnderWay += 1
            effects.store.append(.read(request))
        }
        while let subscriber = view.reads.giveUp() {
            reached(.memory)
            work.makeWhenThereIsMemory(for: subscriber)
        }
    }

    /// Handles the store's answer to a read request in `Effects.store`. The answer is ignored if the topic no longer
    /// has subscribers.
    func answer(_ request: HistoryRequest, _ answer: HistoryAnswer, now: Instant) {
        views.readsUnderWay -= 1
        defer {
            while views.readsUnderWay < HistoryReading.most, let view = views.nextWaitingForReads() {
                askForHistory(view)
            }
        }
        guard let view = views[epoch: request.topic], let subscribers = view.reads.answered(request) else { return }
        switch answer {
        case .found(let messages):
            assert(messages.piece.first <= request.first && request.first < messages.piece.end)
            view.log.insert(messages.piece, most: memory.isFull ? 1 : History.most)
        case .gone(let end): view.lose(before: end, now: now)
        case .unreadable(let end):
            for subscriber in subscribers where subscriber.isMember { subscriber.cursor.evict(before: end) }
        }
        for (count, subscriber) in subscribers.enumerated() where subscriber.isMember {
            if count < HistoryReading.atOnce {
                delivery.deliver(subscriber, now: now)
            } else {
                work.makeLater(for: subscriber)
            }
        }
        askForHistory(view)
    }
}

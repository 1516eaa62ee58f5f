// TopicMessages: a topic's messages, for a subscriber with demand or for `for try await`.

import Client
import ForebayWire
import StreamsCore

/// Where a subscription begins.
public enum Replay: Equatable, Sendable {
    /// At the next message.
    case none
    /// At the earliest of this many latest retained messages.
    case last(UInt32)
    /// At the oldest retained message.
    case all
    /// At this sequence of this epoch; a nil epoch is the topic's current one. If that message is no longer retained,
    /// the subscription begins with the oldest retained message, whose `gap` reports what is missing.
    case from(sequence: UInt64, epoch: UInt64?)
    /// At the first retained message whose `timestamp` is this time, in nanoseconds since 1970 UTC, or later; at the
    /// next message if there is none. If messages of that time are no longer retained, the subscription begins with the
    /// oldest retained one, and no gap is reported. Times before 1970 count as 1970.
    case since(nanoseconds: Int64)
    /// At the first retained message that is not older than this, like `since`. The broker computes the time by its own
    /// clock when it receives the request. Negative durations count as 0.
    case past(Duration)
}

/// What the broker does when the buffer of a subscription is full.
public enum Overflow: Equatable, Sendable {
    /// Drops the oldest waiting message.
    case dropOldest
    /// Drops the arriving message.
    case dropNewest
    /// Replaces the newest waiting message.
    case replaceNewest
    /// Keeps only the latest message, whatever the size of the buffer.
    case latest
    /// Delivers the waiting messages, then fails the subscription with `.overflow`.
    case fail
    /// Grants publishers no more messages than there is room for.
    case block
}

extension Topic {
    /// The topic's messages. Each subscriber and each iteration has its own subscription.
    ///
    /// As a `Publisher` it forwards demand: the broker is asked for what the subscriber requests, and the subscription
    /// reaches the broker with the first demand. As an `AsyncSequence` it requests `window` messages when an iterator
    /// is made, and more when half of them have been taken; it never holds more than `window` messages.
    ///
    /// If the connection is lost, the subscription resumes on the next connection after the last message received. No
    /// message arrives twice; messages that the topic no longer holds are reported by the `gap` of the next message.
    /// Unmet demand is requested again.
    ///
    /// - Parameters:
    ///   - replay: where to begin.
    ///   - buffer: how many messages may wait at the broker without demand, 1 to 2³¹−1; nil for the broker's default
    ///     (1,024).
    ///   - overflow: what happens when the buffer is full.
    ///   - window: how many messages an iteration requests in advance, or `receive(on:)` holds, 1 to 2³¹−2; an
    ///     iteration with another value fails with `.invalid`.
    public func messages(
        replay: Replay = .none, buffer: UInt32? = nil, overflow: Overflow = .dropOldest, window: Int = 256
    ) -> TopicMessages {
        var options = SubscribeOptions()
        options.meta = true
        // A connection lost before the first message then loses none.
        options.opening = true
        options.buffer = buffer
        options.start =
            switch replay {
            case .none: .next
            case .last(let count): .last(count)
            case .all: .all
            case .from(let sequence, let epoch): .from(sequence, epoch: epoch)
            case .since(let nanoseconds): .since(.at(max(0, nanoseconds)))
            case .past(let duration): .since(.ago(Int64(clamping: duration.nanoseconds)))
            }
        options.overflow =
            switch overflow {
            case .dropOldest: .dropOldest
            case .dropNewest: .dropNewest
            case .replaceNewest: .replaceNewest
            case .latest: .latest
            case .fail: .fail
            case .block: .block
            }
        return TopicMessages(topic: self, options: options, window: window)
    }
}

/// The messages of a topic, as a publisher and as an asynchronous sequence.
///
/// The messages finish when the topic is completed. They fail with `.topicFailed`, `.overflow`, `.rejected`,
/// `.invalid`, `.messageTooLarge`, `.protocolViolation`, `.busy`, or with the error that ends the client.
public struct TopicMessages: Publisher, AsyncSequence, Sendable {
    public typealias Output = Message
    public typealias Element = Message
    public typealias Failure = ForebayError

    /// The topic of these messages.
    public let topic: Topic
    let options: SubscribeOptions
    let window: Int
    var lossAtEnd: (@Sendable (Gap) -> Void)?
    /// Called once, with nil if the broker has accepted the subscription, otherwise with the reason why not.
    var whenAccepted: (@Sendable (ForebayError?) -> Void)?

    /// The same messages, with a handler for loss at the end. If the topic completes and messages after the last
    /// delivered one were dropped, there is no later message to report the gap, so `body` is called on the client's
    /// thread.
    public func onLossAtEnd(_ body: @escaping @Sendable (Gap) -> Void) -> TopicMessages {
        var copy = self
        copy.lossAtEnd = body
        return copy
    }

    /// The same messages, with a handler that is called on the client's thread when the broker has accepted the
    /// subscription: every message published from then on, by any client, is delivered. The handler is called once for
    /// each subscription, before the first message, and not if the subscription fails. A subscription without demand
    /// does not reach the broker.
    public func onSubscribed(_ body: @escaping @Sendable () -> Void) -> TopicMessages {
        var copy = self
        copy.whenAccepted = { if $0 == nil { body() } }
        return copy
    }

    /// Subscribes and waits until the broker has accepted the subscription: every message published from then on, by
    /// any client, is delivered. While there is no connection, this waits for one.
    ///
    /// - Returns: the messages of this one subscription, for one iteration.
    /// - Throws: `CancellationError` if the task is cancelled, which cancels the subscription; a ``ForebayError``, as
    ///   for an iteration, if the broker refuses the subscription or the client ends.
    public func subscribed() async throws -> SubscribedMessages {
        try Task.checkCancellation()
        let taken = OneShot<ForebayError?>()
        var copy = self
        let report = whenAccepted
        copy.whenAccepted = {
            taken.resolve($0)
            report?($0)
        }
        let handle = copy.subscribe()
        if let error = handle.subscriber.failure { throw error }
        let error = await withTaskCancellationHandler {
            await taken.wait()
        } onCancel: {
            handle.subscriber.cancel()
            taken.resolve(.cancelledByUser)
        }
        // The broker may have answered just before cancellation, but the subscription is cancelled anyway.
        try Task.checkCancellation()
        if let error { throw error }
        return SubscribedMessages(handle: handle)
    }

    public func receive<S: Subscriber>(subscriber: S) where S.Input == Message, S.Failure == ForebayError {
        RemoteSubscription(self, subscriber).begin()
    }

    /// The messages as an asynchronous sequence, which they already are.
    public var values: TopicMessages { self }

    /// Subscribes. The subscription ends when the iterator and its copies, which share it, are released.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(handle: subscribe()) }

    private func subscribe() -> WindowHandle {
        let subscriber = WindowSubscriber(window)
        if (1..<Int(CreditWindow.unbounded)).contains(window) {
            subscribe(subscriber)
        } else {
            subscriber.receive(
                completion: .failure(ForebayError(.invalid, "The window must be 1 to 2³¹−2 messages, not \(window).")))
        }
        return WindowHandle(subscriber)
    }

    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let handle: WindowHandle

        /// - Returns: the next message; nil when the topic is completed or the task is cancelled, which cancels the
        ///   subscription.
        public mutating func next() async throws(ForebayError) -> Message? { try await next(isolation: nil) }

        public mutating func next(
            isolation actor: isolated (any Actor)?
        ) async throws(ForebayError) -> Message? {
            switch await handle.subscriber.next(isolation: actor) {
            case .message(let message): return message
            case .ended(nil): return nil
            case .ended(let error?): throw error
            }
        }
    }
}

/// The messages of a subscription that the broker has accepted. Iterate over them once: iterators share the
/// subscription, each message goes to one iterator, and the subscription ends when the last iterator and the last copy
/// of this sequence are released.
public struct SubscribedMessages: AsyncSequence, Sendable {
    public typealias Element = Message
    public typealias Failure = ForebayError

    fileprivate let handle: WindowHandle

    /// Makes an iterator of the shared subscription.
    public func makeAsyncIterator() -> TopicMessages.AsyncIterator { TopicMessages.AsyncIterator(handle: handle) }
}

/// Held only by iterators and the sequences that make them.
private final class WindowHandle: Sendable {
    let subscriber: WindowSubscriber

    init(_ subscriber: WindowSubscriber) { self.subscriber = subscriber }

    deinit { subscriber.cancel() }
}

/// Holds messages until they are taken, at most as many as it requests in advance.
final class WindowSubscriber: Subscriber, TurnSubscriber, @unchecked Sendable {
    typealias Input = Message
    typealias Failure = ForebayError

    enum Next: Sendable {
        case message(Message)
        case ended(ForebayError?)
    }

    private let window: Int
    private let lock = Lock()
    private var subscription: (any Subscription)?
    /// A ring buffer.
    private var held: [Message?] = []
    private var head = 0
    private var count = 0
    /// The number of messages taken since the last request.
    private var taken = 0
    private var waiters: [UnsafeContinuation<Next, Never>] = []
    private var end: ForebayError??

    init(_ window: Int) { self.window = window }

    /// Whether a task is waiting for a message.
    var isAwaited: Bool { lock.with { !waiters.isEmpty } }

    /// The failure, until it has been thrown.
    var failure: ForebayError? { lock.with { end ?? nil } }

    func next(isolation: isolated (any Actor)?) async -> Next {
        // Most messages are here before they are asked for, and need no waiting.
        if !Task.isCancelled, let message = take() { return .message(message) }
        return await withTaskCancellationHandler {
            await withUnsafeContinuation { wait($0) }
        } onCancel: {
            cancel()
        }
    }

    private func take() -> Message? {
        lock.lock()
        guard let message = pop() else {
            lock.unlock()
            return nil
        }
        let (more, subscription) = (refill(), subscription)
        lock.unlock()
        if more > 0 { subscription?.request(.max(more)) }
        return message
    }

    private func wait(_ waiter: UnsafeContinuation<Next, Never>) {
        lock.lock()
        if let message = pop() {
            let (more, subscription) = (refill(), subscription)
            lock.unlock()
            if more > 0 { subscription?.request(.max(more)) }
            waiter.resume(returning: .message(message))
        } else if let ended = end {
            // The failure is thrown once.
            end = .some(nil)
            lock.unlock()
            waiter.resume(returning: .ended(ended))
        } else {
            waiters.append(waiter)
            lock.unlock()
        }
    }

    private func pop() -> Message? {
        guard count > 0 else { return nil }
        let message = held[head].take()
        head = (head + 1) % held.count
        count -= 1
        return message
    }

    private func push(_ message: Message) {
        if count == held.count {
            var larger: [Message?] = (0..<count).map { held[(head + $0) % held.count] }
            larger += Array(repeating: nil, count: max(4, count))
            (held, head) = (larger, 0)
        }
        held[(head + count) % held.count] = message
        count += 1
    }

    /// Counts one more message that was taken.
    /// - Returns: the number of messages to request now.
    private func refill() -> Int {
        taken += 1
        guard taken >= (window + 1) / 2, end == nil else { return 0 }
        defer { taken = 0 }
        return taken
    }

    func receive(subscription: any Subscription) {
        let isWanted = lock.with {
            if end == nil { self.subscription = subscription }
            return end == nil
        }
        if isWanted { subscription.request(.max(window)) } else { subscription.cancel() }
    }

    func receive(_ input: Message) -> Subscribers.Demand {
        lock.lock()
        guard end == nil else {
            lock.unlock()
            return .none
        }
        push(input)
        lock.unlock()
        return .none
    }

    func expectTurns() {}

    /// Waiting tasks are resumed once all of the turn's messages have arrived, so that they take the rest without
    /// waiting.
    func turnEnded() -> Subscribers.Demand {
        lock.lock()
        let served = serve()
        var more = 0
        for _ in served { more += refill() }
        lock.unlock()
        for (waiter, message) in served { waiter.resume(returning: .message(message)) }
        return .max(more)
    }

    /// The waiters that can be served, with their messages. Under the lock.
    private func serve() -> [(UnsafeContinuation<Next, Never>, Message)] {
        var served: [(UnsafeContinuation<Next, Never>, Message)] = []
        while !waiters.isEmpty, let message = pop() { served.append((waiters.removeFirst(), message)) }
        return served
    }

    func receive(completion: Subscribers.Completion<ForebayError>) {
        switch completion {
        case .finished: finish(nil, keeping: true)
        case .failure(let error): finish(error, keeping: true)
        }
    }

    func cancel() { finish(nil, keeping: false) }

    /// - Parameter keeping: whether held messages can still be taken.
    private func finish(_ error: ForebayError?, keeping: Bool) {
        lock.lock()
        if !keeping { (held, head, count) = ([], 0, 0) }
        guard end == nil else { return lock.unlock() }
        let served = serve()
        let (waiters, subscription) = (waiters, subscription)
        self.waiters = []
        self.subscription = nil
        end = .some(waiters.isEmpty ? error : nil)
        lock.unlock()
        if !keeping { subscription?.cancel() }
        for (waiter, message) in served { waiter.resume(returning: .message(message)) }
        for (index, waiter) in waiters.enumerated() { waiter.resume(returning: .ended(index == 0 ? error : nil)) }
    }
}

extension TopicMessages: PrefetchingPublisher {
    package var prefetchHint: Int? { window }
}

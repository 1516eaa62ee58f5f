// TopicMessages: a topic's messages, for a subscriber with demand or for `for try await`.

import Client
import ForebayWire
import StreamsCore

/// Where a subscription begins.
public enum Replay: Equatable, Sendable {
    /// With the next message.
    case none
    /// With the last so many retained messages.
    case last(UInt32)
    /// With the oldest retained message.
    case all
    /// At this sequence of this epoch; nil is the topic's present one. If it is not there any more the subscription
    /// begins with the oldest retained message, and the first one tells the gap.
    case from(sequence: UInt64, epoch: UInt64?)
}

/// What the broker does when more messages would have to wait for a subscription than its buffer holds.
public enum Overflow: Equatable, Sendable {
    /// The oldest that waits goes.
    case dropOldest
    /// The arriving one is refused.
    case dropNewest
    /// The last one that waits gives way.
    case replaceNewest
    /// Only the newest waits, whatever the buffer.
    case latest
    /// What waits is delivered, then the subscription fails with `.overflow`.
    case fail
    /// Publishers are granted no more than there is room for.
    case block
}

extension Topic {
    /// The topic's messages, for each subscriber and for each iteration by a subscription of its own.
    ///
    /// As a `Publisher` it forwards demand: the broker is asked for what the subscriber asks for, and the subscription
    /// reaches it with the first demand. As an `AsyncSequence` it asks for `window` messages when an iterator is made,
    /// and for more when half of them were taken; no more than the window is ever held.
    ///
    /// When the connection is lost a subscription goes on by itself where it stood, as soon as there is another one. No
    /// message comes twice; what the topic does not hold any more is told by the next message's `gap`. Demand that was
    /// not met is asked for again.
    ///
    /// - Parameters:
    ///   - replay: where to begin.
    ///   - buffer: messages that may wait at the broker without demand, 1 to 2³¹−1; nil is its default (1,024).
    ///   - overflow: what happens when more would have to wait.
    ///   - window: messages that an iteration asks for in advance, or that `receive(on:)` holds, 1 to 2³¹−2; for an
    ///     iteration others fail with `.invalid`.
    public func messages(
        replay: Replay = .none, buffer: UInt32? = nil, overflow: Overflow = .dropOldest, window: Int = 256
    ) -> TopicMessages {
        var options = SubscribeOptions()
        options.meta = true
        options.buffer = buffer
        options.start =
            switch replay {
            case .none: .next
            case .last(let count): .last(count)
            case .all: .all
            case .from(let sequence, let epoch): .from(sequence, epoch: epoch)
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
/// It finishes when the topic is completed. It fails with `.topicFailed`, `.overflow`, `.rejected`, `.invalid`,
/// `.messageTooLarge`, `.protocolViolation`, `.busy`, and with whatever the client dies of.
public struct TopicMessages: Publisher, AsyncSequence, Sendable {
    public typealias Output = Message
    public typealias Element = Message
    public typealias Failure = ForebayError

    /// Whose messages they are.
    public let topic: Topic
    let options: SubscribeOptions
    let window: Int
    var lossAtEnd: (@Sendable (Gap) -> Void)?
    /// Nil: the broker has the subscription; else why it does not. Called once.
    var whenTaken: (@Sendable (ForebayError?) -> Void)?

    /// The same messages; when the topic completes and messages were dropped behind the last one that was delivered,
    /// which no message is there to tell, `body` is called, on the client's thread.
    public func onLossAtEnd(_ body: @escaping @Sendable (Gap) -> Void) -> TopicMessages {
        var copy = self
        copy.lossAtEnd = body
        return copy
    }

    /// The same messages; `body` is called, on the client's thread, when the broker has taken the subscription: what is
    /// published from then on, by whomever, is delivered. It is called once for each subscription, before the first
    /// message, and not if the subscription fails. A subscription without demand does not reach the broker.
    public func onSubscribed(_ body: @escaping @Sendable () -> Void) -> TopicMessages {
        var copy = self
        copy.whenTaken = { if $0 == nil { body() } }
        return copy
    }

    /// Subscribes, and waits until the broker has taken the subscription: what is published from then on, by whomever,
    /// is delivered. While there is no connection this waits for one.
    ///
    /// - Returns: the messages of that one subscription, for one iteration.
    /// - Throws: `CancellationError` when the task is cancelled, which cancels the subscription; otherwise a
    ///   ``ForebayError``, as an iteration does, if the broker refuses the subscription or the client ends.
    public func subscribed() async throws -> SubscribedMessages {
        try Task.checkCancellation()
        let taken = OneShot<ForebayError?>()
        var copy = self
        let tell = whenTaken
        copy.whenTaken = {
            taken.resolve($0)
            tell?($0)
        }
        let handle = copy.subscribe()
        if let error = handle.subscriber.failure { throw error }
        let error = await withTaskCancellationHandler {
            await taken.wait()
        } onCancel: {
            handle.subscriber.cancel()
            taken.resolve(.cancelledByUser)
        }
        // The broker may have answered just before: the subscription is cancelled all the same.
        try Task.checkCancellation()
        if let error { throw error }
        return SubscribedMessages(handle: handle)
    }

    public func receive<S: Subscriber>(subscriber: S) where S.Input == Message, S.Failure == ForebayError {
        RemoteSubscription(self, subscriber).begin()
    }

    /// The messages as an asynchronous sequence, which they are already.
    public var values: TopicMessages { self }

    /// Subscribes. The subscription ends with the iterator and its copies, which share it.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(handle: subscribe()) }

    private func subscribe() -> WindowHandle {
        let subscriber = WindowSubscriber(window)
        if (1...Int(SubscriptionState.largestCredit)).contains(window) {
            subscribe(subscriber)
        } else {
            subscriber.receive(
                completion: .failure(ForebayError(.invalid, "A window is 1 to 2³¹−2 messages, not \(window).")))
        }
        return WindowHandle(subscriber)
    }

    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let handle: WindowHandle

        /// - Returns: the next message; nil when the topic is completed, or the task is cancelled, which cancels the
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

/// The messages of one subscription, which the broker has taken. To be iterated over once: iterators share the
/// subscription, each message goes to one of them, and with the last of them and of these it ends.
public struct SubscribedMessages: AsyncSequence, Sendable {
    public typealias Element = Message
    public typealias Failure = ForebayError

    fileprivate let handle: WindowHandle

    /// Takes part in the one subscription.
    public func makeAsyncIterator() -> TopicMessages.AsyncIterator { TopicMessages.AsyncIterator(handle: handle) }
}

/// Held by iterators, and what makes them, alone.
private final class WindowHandle: Sendable {
    let subscriber: WindowSubscriber

    init(_ subscriber: WindowSubscriber) { self.subscriber = subscriber }

    deinit { subscriber.cancel() }
}

/// Holds messages until they are taken, at most as many as it asks for in advance.
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
    /// A ring.
    private var held: [Message?] = []
    private var head = 0
    private var count = 0
    /// Taken, and not asked for again.
    private var taken = 0
    private var waiters: [UnsafeContinuation<Next, Never>] = []
    private var end: ForebayError??

    init(_ window: Int) { self.window = window }

    /// Somebody waits for a message.
    var isAwaited: Bool { lock.with { !waiters.isEmpty } }

    /// What it failed with, as long as that was not thrown.
    var failure: ForebayError? { lock.with { end ?? nil } }

    func next(isolation: isolated (any Actor)?) async -> Next {
        // Most messages are here when they are asked for, and nobody has to wait.
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

    /// One more was taken.
    /// - Returns: what to ask for now.
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

    /// Who waits is woken when all that came is here, and finds the rest without waiting.
    func turnEnded() -> Subscribers.Demand {
        lock.lock()
        let served = serve()
        var more = 0
        for _ in served { more += refill() }
        lock.unlock()
        for (waiter, message) in served { waiter.resume(returning: .message(message)) }
        return .max(more)
    }

    /// Whose turn it is, and with what. Under the lock.
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

    /// - Parameter keeping: what is held is still there to be taken.
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

// values: a publisher's values for `for await`.
//
// Each call of `next` requests one value and waits for it. There is no buffer: a publisher that sends values without
// demand loses them or keeps them itself. If a publisher recommends prefetching, as a broker's topic does, the first
// call requests the recommended number of values, and more are requested whenever half of them have been taken.

extension Publisher where Failure == Never {
    /// The values as an asynchronous sequence. Each iterator is a subscriber from its creation until it is released or
    /// its task is cancelled.
    public var values: AsyncPublisher<Self> { AsyncPublisher(self) }
}

extension Publisher {
    /// The values as an asynchronous sequence that throws the failure. Each iterator is a subscriber from its creation
    /// until it is released or its task is cancelled.
    public var values: AsyncThrowingPublisher<Self> { AsyncThrowingPublisher(self) }
}

/// The values of a publisher that cannot fail, as an asynchronous sequence.
public struct AsyncPublisher<P: Publisher>: AsyncSequence where P.Failure == Never {
    public typealias Element = P.Output
    public typealias Failure = Never

    private let publisher: P

    /// Creates a sequence of a publisher's values. Each iterator makes a new subscription.
    public init(_ publisher: P) { self.publisher = publisher }

    /// Copies share one subscription: each value is returned by one of them.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let handle: AsyncHandle<P.Output, Never>

        /// - Returns: the next value; nil if the publisher has ended or the task is cancelled. Cancelling the task also
        ///   cancels the subscription.
        public mutating func next() async -> P.Output? { await next(isolation: nil) }

        public mutating func next(isolation actor: isolated (any Actor)?) async -> P.Output? {
            if let value = handle.subscriber.take() { return value }
            return switch await handle.subscriber.next(isolation: actor).value {
            case .value(let value): value
            case .completion: nil
            }
        }
    }

    /// Subscribes to the publisher.
    public func makeAsyncIterator() -> Iterator { Iterator(handle: AsyncHandle(publisher)) }
}

/// The values of a publisher, as an asynchronous sequence.
public struct AsyncThrowingPublisher<P: Publisher>: AsyncSequence {
    public typealias Element = P.Output
    public typealias Failure = P.Failure

    private let publisher: P

    /// Creates a sequence of a publisher's values. Each iterator makes a new subscription.
    public init(_ publisher: P) { self.publisher = publisher }

    /// Copies share one subscription: each value is returned by one of them.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let handle: AsyncHandle<P.Output, P.Failure>

        /// - Returns: the next value; nil if the publisher has ended or the task is cancelled. Cancelling the task also
        ///   cancels the subscription.
        /// - Throws: the failure of the publisher, once.
        public mutating func next() async throws -> P.Output? { try await next(isolation: nil) }

        public mutating func next(isolation actor: isolated (any Actor)?) async throws(P.Failure) -> P.Output? {
            if let value = handle.subscriber.take() { return value }
            switch await handle.subscriber.next(isolation: actor).value {
            case .value(let value): return value
            case .completion(.finished): return nil
            case .completion(.failure(let failure)): throw failure
            }
        }
    }

    /// Subscribes to the publisher.
    public func makeAsyncIterator() -> Iterator { Iterator(handle: AsyncHandle(publisher)) }
}

/// Held only by iterators. The subscription is cancelled when the last iterator is released.
private final class AsyncHandle<Output, Failure: Error>: Sendable {
    let subscriber: AsyncSubscriber<Output, Failure>

    init<P: Publisher>(_ publisher: P) where P.Output == Output, P.Failure == Failure {
        subscriber = AsyncSubscriber(window: max(publisher.prefetch ?? 1, 1))
        publisher.subscribe(subscriber)
    }

    deinit { subscriber.cancel() }
}

private enum AsyncEvent<Output, Failure: Error> {
    case value(Output)
    case completion(Subscribers.Completion<Failure>)
}

/// A value on its way from the publisher to the waiting task. Nothing else uses it in the meantime.
struct Passed<Value>: @unchecked Sendable {
    let value: Value
}

private enum AsyncPhase {
    case awaitingSubscription, subscribed
    /// The publisher has ended, but some values have not been taken yet.
    case draining
    /// The failure has not been thrown yet.
    case failed
    case over
}

/// The code that runs for each value needs no type metadata except that of the values. This code is not specialized,
/// and looking up metadata would take longer than everything else.
private final class AsyncSubscriber<Input, Failure: Error>: Subscriber, TurnSubscriber, CustomStringConvertible,
    @unchecked Sendable
{
    private typealias Event = AsyncEvent<Input, Failure>
    private typealias Waiter = UnsafeContinuation<Passed<AsyncEvent<Input, Failure>>, Never>

    private let lock = Lock()
    private var phase = AsyncPhase.awaitingSubscription
    private var subscription: (any Subscription)?
    private var failure: Failure?
    /// One for each call of `next` that has not returned; `isAwaited` says whether there are any.
    private var waiters = Queue<Waiter>()
    private var isAwaited = false
    /// Whether waiters are woken at the end of a turn.
    private var expectsTurns = false
    /// How many values to request in advance; 1 means one for each waiter.
    private let window: Int
    /// Whether the first `window` values have been requested.
    private var hasAsked = false
    /// Values that no call of `next` has taken yet.
    private var arrived: Ring<Input>
    /// The number of values taken since the last request.
    private var taken = 0

    init(window: Int) {
        self.window = window
        arrived = Ring(limit: window, whenFull: .refuse)
    }

    /// Takes a value that has already arrived.
    func take() -> Input? {
        guard window > 1, !Task.isCancelled else { return nil }
        lock.lock()
        return takeArrivedAndUnlock()
    }

    /// Waits for the next event if no value has arrived yet.
    func next(isolation: isolated (any Actor)?) async -> Passed<AsyncEvent<Input, Failure>> {
        await withTaskCancellationHandler {
            await withUnsafeContinuation { wait($0) }
        } onCancel: {
            cancel()
        }
    }

    /// Takes the first value that has arrived. Called with the lock held, which it releases.
    private func takeArrivedAndUnlock() -> Input? {
        guard let value = arrived.popFirst() else {
            lock.unlock()
            return nil
        }
        let n = refill()
        let asked = n > 0 && phase == .subscribed ? subscription : nil
        if phase == .draining, arrived.isEmpty { phase = failure == nil ? .over : .failed }
        lock.unlock()
        asked?.request(.max(n))
        return value
    }

    /// Counts a taken value. Returns how many values to request now. Called with the lock held.
    private func refill() -> Int {
        taken += 1
        guard window > 1, taken * 2 >= window else { return 0 }
        defer { taken = 0 }
        return taken
    }

    private func wait(_ waiter: Waiter) {
        lock.lock()
        // A value may have arrived in the meantime.
        if !arrived.isEmpty, let value = takeArrivedAndUnlock() {
            return waiter.resume(returning: Passed(value: .value(value)))
        }
        switch phase {
        case .awaitingSubscription:
            waiters.append(waiter)
            isAwaited = true
            lock.unlock()
        case .subscribed:
            waiters.append(waiter)
            isAwaited = true
            let n = window == 1 ? 1 : hasAsked ? 0 : window
            hasAsked = true
            let subscription = subscription
            lock.unlock()
            if n > 0 { subscription?.request(.max(n)) }
        // After draining, no values are left.
        case .failed, .over, .draining:
            phase = .over
            let completion = takeFailure()
            lock.unlock()
            waiter.resume(returning: Passed(value: .completion(completion)))
        }
    }

    private func takeFailure() -> Subscribers.Completion<Failure> { failure.take().map { .failure($0) } ?? .finished }

    func receive(subscription: any Subscription) {
        lock.lock()
        guard case .awaitingSubscription = phase else {
            lock.unlock()
            return subscription.cancel()
        }
        phase = .subscribed
        self.subscription = subscription
        let n = !isAwaited ? 0 : window == 1 ? waiters.count : window
        hasAsked = n > 0
        lock.unlock()
        if n > 0 { subscription.request(.max(n)) }
    }

    func receive(_ input: Input) -> Subscribers.Demand {
        lock.lock()
        guard isAwaited, !expectsTurns, let waiter = waiters.popFirst() else {
            if window > 1, phase == .subscribed, !arrived.isFull { arrived.append(input) }
            lock.unlock()
            return .none
        }
        isAwaited = !waiters.isEmpty
        let n = refill()
        lock.unlock()
        waiter.resume(returning: Passed(value: .value(input)))
        return n > 0 ? .max(n) : .none
    }

    func expectTurns() { lock.with { expectsTurns = window > 1 } }

    func turnEnded() -> Subscribers.Demand {
        var more = 0
        while true {
            lock.lock()
            guard isAwaited, let value = arrived.popFirst(), let waiter = waiters.popFirst() else {
                lock.unlock()
                return .max(more)
            }
            isAwaited = !waiters.isEmpty
            more += refill()
            lock.unlock()
            waiter.resume(returning: Passed(value: .value(value)))
        }
    }

    func receive(completion: Subscribers.Completion<Failure>) {
        _ = turnEnded()
        lock.lock()
        if phase == .subscribed, !arrived.isEmpty {
            phase = .draining
            if case .failure(let failure) = completion { self.failure = failure }
            let ended = subscription.take()
            lock.unlock()
            _ = ended
            return
        }
        lock.unlock()
        end(completion)
    }

    func cancel() { end(.finished)?.cancel() }

    /// Ends the sequence: the first waiter receives the completion, the others receive `finished`.
    /// - Returns: the subscription, unless the stream had already ended.
    @discardableResult private func end(_ completion: Subscribers.Completion<Failure>) -> (any Subscription)? {
        lock.lock()
        switch phase {
        case .failed, .over:
            lock.unlock()
            return nil
        case .awaitingSubscription, .subscribed, .draining: break
        }
        var waiting = waiters
        waiters.removeAll()
        isAwaited = false
        let dropped = arrived
        arrived = Ring(limit: 0, whenFull: .refuse)
        failure = nil
        phase = .over
        if waiting.isEmpty, case .failure(let failure) = completion { (self.failure, phase) = (failure, .failed) }
        let subscription = subscription.take()
        lock.unlock()
        _ = dropped
        waiting.popFirst()?.resume(returning: Passed(value: .completion(completion)))
        while let waiter = waiting.popFirst() { waiter.resume(returning: Passed(value: .completion(.finished))) }
        return subscription
    }

    var description: String { "AsyncPublisher" }
}

// WindowSubscriber: what an iteration requests in advance, and holds until it is taken.

import Client
import StreamsCore

/// Held only by iterators and the sequences that make them.
final class WindowHandle: Sendable {
    let subscriber: WindowSubscriber

    private init(_ subscriber: WindowSubscriber) { self.subscriber = subscriber }

    /// Subscribes.
    /// - Parameter window: messages to request in advance; if it is out of bounds, the iteration fails.
    static func subscribe(
        to messages: some Publisher<Message, ForebayError>, window: Int
    ) -> WindowHandle {
        let subscriber = WindowSubscriber(window)
        if (1..<Int(CreditWindow.unbounded)).contains(window) {
            messages.subscribe(subscriber)
        } else {
            subscriber.receive(
                completion: .failure(ForebayError(.invalid, "The window must be 1 to 2³¹−2 messages, not \(window).")))
        }
        return WindowHandle(subscriber)
    }

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

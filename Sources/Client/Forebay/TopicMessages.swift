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
        var options = SubscribeOptions(replay, buffer, overflow)
        // A connection lost before the first message then loses none.
        options.opening = true
        return TopicMessages(topic: self, options: options, window: window)
    }
}

extension SubscribeOptions {
    /// The options of a subscription whose messages have metadata.
    init(_ replay: Replay, _ buffer: UInt32?, _ overflow: Overflow) {
        self.init()
        meta = true
        self.buffer = buffer
        start =
            switch replay {
            case .none: .next
            case .last(let count): .last(count)
            case .all: .all
            case .from(let sequence, let epoch): .from(sequence, epoch: epoch)
            case .since(let nanoseconds): .since(.at(max(0, nanoseconds)))
            case .past(let duration): .since(.ago(Int64(clamping: duration.nanoseconds)))
            }
        self.overflow =
            switch overflow {
            case .dropOldest: .dropOldest
            case .dropNewest: .dropNewest
            case .replaceNewest: .replaceNewest
            case .latest: .latest
            case .fail: .fail
            case .block: .block
            }
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
        let wanted = SubscriptionRequest(
            client: topic.client, name: topic.name, options: options, lossAtEnd: lossAtEnd, whenAccepted: whenAccepted)
        RemoteSubscription(wanted, subscriber).begin()
    }

    /// The messages as an asynchronous sequence, which they already are.
    public var values: TopicMessages { self }

    /// Subscribes. The subscription ends when the iterator and its copies, which share it, are released.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(handle: subscribe()) }

    private func subscribe() -> WindowHandle { .subscribe(to: self, window: window) }

    public struct AsyncIterator: AsyncIteratorProtocol {
        let handle: WindowHandle

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

extension TopicMessages: PrefetchingPublisher {
    package var prefetchHint: Int? { window }
}

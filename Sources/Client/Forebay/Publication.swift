// Publication: all values of a publisher, published on a channel. The demand of the publisher is the credit that the
// broker grants.

import Client
import StreamsCore
import Synchronization

/// What the end of a publisher means for the topic to which it is published.
public enum PublicationEnd: Equatable, Sendable {
    /// Nothing: only the channel ends.
    case channel
    /// The topic completes when the publisher finishes, and fails when the publisher fails.
    case topic
}

extension Publisher where Output == OutgoingMessage {
    /// Publishes every message with its content type and headers; otherwise like `publish(to:ending:)` of a publisher
    /// of bytes. A content type or headers that exceed their limits end the publication with `.invalid`, as a failure
    /// of the publisher would.
    ///
    /// - Parameters:
    ///   - topic: the topic to publish to.
    ///   - ending: what the publisher's end means for the topic.
    public func publish(to topic: Topic, ending: PublicationEnd = .channel) -> Publication {
        let channel = ChannelActivity<Failure>(topic, ending)
        subscribe(channel)
        channel.begin()
        return Publication(channel.progress) { channel.cancel() }
    }
}

extension Publisher where Output == [UInt8] {
    /// Publishes each value as one message. Starts at once and continues until the publisher ends or fails or the
    /// publication is cancelled; the program does not need to keep a reference to it.
    ///
    /// The publisher is asked for one value, which opens a channel, and after that for what the broker grants. The
    /// publisher is never further ahead than that, and while the topic has no room it is asked for nothing. Requests
    /// are made on the client's thread; a publisher that delivers values while it is asked for them is called there.
    ///
    /// If the connection is lost, requested values wait for the next one. Values that were sent but not acknowledged
    /// are sent again, and the topic may then contain them twice: publishing is at least once. If there are such values
    /// and `ForebayOptions.repeatsPublishes` is false, the publication fails with `.outcomeUnknown` instead.
    ///
    /// A publisher that does not wait for demand, such as a `PassthroughSubject`, loses the values that it sends beyond
    /// the demand, and the publication does not fail. Publish a `BufferSubject` instead, or buffer the publisher's
    /// values.
    ///
    /// When the publisher fails, the values that it has already delivered are published and acknowledged first.
    ///
    /// - Parameters:
    ///   - topic: the topic to publish to.
    ///   - ending: what the publisher's end means for the topic.
    public func publish(to topic: Topic, ending: PublicationEnd = .channel) -> Publication {
        map { OutgoingMessage($0) }.publish(to: topic, ending: ending)
    }
}

extension Publisher where Output == String {
    /// Publishes every text as UTF-8; otherwise like `publish(to:ending:)` of a publisher of bytes.
    ///
    /// - Parameters:
    ///   - topic: the topic to publish to.
    ///   - ending: what the publisher's end means for the topic.
    public func publish(to topic: Topic, ending: PublicationEnd = .channel) -> Publication {
        map { OutgoingMessage($0) }.publish(to: topic, ending: ending)
    }
}

extension Publisher {
    /// Values of other types cannot be published directly: map them to `[UInt8]`, `String` or ``OutgoingMessage``.
    @available(*, unavailable, message: "map its values to [UInt8], String or OutgoingMessage first")
    public func publish(to topic: Topic, ending: PublicationEnd = .channel) -> Publication { preconditionFailure() }
}

extension Topic {
    /// Publishes every text of a sequence as UTF-8, like `publish(contentsOf:ending:)` of a sequence of bytes.
    ///
    /// - Returns: the number of messages that the broker accepted.
    /// - Throws: the same as `Publication.result()`.
    @discardableResult
    public func publish<Elements: AsyncSequence & Sendable>(
        contentsOf elements: Elements, ending: PublicationEnd = .channel
    ) async throws -> UInt64 where Elements.Element == String {
        try await elements.publisher.publish(to: self, ending: ending).result()
    }

    /// Publishes every message of a sequence, like `publish(contentsOf:ending:)` of a sequence of bytes.
    ///
    /// - Returns: the number of messages that the broker accepted.
    /// - Throws: the same as `Publication.result()`.
    @discardableResult
    public func publish<Elements: AsyncSequence & Sendable>(
        contentsOf elements: Elements, ending: PublicationEnd = .channel
    ) async throws -> UInt64 where Elements.Element == OutgoingMessage {
        try await elements.publisher.publish(to: self, ending: ending).result()
    }

    /// Publishes every element of a sequence and waits until the broker has accepted all of them. An element is taken
    /// from the sequence when the broker has granted credit for it; see `Publisher.publish(to:ending:)`. Cancelling the
    /// task cancels the sequence and the channel, and discards elements that were not accepted.
    ///
    /// - Returns: the number of messages that the broker accepted.
    /// - Throws: the same as `Publication.result()`.
    @discardableResult
    public func publish<Elements: AsyncSequence & Sendable>(
        contentsOf elements: Elements, ending: PublicationEnd = .channel
    ) async throws -> UInt64 where Elements.Element == [UInt8] {
        try await elements.publisher.publish(to: self, ending: ending).result()
    }
}

extension Topic {
    /// Elements of other types cannot be published directly: map them to `[UInt8]`, `String` or ``OutgoingMessage``.
    @available(*, unavailable, message: "map its elements to [UInt8], String or OutgoingMessage first")
    @discardableResult
    public func publish<Elements: AsyncSequence & Sendable>(
        contentsOf elements: Elements, ending: PublicationEnd = .channel
    ) async throws -> UInt64 { preconditionFailure() }

    /// Publish a synchronous sequence through its publisher.
    @available(
        *, unavailable, message: "publish the sequence's publisher: elements.publisher.publish(to: topic).result()"
    )
    @discardableResult
    public func publish<Elements: Sequence>(
        contentsOf elements: Elements, ending: PublicationEnd = .channel
    ) async throws -> UInt64 { preconditionFailure() }
}

/// A publisher that is being published. As a publisher itself, it delivers one value when the broker has accepted all
/// messages: their number.
public final class Publication: Publisher, Cancellable, Sendable {
    public typealias Output = UInt64
    public typealias Failure = ForebayError

    private let progress: PublicationProgress
    private let stop: @Sendable () -> Void

    fileprivate init(_ progress: PublicationProgress, stop: @escaping @Sendable () -> Void) {
        self.progress = progress
        self.stop = stop
    }

    /// The number of messages that the broker has acknowledged so far.
    public var acknowledged: UInt64 { progress.acknowledged.load(ordering: .relaxed) }

    /// Cancels the publisher and abandons the channel. Messages that the broker has not accepted are lost.
    public func cancel() { stop() }

    /// Waits until everything is accepted. Cancelling the task cancels the publication.
    /// - Returns: the number of messages that the broker accepted.
    /// - Throws: a ``ForebayError``: `.upstreamFailed`, `.rejected`, `.invalid`, `.outcomeUnknown`, `.busy`,
    ///   `.cancelled` after ``cancel()``, or the error that ends the client; its `acknowledged` is the number of
    ///   messages accepted until then. `CancellationError` if the task is cancelled: ``acknowledged`` is still
    ///   available.
    public func result() async throws -> UInt64 {
        let result = await withTaskCancellationHandler {
            await progress.outcome.wait()
        } onCancel: {
            stop()
        }
        do {
            return try result.get()
        } catch {
            if error.code == .cancelled, Task.isCancelled { throw CancellationError() }
            throw error
        }
    }

    public func receive<S: Subscriber>(subscriber: S) where S.Input == UInt64, S.Failure == ForebayError {
        progress.future.receive(subscriber: subscriber)
    }
}

/// The progress of a publication, for those who wait for it.
final class PublicationProgress: Sendable {
    let acknowledged = Atomic<UInt64>(0)
    let outcome = OneShot<Result<UInt64, ForebayError>>()
    let future: Future<UInt64, ForebayError>
    private let fulfill: @Sendable (Result<UInt64, ForebayError>) -> Void

    init() {
        var fulfill: (@Sendable (Result<UInt64, ForebayError>) -> Void)?
        future = Future { promise in
            let kept = Promise(fulfill: promise)
            fulfill = { kept.fulfill($0) }
        }
        self.fulfill = fulfill ?? { _ in }
    }

    /// Sets the result; only the first one counts.
    func resolve(_ result: Result<UInt64, ForebayError>) {
        outcome.resolve(result)
        fulfill(result)
    }

    /// A promise may be fulfilled on any thread, but its type does not express that.
    private struct Promise: @unchecked Sendable {
        let fulfill: Future<UInt64, ForebayError>.Promise
    }
}

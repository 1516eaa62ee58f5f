// Publication: all values of a publisher, published on a channel. What the publisher is asked for is what the broker
// has granted.

import Client
import StreamsCore
import Synchronization

/// What the end of a publisher that is published means to the topic.
public enum PublicationEnd: Equatable, Sendable {
    /// Nothing: the channel alone ends.
    case channel
    /// The topic is completed when the publisher finishes, and failed when it fails.
    case topic
}

extension Publisher where Output == OutgoingMessage {
    /// Publishes every message, with what goes with it; otherwise as `publish(to:ending:)` of a publisher of bytes. A
    /// content type or headers out of their bounds end it as a failure of the publisher does, with `.invalid`.
    ///
    /// - Parameters:
    ///   - topic: where to.
    ///   - ending: what the publisher's end means to the topic.
    public func publish(to topic: Topic, ending: PublicationEnd = .channel) -> Publication {
        let channel = ChannelActivity<Failure>(topic, ending)
        subscribe(channel)
        channel.begin()
        return Publication(channel.progress) { channel.cancel() }
    }
}

extension Publisher where Output == [UInt8] {
    /// Publishes every value, as one message each. Begins at once, and goes on until the publisher ends, it fails, or
    /// it is cancelled; nobody has to hold on to it.
    ///
    /// The publisher is asked for one value, which opens a channel, and after that for what the broker grants: it is
    /// never further ahead than that, and a topic without room asks for nothing. Demand is made on the client's thread,
    /// and a publisher that delivers from within is called there.
    ///
    /// When the connection is lost, values that were asked for wait for the next one. Those that were sent and not
    /// acknowledged are sent again, and the topic may then have them twice: publishing is at least once. Where
    /// `ForebayOptions.repeatsPublishes` is false, and there are any, the publication fails with `.outcomeUnknown`
    /// instead.
    ///
    /// A publisher that does not wait for demand, such as a `PassthroughSubject`, loses what it sends beyond the
    /// demand, and the publication does not fail. Publish a `BufferSubject`, or put a buffer behind the publisher.
    ///
    /// When the publisher fails, what it had delivered is published and acknowledged first.
    ///
    /// - Parameters:
    ///   - topic: where to.
    ///   - ending: what the publisher's end means to the topic.
    public func publish(to topic: Topic, ending: PublicationEnd = .channel) -> Publication {
        map { OutgoingMessage($0) }.publish(to: topic, ending: ending)
    }
}

extension Publisher where Output == String {
    /// Publishes every text as UTF-8; otherwise as `publish(to:ending:)` of a publisher of bytes.
    ///
    /// - Parameters:
    ///   - topic: where to.
    ///   - ending: what the publisher's end means to the topic.
    public func publish(to topic: Topic, ending: PublicationEnd = .channel) -> Publication {
        map { OutgoingMessage($0) }.publish(to: topic, ending: ending)
    }
}

extension Publisher {
    /// Values of other types have no bytes of their own: map them to `[UInt8]`, `String` or ``OutgoingMessage``.
    @available(*, unavailable, message: "map its values to [UInt8], String or OutgoingMessage first")
    public func publish(to topic: Topic, ending: PublicationEnd = .channel) -> Publication { preconditionFailure() }
}

extension Topic {
    /// Publishes every text of a sequence as UTF-8, as `publish(contentsOf:ending:)` of a sequence of bytes does.
    ///
    /// - Returns: how many messages were accepted.
    /// - Throws: as `Publication.result()`.
    @discardableResult
    public func publish<Elements: AsyncSequence & Sendable>(
        contentsOf elements: Elements, ending: PublicationEnd = .channel
    ) async throws -> UInt64 where Elements.Element == String {
        try await elements.publisher.publish(to: self, ending: ending).result()
    }

    /// Publishes every message of a sequence, as `publish(contentsOf:ending:)` of a sequence of bytes does.
    ///
    /// - Returns: how many messages were accepted.
    /// - Throws: as `Publication.result()`.
    @discardableResult
    public func publish<Elements: AsyncSequence & Sendable>(
        contentsOf elements: Elements, ending: PublicationEnd = .channel
    ) async throws -> UInt64 where Elements.Element == OutgoingMessage {
        try await elements.publisher.publish(to: self, ending: ending).result()
    }

    /// Publishes every element of a sequence, and waits until the broker has accepted all. An element is taken when the
    /// broker has granted it; see `Publisher.publish(to:ending:)`. Cancelling the task cancels the sequence's and the
    /// channel, and loses what was not accepted.
    ///
    /// - Returns: how many messages were accepted.
    /// - Throws: as `Publication.result()`.
    @discardableResult
    public func publish<Elements: AsyncSequence & Sendable>(
        contentsOf elements: Elements, ending: PublicationEnd = .channel
    ) async throws -> UInt64 where Elements.Element == [UInt8] {
        try await elements.publisher.publish(to: self, ending: ending).result()
    }
}

extension Topic {
    /// Elements of other types have no bytes of their own: map them to `[UInt8]`, `String` or ``OutgoingMessage``.
    @available(*, unavailable, message: "map its elements to [UInt8], String or OutgoingMessage first")
    @discardableResult
    public func publish<Elements: AsyncSequence & Sendable>(
        contentsOf elements: Elements, ending: PublicationEnd = .channel
    ) async throws -> UInt64 { preconditionFailure() }

    /// A sequence that is not asynchronous has a publisher, which is published.
    @available(
        *, unavailable, message: "publish the sequence's publisher: elements.publisher.publish(to: topic).result()"
    )
    @discardableResult
    public func publish<Elements: Sequence>(
        contentsOf elements: Elements, ending: PublicationEnd = .channel
    ) async throws -> UInt64 { preconditionFailure() }
}

/// A publisher that is being published. As a publisher itself it delivers one value, how many messages the broker has
/// accepted, when all are.
public final class Publication: Publisher, Cancellable, Sendable {
    public typealias Output = UInt64
    public typealias Failure = ForebayError

    private let progress: PublicationProgress
    private let stop: @Sendable () -> Void

    fileprivate init(_ progress: PublicationProgress, stop: @escaping @Sendable () -> Void) {
        self.progress = progress
        self.stop = stop
    }

    /// Messages that the broker has accepted so far, as far as it has told.
    public var acknowledged: UInt64 { progress.acknowledged.load(ordering: .relaxed) }

    /// Cancels the publisher and gives the channel up. What the broker has not accepted is lost.
    public func cancel() { stop() }

    /// Waits until everything is accepted. Cancelling the task cancels the publication.
    /// - Returns: how many messages were accepted.
    /// - Throws: a ``ForebayError``: `.upstreamFailed`, `.rejected`, `.invalid`, `.outcomeUnknown`, `.busy`,
    ///   `.cancelled` after ``cancel()``, and whatever the client dies of; `acknowledged` of it tells how many had been
    ///   accepted.
    ///   `CancellationError` when the task is cancelled: ``acknowledged`` still tells.
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

/// How far a publication is, for those who wait for it.
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

    /// The first result counts.
    func resolve(_ result: Result<UInt64, ForebayError>) {
        outcome.resolve(result)
        fulfill(result)
    }

    /// A promise may be kept on any thread, which its type does not say.
    private struct Promise: @unchecked Sendable {
        let fulfill: Future<UInt64, ForebayError>.Promise
    }
}

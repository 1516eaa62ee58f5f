// PatternMessages: the messages of all topics that match a pattern, as one subscription.

import Client
import ForebayWire
import StreamsCore

/// The topics of a broker that match a pattern, to subscribe to.
public struct Topics: Sendable {
    /// The client whose connection is used.
    public let client: ForebayClient
    /// The pattern as passed to ``ForebayClient/topics(_:)``.
    public let pattern: String

    /// The messages of all topics that match the pattern, now or later. Each subscriber and each iteration has its own
    /// subscription. ``Message/topic`` names a message's topic.
    ///
    /// One demand counts for all topics. Topics with messages take turns, one message each, and within a topic messages
    /// keep their order. The parameters count for each topic; a topic that is created later is received from its first
    /// message. The end of a topic does not end the messages. It is not reported, nor is what was lost just before it.
    /// As a `Publisher` and as an `AsyncSequence` they request messages like
    /// ``Topic/messages(replay:buffer:overflow:window:)``.
    ///
    /// If the connection is lost, the subscription continues in each topic after its last message, and unmet demand is
    /// requested again. No message arrives twice, and none is lost that its topic still holds. This needs a position in
    /// each topic. Topics without one begin where `replay` says if that is `.all` or a time, otherwise at the time of
    /// the newest message received: older ones that were still waiting at the broker are lost.
    ///
    /// Topics that have delivered no message have no position. Of the others, the 10,000 with the newest messages have
    /// one, and fewer if they take more than 1 MiB or than the broker accepts. If some are missing, all topics without
    /// one begin at the time of the newest message.
    ///
    /// The ``Message/gap`` of a topic's next message reports a loss: with the number, or as
    /// ``Gap/Cause/newEpoch(previous:)``, if the topic has delivered a message before; otherwise as
    /// ``Gap/Cause/reconnected``, unless the message is the topic's first.
    ///
    /// - Parameters:
    ///   - replay: where to begin in each topic. `.from` fails the subscription with `.invalid`, because each topic has
    ///     its own sequences.
    ///   - buffer: how many messages may wait at the broker for each topic, 1 to 2³¹−1; nil for the broker's default
    ///     (1,024).
    ///   - overflow: what happens when a topic's buffer is full. `.fail` ends the subscription. `.block` fails it with
    ///     `.invalid`, because one slow subscriber would stop every publisher.
    ///   - window: how many messages an iteration requests in advance, or `receive(on:)` holds, 1 to 2³¹−2; an
    ///     iteration with another value fails with `.invalid`.
    public func messages(
        replay: Replay = .none, buffer: UInt32? = nil, overflow: Overflow = .dropOldest, window: Int = 256
    ) -> PatternMessages {
        PatternMessages(topics: self, options: SubscribeOptions(replay, buffer, overflow), window: window)
    }
}

/// The messages of all topics that match a pattern, as a publisher and as an asynchronous sequence.
///
/// The messages finish only if the pattern is the name of a single topic. They fail with `.overflow`, `.rejected`,
/// `.invalid`, `.messageTooLarge`, `.protocolViolation`, `.busy`, or with the error that ends the client.
public struct PatternMessages: Publisher, AsyncSequence, Sendable {
    public typealias Output = Message
    public typealias Element = Message
    public typealias Failure = ForebayError
    public typealias AsyncIterator = TopicMessages.AsyncIterator

    /// The topics of these messages.
    public let topics: Topics
    let options: SubscribeOptions
    let window: Int

    public func receive<S: Subscriber>(subscriber: S) where S.Input == Message, S.Failure == ForebayError {
        let wanted = SubscriptionRequest(
            client: topics.client, name: topics.pattern, isPattern: TopicName.isPattern(topics.pattern),
            options: options)
        RemoteSubscription(wanted, subscriber).begin()
    }

    /// The messages as an asynchronous sequence, which they already are.
    public var values: PatternMessages { self }

    /// Subscribes. The subscription ends when the iterator and its copies, which share it, are released.
    public func makeAsyncIterator() -> TopicMessages.AsyncIterator {
        TopicMessages.AsyncIterator(handle: .subscribe(to: self, window: window))
    }
}

extension PatternMessages: PrefetchingPublisher {
    package var prefetchHint: Int? { window }
}

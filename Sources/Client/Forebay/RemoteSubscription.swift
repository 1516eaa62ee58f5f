// RemoteSubscription: the subscription of one subscriber to a topic of the broker.
//
// The subscriber is called on the client's thread alone, with no lock held. What it asks for goes into a mailbox, and
// from there to the broker, in the order in which the program asked for it and for other things.

import Client
import RSocket
import StreamsCore
import Synchronization

final class RemoteSubscription<Downstream: Subscriber>: Activity, Subscription, CustomStringConvertible,
    @unchecked Sendable
where Downstream.Input == Message, Downstream.Failure == ForebayError {
    fileprivate let topic: Topic
    private let lossAtEnd: (@Sendable (Gap) -> Void)?
    private let whenTaken: (@Sendable (ForebayError?) -> Void)?

    /// The subscriber, if it wants to know when a turn ends.
    private weak let turns: (any TurnSubscriber)?

    private let lock = Lock()
    /// Until the end, or until it is cancelled. Under the lock.
    private var downstream: Downstream?
    /// Asked for, and not yet known to the client's thread. Under the lock.
    private var requested = Subscribers.Demand.none

    private let isCancelled = Atomic<Bool>(false)
    /// The client's thread alone.
    private var state: SubscriptionState
    /// Whoever waits for the broker to take the subscription was told what became of it. The client's thread alone.
    private var isSettled = false

    var description: String { "TopicMessages" }

    init(_ messages: TopicMessages, _ downstream: Downstream) {
        topic = messages.topic
        lossAtEnd = messages.lossAtEnd
        whenTaken = messages.whenTaken
        self.downstream = downstream
        turns = downstream.turns
        state = SubscriptionState(messages.options)
        super.init(messages.topic.client.core)
        turns?.expectTurns()
    }

    /// Hands the subscriber its subscription, and then begins.
    func begin() {
        lock.with { downstream }?.receive(subscription: self)
        do throws(ForebayError) {
            try start()
        } catch {
            close(error)
        }
    }

    func request(_ demand: Subscribers.Demand) {
        guard demand > .none, !isCancelled.load(ordering: .relaxed) else { return }
        lock.with { requested += demand }
        notify()
    }

    func cancel() {
        isCancelled.store(true, ordering: .sequentiallyConsistent)
        let released = lock.with { downstream.take() }
        _ = released
        notify()
    }

    // MARK: The client's thread

    override func attend(_ loop: ClientLoop) {
        if isCancelled.load(ordering: .sequentiallyConsistent) { return loop.finish(self) }
        let more = lock.with {
            defer { requested = .none }
            return requested
        }
        state.request(more)
        // At once: a publish that the program makes after this is to find the subscription at the broker.
        settle(loop)
    }

    override func connected(_ loop: ClientLoop) { settle(loop) }

    /// Asks the broker for what is due; of what the subscriber asks for while it is called, once a turn.
    override func settle(_ loop: ClientLoop) {
        if let turns { state.request(turns.turnEnded()) }
        guard !isCancelled.load(ordering: .relaxed) else { return }
        guard let connection = loop.connection else { return }
        if let stream {
            let n = state.credit()
            if n > 0 { connection.requestN(stream, n) }
        } else if loop.takesStreams, let (options, n) = state.opening() {
            guard loop.hasRoom else { return fail(loop.noRoom, loop) }
            do throws(ClientError) {
                loop.bind(try connection.subscribe(topic.name, options, n: n), self)
                if whenTaken != nil, !isSettled { loop.probe(SubscriptionProbe(self)) }
            } catch {
                state.lost()
                // The end of the connection is told in its own way.
                if !error.endsConnection { fail(ForebayError(stream: error), loop) }
            }
        }
    }

    /// Whoever waits for the broker to take the subscription does not know yet what became of it.
    fileprivate var isUnsettled: Bool { !isSettled && !isOver && !isCancelled.load(ordering: .relaxed) }

    /// The broker has the subscription, or has refused it.
    fileprivate func settled(_ error: ForebayError?) {
        guard !isSettled, !isCancelled.load(ordering: .sequentiallyConsistent) else { return }
        isSettled = true
        whenTaken?(error)
    }

    override func receive(_ message: ClientEvent.Message, _ loop: ClientLoop) {
        guard !isCancelled.load(ordering: .relaxed), let downstream = lock.with({ downstream }) else { return }
        guard let info = message.info else {
            return fail(ForebayError(.protocolViolation, "The broker did not tell a message's sequence."), loop)
        }
        settled(nil)
        loop.mark(self)
        let verdict = state.receive(epoch: info.epoch, sequence: info.sequence, dropped: info.dropped)
        guard case .deliver(let gap) = verdict else { return }
        let received = Message(
            payload: Array(message.data), sequence: info.sequence, epoch: info.epoch, timestamp: info.timestamp,
            gap: gap, metadata: message.metadata.map(MessageInfo.remove(from:)) ?? [])
        state.request(downstream.receive(received))
    }

    override func completed(dropped: UInt64, _ loop: ClientLoop) {
        loop.unbind(self)
        loop.finish(self)
        guard !isCancelled.load(ordering: .sequentiallyConsistent) else { return }
        settled(nil)
        if dropped > 0 { lossAtEnd?(Gap(.dropped, lost: dropped)) }
        deliver(.finished)
    }

    override func failed(_ error: ClientError, _ loop: ClientLoop) { fail(ForebayError(stream: error), loop) }

    private func fail(_ error: ForebayError, _ loop: ClientLoop) {
        loop.finish(self)
        deliver(.failure(error))
    }

    override func lost(_ loop: ClientLoop) { state.lost() }

    override func close(_ error: ForebayError) { deliver(.failure(error)) }

    private func deliver(_ completion: Subscribers.Completion<ForebayError>) {
        let downstream = lock.with { self.downstream.take() }
        if case .failure(let error) = completion { settled(error) }
        if !isCancelled.load(ordering: .sequentiallyConsistent) { downstream?.receive(completion: completion) }
    }
}

/// Asks the broker whether a topic is there, after a subscription to it. The answer comes from the part of the broker
/// that owns the topic, and so tells that the subscription is in force there. It has a stream, and no place among the
/// activities of the client: with the connection it is forgotten, and the subscription asks again on the next one.
final class SubscriptionProbe: Activity, @unchecked Sendable {
    private let topic: String
    private let settled: (ForebayError?) -> Void
    private let isUnsettled: () -> Bool

    init<Downstream>(_ subscription: RemoteSubscription<Downstream>) {
        topic = subscription.topic.name
        settled = { [weak subscription] in subscription?.settled($0) }
        isUnsettled = { [weak subscription] in subscription?.isUnsettled ?? false }
        super.init(subscription.core)
    }

    override var isProbe: Bool { true }

    /// Somebody still waits for the answer.
    var isWanted: Bool { isUnsettled() }

    func ask(_ connection: any ClientConnection) throws(ClientError) -> StreamID {
        try connection.call(.topicInfo(topic))
    }

    override func receive(_ message: ClientEvent.Message, _ loop: ClientLoop) { settled(nil) }

    override func completed(dropped: UInt64, _ loop: ClientLoop) {
        loop.unbind(self)
        settled(nil)
    }

    /// It was answered in any case. If the subscription was refused too, that was told before.
    override func failed(_ error: ClientError, _ loop: ClientLoop) { settled(nil) }

    override func turnedAway(_ loop: ClientLoop) {}
}

// RemoteSubscription: a subscriber's subscription to a topic of the broker, or to a pattern.
//
// The subscriber is called only on the client's thread, with no lock held. Its demand goes to the broker through a
// mailbox, which keeps all requests of the program in order.

import Client
import ForebayWire
import RSocket
import StreamsCore
import Synchronization

/// What a subscriber wants from the broker.
struct SubscriptionRequest: Sendable {
    let client: ForebayClient
    /// A topic's name or a pattern.
    let name: String
    /// Whether `name` selects topics, so that each message names its own.
    var isPattern = false
    let options: SubscribeOptions
    var lossAtEnd: (@Sendable (Gap) -> Void)?
    /// Called once, with nil if the broker has accepted the subscription, otherwise with the reason why not.
    var whenAccepted: (@Sendable (ForebayError?) -> Void)?
}

final class RemoteSubscription<Downstream: Subscriber>: Activity, Subscription, CustomStringConvertible,
    @unchecked Sendable
where Downstream.Input == Message, Downstream.Failure == ForebayError {
    private let wanted: SubscriptionRequest

    /// The subscriber, if it wants to be notified at the end of a turn.
    private weak let turns: (any TurnSubscriber)?

    private let lock = Lock()
    /// Set until the subscription ends or is cancelled. Under the lock.
    private var downstream: Downstream?
    /// Demand that the client's thread has not seen yet. Under the lock.
    private var requested = Subscribers.Demand.none

    private let isCancelled = Atomic<Bool>(false)
    /// Used only on the client's thread.
    private var state: SubscriptionState
    /// Whether the tasks waiting for the broker to accept the subscription have been notified. Used only on the
    /// client's thread.
    private var isConfirmed = false

    var description: String { wanted.isPattern ? "PatternMessages" : "TopicMessages" }

    init(_ wanted: SubscriptionRequest, _ downstream: Downstream) {
        self.wanted = wanted
        self.downstream = downstream
        turns = downstream.turns
        state = SubscriptionState(wanted.options, ofPattern: wanted.isPattern)
        super.init(wanted.client.core)
        turns?.expectTurns()
    }

    /// Gives the subscriber its subscription, then starts.
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
        // Immediately, so that a later publish of the program finds the subscription at the broker.
        flush(loop)
    }

    override func connected(_ loop: ClientLoop) { flush(loop) }

    /// Sends the broker the requests that are due. Requests that the subscriber makes while it is being called are sent
    /// once per turn.
    override func flush(_ loop: ClientLoop) {
        if let turns { state.request(turns.turnEnded()) }
        guard !isCancelled.load(ordering: .relaxed) else { return }
        guard let connection = loop.connection else { return }
        if let stream {
            let n = state.credit()
            if n > 0 { connection.requestN(stream, n) }
        } else if loop.takesStreams, let (options, n) = state.opening() {
            guard loop.hasRoom else { return fail(loop.noRoom, loop) }
            do throws(ClientError) {
                loop.bind(try connection.subscribe(wanted.name, options, n: n), self)
            } catch {
                state.lost()
                // A lost connection is reported separately.
                if !error.endsConnection { fail(ForebayError(stream: error), loop) }
            }
        }
    }

    /// Notifies waiting tasks that the broker has accepted or refused the subscription.
    private func confirm(_ error: ForebayError?) {
        guard !isConfirmed, !isCancelled.load(ordering: .sequentiallyConsistent) else { return }
        isConfirmed = true
        wanted.whenAccepted?(error)
    }

    override func opened(_ position: OpeningPosition, _ loop: ClientLoop) {
        state.opened(position)
        confirm(nil)
    }

    override func receive(_ message: ClientEvent.Message, _ loop: ClientLoop) {
        guard !isCancelled.load(ordering: .relaxed), let downstream = lock.with({ downstream }) else { return }
        guard let info = message.info else {
            return fail(ForebayError(.protocolViolation, "The broker sent a message without its sequence."), loop)
        }
        guard let topic = wanted.isPattern ? info.topic : wanted.name else {
            return fail(ForebayError(.protocolViolation, "The broker sent a message without its topic."), loop)
        }
        confirm(nil)
        loop.mark(self)
        let verdict = state.receive(info)
        guard case .deliver(let gap) = verdict else { return }
        let received = Message(
            payload: Array(message.data), topic: topic, sequence: info.sequence, epoch: info.epoch,
            timestamp: info.timestamp, gap: gap, metadata: message.metadata.map(info.removeOwn(from:)) ?? [])
        state.request(downstream.receive(received))
    }

    override func completed(dropped: UInt64, _ loop: ClientLoop) {
        loop.unbind(self)
        loop.finish(self)
        guard !isCancelled.load(ordering: .sequentiallyConsistent) else { return }
        confirm(nil)
        if dropped > 0 { wanted.lossAtEnd?(Gap(.dropped, lost: dropped)) }
        deliver(.finished)
    }

    override func failed(_ error: ClientError, _ loop: ClientLoop) {
        if state.refused(error) { flush(loop) } else { fail(ForebayError(stream: error), loop) }
    }

    private func fail(_ error: ForebayError, _ loop: ClientLoop) {
        loop.finish(self)
        deliver(.failure(error))
    }

    override func lost(_ loop: ClientLoop) { state.lost() }

    override func close(_ error: ForebayError) { deliver(.failure(error)) }

    private func deliver(_ completion: Subscribers.Completion<ForebayError>) {
        let downstream = lock.with { self.downstream.take() }
        if case .failure(let error) = completion { confirm(error) }
        if !isCancelled.load(ordering: .sequentiallyConsistent) { downstream?.receive(completion: completion) }
    }
}

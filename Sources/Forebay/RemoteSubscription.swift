// RemoteSubscription: the subscription of one subscriber to a topic of the broker.
//
// The subscriber is called on the client's thread alone, with no lock held. What it asks for goes into a mailbox, and
// from there to the broker.

import Client
import RSocket
import StreamsCore
import Synchronization

final class RemoteSubscription<Downstream: Subscriber>: Activity, Subscription, CustomStringConvertible,
    @unchecked Sendable
where Downstream.Input == Message, Downstream.Failure == ForebayError {
    private let topic: Topic
    private let lossAtEnd: (@Sendable (Gap) -> Void)?

    private let lock = Lock()
    /// Until the end, or until it is cancelled. Under the lock.
    private var downstream: Downstream?
    /// Asked for, and not yet known to the client's thread. Under the lock.
    private var requested = Subscribers.Demand.none

    private let isCancelled = Atomic<Bool>(false)
    /// The client's thread alone.
    private var state: SubscriptionState

    var description: String { "TopicMessages" }

    init(_ messages: TopicMessages, _ downstream: Downstream) {
        topic = messages.topic
        lossAtEnd = messages.lossAtEnd
        self.downstream = downstream
        state = SubscriptionState(messages.options)
        super.init(messages.topic.client.core)
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
        loop.mark(self)
    }

    override func connected(_ loop: ClientLoop) { loop.mark(self) }

    /// Asks the broker for what is due, once a turn.
    override func settle(_ loop: ClientLoop) {
        guard !isCancelled.load(ordering: .relaxed) else { return }
        guard let connection = loop.connection else { return }
        if let stream {
            let n = state.credit()
            if n > 0 { connection.requestN(stream, n) }
        } else if loop.takesStreams, let (options, n) = state.opening() {
            do throws(ClientError) {
                loop.bind(try connection.subscribe(topic.name, options, n: n), self)
            } catch {
                state.lost()
                // The end of the connection is told in its own way.
                if !error.endsConnection { fail(ForebayError(stream: error), loop) }
            }
        }
    }

    override func receive(_ message: ClientEvent.Message, _ loop: ClientLoop) {
        guard !isCancelled.load(ordering: .relaxed), let downstream = lock.with({ downstream }) else { return }
        guard let info = message.info else {
            return fail(ForebayError(.protocolViolation, "The broker did not tell a message's sequence."), loop)
        }
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
        if !isCancelled.load(ordering: .sequentiallyConsistent) { downstream?.receive(completion: completion) }
    }
}

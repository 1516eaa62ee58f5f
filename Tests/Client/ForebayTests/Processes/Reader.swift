// Reader: a subscription whose deliveries are checked as they arrive, as an asynchronous sequence or as a publisher;
// and Numbers: values to be published until `stop` is called.

import Streams
import Synchronization
import Testing

@testable import Forebay

final class Reader: Sendable {
    enum Form: CaseIterable, Sendable { case sequence, publisher }

    let form: Form
    private let history: Guarded<History>
    private let failure = Guarded<ForebayError?>(nil)
    private let task = Guarded<Task<Void, Never>?>(nil)
    private let subscriber = Guarded<Batches?>(nil)
    /// A sequence number that the topic has not exceeded; nil if unknown.
    private let newest: @Sendable () -> UInt64?

    /// Subscribes to everything that the topic retains.
    init(
        _ form: Form, _ topic: Topic, retained: Int, buffer: UInt32, newest: @escaping @Sendable () -> UInt64? = { nil }
    ) {
        self.form = form
        self.newest = newest
        history = Guarded(History(retained: retained, isWhole: true))
        let messages = topic.messages(replay: .all, buffer: buffer, window: 64)
        switch form {
        case .sequence:
            let task = Task { [self] in
                do {
                    for try await message in messages { take(message) }
                } catch {
                    fail(error as? ForebayError)
                }
            }
            self.task.withLock { $0 = task }
        case .publisher:
            let batches = Batches(self)
            subscriber.withLock { $0 = batches }
            messages.subscribe(batches)
        }
    }

    var seen: History { history.withLock { $0 } }
    var error: ForebayError? { failure.withLock { $0 } }

    /// The number of messages received in the epoch with this index.
    func count(epoch: Int) -> Int {
        history.withLock { $0.epochs.count > epoch ? $0.numbers[epoch].count : 0 }
    }

    func cancel() {
        task.withLock { $0 }?.cancel()
        subscriber.withLock { $0.take() }?.cancel()
    }

    fileprivate func take(_ message: Message) {
        let newest = newest()
        history.withLock { $0.take(message, newest: newest) }
    }

    fileprivate func fail(_ error: ForebayError?) { failure.withLock { $0 = error } }

    /// Requests 40 messages, and again when 25 of them have arrived.
    private final class Batches: Subscriber, @unchecked Sendable {
        typealias Input = Message
        typealias Failure = ForebayError

        private let reader: Reader
        /// Set before anything else happens.
        private var subscription: (any Subscription)?
        private var taken = 0

        init(_ reader: Reader) { self.reader = reader }

        func receive(subscription: any Subscription) {
            self.subscription = subscription
            subscription.request(.max(40))
        }

        func receive(_ input: Message) -> Subscribers.Demand {
            reader.take(input)
            taken += 1
            return taken % 25 == 0 ? .max(25) : .none
        }

        func receive(completion: Subscribers.Completion<ForebayError>) {
            if case .failure(let error) = completion { reader.fail(error) }
        }

        func cancel() { subscription?.cancel() }
    }
}

/// The numbers 0, 1, 2, … until `stop` is called; at most about twenty each millisecond.
final class Numbers: AsyncSequence, AsyncIteratorProtocol, @unchecked Sendable {
    typealias Element = [UInt8]

    private let isStopped = Flag()
    private let count = Atomic<Int>(0)

    /// The number of values taken.
    var made: Int { count.load(ordering: .sequentiallyConsistent) }

    func stop() { isStopped.set() }
    func makeAsyncIterator() -> Numbers { self }

    func next() async -> [UInt8]? {
        if isStopped.isSet { return nil }
        let number = count.add(1, ordering: .sequentiallyConsistent).oldValue
        if number % 20 == 19 { try? await Task.sleep(for: .milliseconds(1)) }
        return bytes(number)
    }
}

/// A flag that is false until it is set.
final class Flag: Sendable {
    private let value = Atomic<Bool>(false)

    var isSet: Bool { value.load(ordering: .sequentiallyConsistent) }

    func set() { value.store(true, ordering: .sequentiallyConsistent) }
}

/// Waits until the condition holds.
func reached(_ condition: () throws -> Bool) async throws {
    while try !condition() { try await Task.sleep(for: .milliseconds(2)) }
}

// NaiveShareReplay: the baseline for shareReplay: a lock, an array of retained values, an array of subscribers and an
// array of values for each. This is what tutorials show, with the lock held while subscribers are called, and without
// overflow policies, re-entrancy, or an end that waits for demand.

import Glibc
import Streams

final class NaiveShareReplay<Upstream: Streams.Publisher>: Streams.Publisher, @unchecked Sendable {
    typealias Output = Upstream.Output
    typealias Failure = Upstream.Failure

    private let upstream: Upstream
    private let capacity: Int
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private var retained: [Output] = []
    private var branches: [NaiveBranch<Output, Failure>] = []
    private var isConnected = false

    init(upstream: Upstream, capacity: Int) {
        self.upstream = upstream
        self.capacity = capacity
        var attributes = pthread_mutexattr_t()
        pthread_mutexattr_init(&attributes)
        pthread_mutexattr_settype(&attributes, Int32(PTHREAD_MUTEX_RECURSIVE))
        pthread_mutex_init(mutex, &attributes)
        pthread_mutexattr_destroy(&attributes)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    private func locked(_ body: () -> Void) {
        pthread_mutex_lock(mutex)
        body()
        pthread_mutex_unlock(mutex)
    }

    func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
        let branch = NaiveBranch<Output, Failure>(
            AnySubscriber(subscriber), mutex: mutex, capacity: capacity, retained: retained)
        locked { branches.append(branch) }
        subscriber.receive(subscription: branch)
        guard !isConnected else { return }
        isConnected = true
        upstream.subscribe(
            AnySubscriber(
                receiveSubscription: { $0.request(.unlimited) },
                receiveValue: { [self] value in
                    send(value)
                    return .none
                },
                receiveCompletion: { [self] completion in
                    locked { for branch in branches { branch.subscriber.receive(completion: completion) } }
                }))
    }

    private func send(_ value: Output) {
        locked {
            retained.append(value)
            if retained.count > capacity { retained.removeFirst() }
            for branch in branches { branch.send(value) }
        }
    }
}

private final class NaiveBranch<Output, Failure: Error>: Streams.Subscription, @unchecked Sendable {
    let subscriber: AnySubscriber<Output, Failure>
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let capacity: Int
    private var waiting: [Output]
    private var demand = Subscribers.Demand.none

    init(
        _ subscriber: AnySubscriber<Output, Failure>, mutex: UnsafeMutablePointer<pthread_mutex_t>, capacity: Int,
        retained: [Output]
    ) {
        self.subscriber = subscriber
        self.mutex = mutex
        self.capacity = capacity
        waiting = retained
    }

    func send(_ value: Output) {
        waiting.append(value)
        if waiting.count > capacity { waiting.removeFirst() }
        deliver()
    }

    private func deliver() {
        while demand > .none, !waiting.isEmpty {
            demand -= 1
            demand += subscriber.receive(waiting.removeFirst())
        }
    }

    func request(_ demand: Subscribers.Demand) {
        pthread_mutex_lock(mutex)
        self.demand += demand
        deliver()
        pthread_mutex_unlock(mutex)
    }

    func cancel() {}
}

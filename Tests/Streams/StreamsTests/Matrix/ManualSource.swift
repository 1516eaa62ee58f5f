// ManualSource: the upstream of an operator under test. The source delivers its script on demand and anything that a
// test forces, and counts what is requested.

import Streams

struct TestError: Error, Hashable {}

/// Gives each subscriber the values of a script, and then the end if the script has one.
final class ManualSource: Publisher {
    typealias Output = Int
    typealias Failure = TestError

    let values: [Int]
    let end: Subscribers.Completion<TestError>?
    /// Called when a subscription has received demand, before it delivers anything.
    var onRequest: (ManualSubscription) -> Void = { _ in }
    /// One subscription for each subscriber, in order.
    private(set) var subscriptions: [ManualSubscription] = []

    init(_ values: [Int] = [], end: Subscribers.Completion<TestError>? = nil) {
        self.values = values
        self.end = end
    }

    func receive<S: Subscriber>(subscriber: S) where S.Input == Int, S.Failure == TestError {
        let subscription = ManualSubscription(AnySubscriber(subscriber), values: values, end: end)
        subscription.onRequest = { [unowned self] in onRequest($0) }
        subscriptions.append(subscription)
        subscriber.receive(subscription: subscription)
        subscription.deliver()
    }

    func releaseSubscriptions() { subscriptions = [] }
}

/// The subscription of one subscriber. The subscription releases the subscriber at the end and when cancelled.
final class ManualSubscription: Subscription, CustomStringConvertible, @unchecked Sendable {
    private(set) var asked = Subscribers.Demand.none
    private(set) var sent = 0
    private(set) var cancellations = 0
    private(set) var isOver = false
    var onRequest: (ManualSubscription) -> Void = { _ in }
    private var subscriber: AnySubscriber<Int, TestError>?
    private var script: ArraySlice<Int>
    private let end: Subscribers.Completion<TestError>?
    private var isDelivering = false

    init(_ subscriber: AnySubscriber<Int, TestError>, values: [Int], end: Subscribers.Completion<TestError>?) {
        self.subscriber = subscriber
        script = values[...]
        self.end = end
    }

    /// Requested and not delivered.
    var outstanding: Subscribers.Demand { asked - sent }

    func request(_ demand: Subscribers.Demand) {
        asked += demand
        onRequest(self)
        deliver()
    }

    func cancel() {
        cancellations += 1
        isOver = true
        subscriber = nil
    }

    /// Delivers the script within the demand; one value at a time, also for requests from within a value.
    func deliver() {
        guard !isDelivering else { return }
        isDelivering = true
        while !isOver, outstanding > .none, let value = script.popFirst() { send(value) }
        if !isOver, script.isEmpty, let end { send(completion: end) }
        isDelivering = false
    }

    /// Delivers a value, whatever the demand is.
    func send(_ value: Int) {
        guard let subscriber else { return }
        sent += 1
        let more = subscriber.receive(value)
        guard more > .none else { return }
        asked += more
        onRequest(self)
    }

    func send(completion: Subscribers.Completion<TestError>) {
        isOver = true
        subscriber.take()?.receive(completion: completion)
    }

    /// Access to the subscriber that remains after the end or cancellation, for breaking the rules. Nil if the end or
    /// the cancellation has already happened.
    var intruder: AnySubscriber<Int, TestError>? { subscriber }

    var description: String { "ManualSource" }
}

/// A publisher that never hands out a subscription.
final class Unready: Publisher {
    typealias Output = Int
    typealias Failure = TestError

    private(set) var subscriber: AnySubscriber<Int, TestError>?

    func receive<S: Subscriber>(subscriber: S) where S.Input == Int, S.Failure == TestError {
        self.subscriber = AnySubscriber(subscriber)
    }

    func releaseSubscriber() { subscriber = nil }
}

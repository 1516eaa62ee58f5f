// Recorder: a subscriber with explicit demand that records everything.

import StreamsCore

/// Records what it receives. A recorder requests nothing on its own except the initial demand, and can be used from any
/// thread.
public final class Recorder<Input, Failure: Error>: Subscriber, Cancellable, @unchecked Sendable {
    /// A recorded call.
    public enum Entry {
        /// A subscription was received.
        case subscription
        /// A value was received.
        case value(Input)
        /// The completion was received.
        case completion(Subscribers.Completion<Failure>)
    }

    private let lock = Lock()
    private let demand: Subscribers.Demand
    private let clock: (() -> VirtualTime)?

    // Protected by the lock.
    private var entries: [(entry: Entry, time: VirtualTime)] = []
    private var first: (any Subscription)?
    private var valueAction: @Sendable (Recorder, Input) -> Subscribers.Demand = { _, _ in .none }
    private var completionAction: @Sendable (Recorder, Subscribers.Completion<Failure>) -> Void = { _, _ in }
    private var subscriptionAction: @Sendable (Recorder, any Subscription) -> Void = { _, _ in }

    /// - Parameters:
    ///   - demand: the demand to request from the first subscription when it is received.
    ///   - scheduler: the clock for the times of events; without one, all times are `VirtualTime.zero`.
    public init(demand: Subscribers.Demand = .none, scheduler: VirtualTimeScheduler? = nil) {
        self.demand = demand
        clock = scheduler.map { scheduler in { scheduler.now } }
    }

    /// Called with each value after it was recorded; returns additional demand.
    public var onValue: @Sendable (Recorder, Input) -> Subscribers.Demand {
        get { lock.with { valueAction } }
        set { lock.with { valueAction = newValue } }
    }
    /// Called with each completion after it was recorded.
    public var onCompletion: @Sendable (Recorder, Subscribers.Completion<Failure>) -> Void {
        get { lock.with { completionAction } }
        set { lock.with { completionAction = newValue } }
    }
    /// Called with each subscription after it was recorded and the initial demand was requested.
    public var onSubscription: @Sendable (Recorder, any Subscription) -> Void {
        get { lock.with { subscriptionAction } }
        set { lock.with { subscriptionAction = newValue } }
    }

    public func receive(subscription: any Subscription) {
        let isFirst = record(.subscription) {
            guard first == nil else { return false }
            first = subscription
            return true
        }
        if isFirst, demand > .none { subscription.request(demand) }
        onSubscription(self, subscription)
    }

    public func receive(_ input: Input) -> Subscribers.Demand {
        record(.value(input)) {}
        return onValue(self, input)
    }

    public func receive(completion: Subscribers.Completion<Failure>) {
        record(.completion(completion)) {}
        onCompletion(self, completion)
    }

    private func record<Result>(_ entry: Entry, _ body: () -> Result) -> Result {
        let time = clock?() ?? .zero
        return lock.with {
            entries.append((entry, time))
            return body()
        }
    }

    /// Requests more values.
    public func request(_ demand: Subscribers.Demand) { subscription?.request(demand) }
    public func cancel() { subscription?.cancel() }

    /// The first subscription received.
    public var subscription: (any Subscription)? { lock.with { first } }
    /// Everything that was received.
    public var history: [Entry] { lock.with { entries.map(\.entry) } }
    /// Everything that was received, with its time on the scheduler's clock.
    public var timedHistory: [(entry: Entry, time: VirtualTime)] { lock.with { entries } }

    /// Values and completions, without subscriptions.
    public var events: [Subscribers.Event<Input, Failure>] { history.compactMap(\.event) }

    /// The values received.
    public var values: [Input] {
        history.compactMap { if case .value(let value) = $0 { value } else { nil } }
    }

    /// The completion, if the stream has ended.
    public var completion: Subscribers.Completion<Failure>? {
        for case .completion(let completion) in history { return completion }
        return nil
    }
}

extension Recorder.Entry {
    /// The stream finished.
    public static var finished: Self { .completion(.finished) }
    /// The stream failed.
    public static func failure(_ failure: Failure) -> Self { .completion(.failure(failure)) }

    /// The value or completion; nil for a subscription.
    public var event: Subscribers.Event<Input, Failure>? {
        switch self {
        case .subscription: nil
        case .value(let value): .value(value)
        case .completion(let completion): .completion(completion)
        }
    }
}

extension Recorder.Entry: Equatable where Input: Equatable, Failure: Equatable {}

extension Recorder.Entry: CustomStringConvertible {
    public var description: String { event.map { "\($0)" } ?? "subscription" }
}

extension Recorder where Input: Equatable, Failure: Equatable {
    /// Compares the whole history, including the subscription.
    ///
    ///     #expect(recorder.difference(from: [.subscription, .value(1), .finished]) == nil)
    ///
    /// - Returns: nil if it matches; otherwise a description of the difference for the test's output.
    public func difference(from expected: [Entry]) -> String? {
        let history = history
        let same = zip(history, expected).prefix { $0 == $1 }.count
        if same == history.count, same == expected.count { return nil }
        func line(_ entries: [Entry]) -> String {
            let parts = entries.enumerated().map { $0 == same ? "▶\($1)" : "\($1)" }
            return (parts + (same == entries.count ? ["▶nothing"] : [])).joined(separator: " ")
        }
        return """
            The histories differ at event \(same + 1):
              received: \(line(history))
              expected: \(line(expected))
            """
    }
}

extension Publisher {
    /// Subscribes a recorder.
    /// - Parameters:
    ///   - demand: the demand to request when the subscription is received.
    ///   - scheduler: the clock for the times of events.
    public func record(
        demand: Subscribers.Demand = .unlimited, scheduler: VirtualTimeScheduler? = nil
    ) -> Recorder<Output, Failure> {
        let recorder = Recorder<Output, Failure>(demand: demand, scheduler: scheduler)
        subscribe(recorder)
        return recorder
    }
}

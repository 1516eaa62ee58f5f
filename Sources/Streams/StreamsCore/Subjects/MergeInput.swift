// MergeInput: merges any number of publishers, which can be added at any time.

/// Merges publishers that cannot fail, which can be added at any time. A `MergeInput` never completes, even if the
/// merged publishers do.
///
/// A subscriber receives the values that arrive while it is subscribed and for which it has demand. Unlimited demand is
/// requested from the merged publishers as soon as any subscriber has requested a value. Cancelling or releasing a
/// `MergeInput` cancels all merged publishers, and its subscribers receive nothing more. Neither keeps the `MergeInput`
/// alive.
public final class MergeInput<I>: Publisher, Cancellable {
    public typealias Output = I
    public typealias Failure = Never

    private let core = SubjectCore<I, Never>(current: nil)

    /// Starts without publishers.
    public init() {}

    deinit { cancel() }

    public func receive<S: Subscriber>(subscriber: S) where S.Input == I, S.Failure == Never {
        core.attach(subscriber) { _, _ in
            Runner(Passthrough(subject: nil, core: core), name: "MergeInput", downstream: subscriber)
        }
    }

    /// Merges the values of `publisher`.
    public func subscribe<P: Publisher>(_ publisher: P) where P.Output == I, P.Failure == Never {
        publisher.subscribe(Source(core))
    }

    /// Merges the values of a subject. No values are sent to that subject.
    public func subscribe<S: Subject>(_ subject: S) where S.Output == I, S.Failure == Never {
        subject.subscribe(Source(core))
    }

    public func cancel() {
        core.upstreams.cancel()
        core.abandon()
    }

    private final class Source: Subscriber, Subscription, CustomStringConvertible, @unchecked Sendable {
        private let lock = Lock()
        /// The core owns this, through the subscription.
        private weak let core: SubjectCore<I, Never>?
        private var upstream: (any Subscription)?
        private var isOver = false

        init(_ core: SubjectCore<I, Never>) { self.core = core }

        func receive(subscription: any Subscription) {
            let isFirst = lock.with {
                guard upstream == nil, !isOver else { return false }
                upstream = subscription
                return true
            }
            guard isFirst, let core else { return subscription.cancel() }
            core.upstreams.add(self)
        }

        func receive(_ input: I) -> Subscribers.Demand {
            if !lock.with({ isOver }) { core?.send(input) }
            return .none
        }

        func receive(completion: Subscribers.Completion<Never>) {
            _ = close()
            core?.upstreams.remove(combineIdentifier)
        }

        func request(_ demand: Subscribers.Demand) { lock.with { upstream }?.request(demand) }
        func cancel() { close()?.cancel() }

        private func close() -> (any Subscription)? {
            lock.with {
                isOver = true
                return upstream.take()
            }
        }

        var description: String { "MergeInput" }
    }
}

extension Publisher where Failure == Never {
    /// Adds this publisher to `input`.
    public func merge(into input: MergeInput<Output>) { input.subscribe(self) }
}

/// Safe to use from any thread if its values are `Sendable`.
extension MergeInput: @unchecked Sendable where I: Sendable {}

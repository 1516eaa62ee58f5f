// MergeInput: any number of publishers into one, which can come at any time.

/// Merges publishers that cannot fail, whenever they come. One that ends leaves the others; the whole never ends.
///
/// Its subscribers get the values that come while they are there and for which they have demand. What it merges is
/// asked for all it has, once a subscriber has asked for something. When it is cancelled, or let go of, so is all that
/// it merges, and nothing more reaches its subscribers; they do not keep it.
public final class MergeInput<I>: Publisher, Cancellable {
    public typealias Output = I
    public typealias Failure = Never

    private let core = SubjectCore<I, Never>(current: nil)

    /// Merges nothing yet.
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

    /// Merges the values of a subject. It does not get any.
    public func subscribe<S: Subject>(_ subject: S) where S.Output == I, S.Failure == Never {
        subject.subscribe(Source(core))
    }

    public func cancel() {
        core.upstreams.cancel()
        core.abandon()
    }

    private final class Source: Subscriber, Subscription, CustomStringConvertible, @unchecked Sendable {
        private let lock = Lock()
        /// Owns this, by way of the subscription.
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
    /// Has the values of this merged with those of others.
    public func merge(into input: MergeInput<Output>) { input.subscribe(self) }
}

/// May be used from any thread, if its values may be.
extension MergeInput: @unchecked Sendable where I: Sendable {}

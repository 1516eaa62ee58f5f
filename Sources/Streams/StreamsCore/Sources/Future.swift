// Future: a single result that arrives later.

/// Publishes the result of an operation that starts when the future is created: one value and then `finished`, or a
/// failure. The result is kept, so later subscribers receive it too.
public final class Future<Output, Failure: Error>: Publisher {
    /// Accepts the result, on any thread. Only the first result counts.
    public typealias Promise = @Sendable (sending Result<Output, Failure>) -> Void

    private typealias Branch = Inlet<Result<Output, Failure>, Output, Failure>

    private let lock = Lock()
    private var result: Result<Output, Failure>?
    private var branches: [Branch] = []

    /// - Parameter attemptToFulfill: called immediately with the promise, which it must fulfill now or later, on any
    ///   thread.
    public init(_ attemptToFulfill: @escaping (@escaping Promise) -> Void) {
        let future = Unchecked(self)
        attemptToFulfill { future.value.fulfill($0) }
    }

    private func fulfill(_ result: Result<Output, Failure>) {
        lock.lock()
        guard self.result == nil else { return lock.unlock() }
        self.result = result
        let branches = branches
        self.branches = []
        lock.unlock()
        for branch in branches { branch.submit(result) }
    }

    public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
        let runner = Runner(Awaiting(future: self), name: "Future", downstream: subscriber)
        let known = lock.with { () -> Result<Output, Failure>? in
            if result == nil { branches.append(runner) }
            return result
        }
        // Submitted now, but delivered only after the subscriber has its subscription.
        if let known { runner.submit(known) }
        runner.begin()
    }

    private func remove(_ branch: ObjectIdentifier) {
        let removed = lock.with { () -> Branch? in
            branches.firstIndex { ObjectIdentifier($0) == branch }.map { branches.remove(at: $0) }
        }
        _ = removed
    }

    private struct Awaiting: StreamMachine {
        /// Keeps the future alive as long as it has a subscriber.
        let future: Future
        private var value: Output?

        init(future: Future) { self.future = future }

        mutating func receive(_ result: Result<Output, Failure>, _ outlet: Outlet<Output, Failure>) {
            switch result {
            case .success(let value):
                self.value = value
                deliver(outlet)
            case .failure(let failure):
                outlet.send(completion: .failure(failure))
            }
        }

        mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Output, Failure>) { deliver(outlet) }

        private func deliver(_ outlet: Outlet<Output, Failure>) {
            guard let value, outlet.demand > .none else { return }
            outlet.send(value)
            outlet.send(completion: .finished)
        }

        mutating func stop(_ outlet: Outlet<Output, Failure>) { future.remove(ObjectIdentifier(outlet)) }
    }
}

/// Safe to use from any thread if its value is `Sendable`.
extension Future: @unchecked Sendable where Output: Sendable {}

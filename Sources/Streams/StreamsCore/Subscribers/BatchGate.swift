// BatchGate: takes a batch of values, closes for a time, and opens again.

extension Subscribers {
    /// Requests `size` values. The gate closes when it has received them; when reopened, it requests `size` more. It
    /// never requests more than one batch.
    public final class BatchGate<Input, Failure: Error>: Subscriber, Cancellable, CustomStringConvertible,
        @unchecked Sendable
    {
        private let size: Int
        private let reopen: (@escaping @Sendable () -> Void) -> Void
        private let lock = Lock()
        /// The number of values missing from the batch.
        private var missing: Int
        private var core: SinkCore<Input, Failure>!

        /// - Parameters:
        ///   - size: values in a batch, at least 1.
        ///   - reopen: called when the gate closes, with a closure that opens it again. Calling that closure repeatedly
        ///     still requests only one batch.
        ///   - receiveCompletion: called with the completion.
        ///   - receiveValue: called with every value.
        public init(
            size: Int, reopen: @escaping (@escaping @Sendable () -> Void) -> Void,
            receiveCompletion: @escaping @Sendable (Subscribers.Completion<Failure>) -> Void,
            receiveValue: @escaping @Sendable (Input) -> Void
        ) {
            precondition(size >= 1, "A batch must have at least one value.")
            self.size = size
            self.reopen = reopen
            missing = size
            core = SinkCore(completion: receiveCompletion) { [unowned self] in
                receiveValue($0)
                count()
                return .none
            }
        }

        private func count() {
            let isFull = lock.with {
                missing -= 1
                return missing == 0
            }
            if isFull { reopen { [weak self] in self?.open() } }
        }

        private func open() {
            let isClosed = lock.with {
                guard missing == 0 else { return false }
                missing = size
                return true
            }
            if isClosed { core.request(.max(size)) }
        }

        public func receive(subscription: any Subscription) {
            if core.open(subscription) { subscription.request(.max(size)) } else { subscription.cancel() }
        }

        public func receive(_ input: Input) -> Subscribers.Demand { core.receive(input) }
        public func receive(completion: Subscribers.Completion<Failure>) { core.end(completion) }
        public func cancel() { core.cancel() }
        public var description: String { "BatchGate" }
    }
}

extension Publisher {
    /// Receives `size` values, then none for `interval`, then `size` more, and so on.
    public func batchSink<S: Scheduler>(
        size: Int, every interval: S.SchedulerTimeType.Stride, scheduler: S,
        receiveCompletion: @escaping @Sendable (Subscribers.Completion<Failure>) -> Void,
        receiveValue: @escaping @Sendable (Output) -> Void
    ) -> AnyCancellable {
        let gate = Subscribers.BatchGate<Output, Failure>(
            size: size, reopen: { scheduler.schedule(after: scheduler.now.advanced(by: interval), $0) },
            receiveCompletion: receiveCompletion, receiveValue: receiveValue)
        subscribe(gate)
        return AnyCancellable(gate)
    }
}

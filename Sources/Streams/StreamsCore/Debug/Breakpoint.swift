// breakpoint: stops in the debugger on a certain event.

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

extension Publisher {
    /// Raises SIGTRAP when a closure returns true for an event. A debugger then stops the process; without a debugger
    /// the process is terminated.
    public func breakpoint(
        receiveSubscription: (@Sendable (any Subscription) -> Bool)? = nil,
        receiveOutput: (@Sendable (Output) -> Bool)? = nil,
        receiveCompletion: (@Sendable (Subscribers.Completion<Failure>) -> Bool)? = nil
    ) -> Publishers.Breakpoint<Self> {
        Publishers.Breakpoint(
            upstream: self, receiveSubscription: receiveSubscription, receiveOutput: receiveOutput,
            receiveCompletion: receiveCompletion)
    }

    /// Raises SIGTRAP when upstream fails.
    public func breakpointOnError() -> Publishers.Breakpoint<Self> {
        breakpoint(receiveCompletion: { if case .failure = $0 { true } else { false } })
    }
}

extension Publishers {
    /// See `Publisher.breakpoint`.
    public struct Breakpoint<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let receiveSubscription: (@Sendable (any Subscription) -> Bool)?
        public let receiveOutput: (@Sendable (Upstream.Output) -> Bool)?
        public let receiveCompletion: (@Sendable (Subscribers.Completion<Failure>) -> Bool)?

        public init(
            upstream: Upstream,
            receiveSubscription: (@Sendable (any Subscription) -> Bool)? = nil,
            receiveOutput: (@Sendable (Upstream.Output) -> Bool)? = nil,
            receiveCompletion: (@Sendable (Subscribers.Completion<Failure>) -> Bool)? = nil
        ) {
            self.upstream = upstream
            self.receiveSubscription = receiveSubscription
            self.receiveOutput = receiveOutput
            self.receiveCompletion = receiveCompletion
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            upstream.subscribe(
                Inner(
                    downstream: subscriber, onSubscription: receiveSubscription, onOutput: receiveOutput,
                    onCompletion: receiveCompletion))
        }

        private struct Inner<Downstream: Subscriber>: Subscriber, CustomStringConvertible
        where Downstream.Input == Output, Downstream.Failure == Failure {
            let downstream: Downstream
            let onSubscription: (@Sendable (any Subscription) -> Bool)?
            let onOutput: (@Sendable (Output) -> Bool)?
            let onCompletion: (@Sendable (Subscribers.Completion<Failure>) -> Bool)?
            let combineIdentifier = CombineIdentifier()

            func receive(subscription: any Subscription) {
                stop(if: onSubscription?(subscription))
                downstream.receive(subscription: subscription)
            }

            func receive(_ input: Output) -> Subscribers.Demand {
                stop(if: onOutput?(input))
                return downstream.receive(input)
            }

            func receive(completion: Subscribers.Completion<Failure>) {
                stop(if: onCompletion?(completion))
                downstream.receive(completion: completion)
            }

            private func stop(if condition: Bool?) {
                if condition == true { raise(SIGTRAP) }
            }

            var description: String { "Breakpoint" }
        }
    }
}

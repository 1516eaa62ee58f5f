// breakpoint: stops in the debugger when a certain event passes.

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

extension Publisher {
    /// Raises SIGTRAP, at which a debugger stops the process, when a closure is true for an event. Without a debugger
    /// that ends the process.
    public func breakpoint(
        receiveSubscription: ((any Subscription) -> Bool)? = nil,
        receiveOutput: ((Output) -> Bool)? = nil,
        receiveCompletion: ((Subscribers.Completion<Failure>) -> Bool)? = nil
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
        public let receiveSubscription: ((any Subscription) -> Bool)?
        public let receiveOutput: ((Upstream.Output) -> Bool)?
        public let receiveCompletion: ((Subscribers.Completion<Failure>) -> Bool)?

        public init(
            upstream: Upstream,
            receiveSubscription: ((any Subscription) -> Bool)? = nil,
            receiveOutput: ((Upstream.Output) -> Bool)? = nil,
            receiveCompletion: ((Subscribers.Completion<Failure>) -> Bool)? = nil
        ) {
            self.upstream = upstream
            self.receiveSubscription = receiveSubscription
            self.receiveOutput = receiveOutput
            self.receiveCompletion = receiveCompletion
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            upstream.subscribe(Inner(breakpoint: self, downstream: subscriber))
        }

        private struct Inner<Downstream: Subscriber>: Subscriber, CustomStringConvertible
        where Downstream.Input == Output, Downstream.Failure == Failure {
            let breakpoint: Breakpoint
            let downstream: Downstream
            let combineIdentifier = CombineIdentifier()

            func receive(subscription: any Subscription) {
                stop(if: breakpoint.receiveSubscription?(subscription))
                downstream.receive(subscription: subscription)
            }

            func receive(_ input: Output) -> Subscribers.Demand {
                stop(if: breakpoint.receiveOutput?(input))
                return downstream.receive(input)
            }

            func receive(completion: Subscribers.Completion<Failure>) {
                stop(if: breakpoint.receiveCompletion?(completion))
                downstream.receive(completion: completion)
            }

            private func stop(if condition: Bool?) {
                if condition == true { raise(SIGTRAP) }
            }

            var description: String { "Breakpoint" }
        }
    }
}

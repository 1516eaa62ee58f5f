// catch: replaces a failed publisher with another. retry: subscribes to a failed publisher again.

extension Publisher {
    /// When this publisher fails, continues with the publisher that `handler` returns for the failure.
    public func `catch`<P: Publisher>(
        _ handler: @escaping @Sendable (Failure) -> P
    ) -> Publishers.Catch<Self, P> where P.Output == Output {
        Publishers.Catch(upstream: self, handler: handler)
    }

    /// Like `catch`. If `handler` throws, the stream fails with that error.
    public func tryCatch<P: Publisher>(
        _ handler: @escaping @Sendable (Failure) throws -> P
    ) -> Publishers.TryCatch<Self, P> where P.Output == Output {
        Publishers.TryCatch(upstream: self, handler: handler)
    }

    /// When this publisher fails, subscribes to it again, at most `retries` times. Values published before a failure
    /// are not withdrawn.
    public func retry(_ retries: Int) -> Publishers.Retry<Self> { Publishers.Retry(upstream: self, retries: retries) }
}

extension Publishers {
    /// See `Publisher.catch`.
    public struct Catch<Upstream: Publisher, NewPublisher: Publisher>: Publisher
    where Upstream.Output == NewPublisher.Output {
        public typealias Output = Upstream.Output
        public typealias Failure = NewPublisher.Failure

        public let upstream: Upstream
        public let handler: @Sendable (Upstream.Failure) -> NewPublisher

        public init(upstream: Upstream, handler: @escaping @Sendable (Upstream.Failure) -> NewPublisher) {
            self.upstream = upstream
            self.handler = handler
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            Relay.start(subscriber, name: "Catch", first: upstream) { [handler] runner in
                { completion in
                    switch completion {
                    case .finished: runner.submit(.end(.finished))
                    case .failure(let failure): runner.goOn(to: handler(failure)) { runner.submit(.end($0)) }
                    }
                }
            }
        }
    }

    /// See `Publisher.tryCatch`.
    public struct TryCatch<Upstream: Publisher, NewPublisher: Publisher>: Publisher
    where Upstream.Output == NewPublisher.Output {
        public typealias Output = Upstream.Output
        public typealias Failure = any Error

        public let upstream: Upstream
        public let handler: @Sendable (Upstream.Failure) throws -> NewPublisher

        public init(upstream: Upstream, handler: @escaping @Sendable (Upstream.Failure) throws -> NewPublisher) {
            self.upstream = upstream
            self.handler = handler
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            Relay.start(subscriber, name: "TryCatch", first: upstream) { [handler] runner in
                { completion in
                    guard case .failure(let failure) = completion else { return runner.submit(.end(.finished)) }
                    do {
                        runner.goOn(to: try handler(failure)) { runner.submit(.end($0.mapFailure { $0 })) }
                    } catch {
                        runner.submit(.end(.failure(error)))
                    }
                }
            }
        }
    }

    /// See `Publisher.retry`.
    public struct Retry<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let retries: Int?

        /// - Parameters:
        ///   - upstream: the publisher to subscribe to again when it fails.
        ///   - retries: the maximum number of subscriptions after the first; nil for no limit.
        public init(upstream: Upstream, retries: Int?) {
            self.upstream = upstream
            self.retries = retries
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            Relay.start(subscriber, name: "Retry", first: upstream) { onEnd(of: $0, retries: retries) }
        }

        private func onEnd<S: Subscriber>(
            of runner: RelayRunner<S>, retries: Int?
        ) -> (Subscribers.Completion<Failure>) -> Void where S.Input == Output, S.Failure == Failure {
            { completion in
                if case .failure = completion, retries.map({ $0 > 0 }) ?? true {
                    runner.goOn(to: upstream, onEnd: onEnd(of: runner, retries: retries.map { $0 - 1 }))
                } else {
                    runner.submit(.end(completion))
                }
            }
        }
    }
}

extension Publishers.Retry: Equatable where Upstream: Equatable {}

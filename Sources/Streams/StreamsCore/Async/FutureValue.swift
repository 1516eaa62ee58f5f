// value: the result of a Future, waited for.

extension Future where Failure == Never {
    /// The result, as soon as it is there. A task that is cancelled goes on waiting: nothing else could be returned.
    public final var value: Output {
        get async {
            switch await result() {
            case .success(let value): value
            }
        }
    }
}

extension Future {
    /// The result, as soon as it is there.
    /// - Throws: the failure. A task that is cancelled goes on waiting for one of both.
    public final var value: Output {
        get async throws { try await result().get() }
    }

    private func result() async -> Result<Output, Failure> {
        await withUnsafeContinuation { (continuation: UnsafeContinuation<Passed<Result<Output, Failure>>, Never>) in
            let subscriber = AnySubscriber<Output, Failure>(
                receiveSubscription: { $0.request(.max(1)) },
                receiveValue: {
                    continuation.resume(returning: Passed(value: .success($0)))
                    return .none
                },
                receiveCompletion: {
                    // After a value, all has been said.
                    if case .failure(let failure) = $0 {
                        continuation.resume(returning: Passed(value: .failure(failure)))
                    }
                })
            subscribe(subscriber)
        }.value
    }
}

// value: waits for the result of a Future.

extension Future where Failure == Never {
    /// The result, once it is available. Cancelling the task does not end the wait, because there is nothing else to
    /// return.
    public final var value: Output {
        get async {
            switch await result() {
            case .success(let value): value
            }
        }
    }
}

extension Future {
    /// The result, once it is available. Cancelling the task does not end the wait.
    /// - Throws: the failure.
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
                    // After a value, the completion carries no more information.
                    if case .failure(let failure) = $0 {
                        continuation.resume(returning: Passed(value: .failure(failure)))
                    }
                })
            subscribe(subscriber)
        }.value
    }
}

// sink(on:): a subscriber whose closures run on the main actor.

import Dispatch
import StreamsCore

extension Publisher where Output: Sendable {
    /// Receives all values and the completion with closures that run on the main actor, one at a time.
    ///
    /// Values are delivered through the main queue, as by `receive(on:options:)`: at most 1,024 values are requested or
    /// wait for the queue; for a broker's topic, as many as its `window`.
    ///
    /// - Parameters:
    ///   - actor: `.shared`, the only one.
    ///   - receiveCompletion: called with the completion.
    ///   - receiveValue: called with every value.
    /// - Returns: a cancellable that ends the subscription when it is cancelled or released.
    public func sink(
        on actor: MainActor, receiveCompletion: @escaping @MainActor (Subscribers.Completion<Failure>) -> Void,
        receiveValue: @escaping @MainActor (Output) -> Void
    ) -> AnyCancellable {
        receive(on: DispatchQueue.main).sink(
            receiveCompletion: { completion in MainActor.assumeIsolated { receiveCompletion(completion) } },
            receiveValue: { value in MainActor.assumeIsolated { receiveValue(value) } })
    }
}

extension Publisher where Output: Sendable, Failure == Never {
    /// Receives all values with a closure that runs on the main actor. See `sink(on:receiveCompletion:receiveValue:)`.
    /// - Returns: a cancellable that ends the subscription when it is cancelled or released.
    public func sink(on actor: MainActor, receiveValue: @escaping @MainActor (Output) -> Void) -> AnyCancellable {
        sink(on: actor, receiveCompletion: { _ in }, receiveValue: receiveValue)
    }
}

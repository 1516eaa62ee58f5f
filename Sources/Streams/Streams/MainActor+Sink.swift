// sink(on:): a subscriber whose closures are the main actor's.

import Dispatch
import StreamsCore

extension Publisher where Output: Sendable {
    /// Takes everything, by closures that are carried out on the main actor, one after the other.
    ///
    /// The main queue, which is the main actor's, stands between the two as it does with `receive(on:options:)`: at
    /// most 1,024 values wait for it or are asked for, of a topic of a broker's as many as its `window`.
    ///
    /// - Parameters:
    ///   - actor: `.shared`; there is no other.
    ///   - receiveCompletion: called with the end.
    ///   - receiveValue: called with every value.
    /// - Returns: what ends it when it is cancelled or let go of.
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
    /// Takes every value, by a closure that is carried out on the main actor. See
    /// `sink(on:receiveCompletion:receiveValue:)`.
    /// - Returns: what ends it when it is cancelled or let go of.
    public func sink(on actor: MainActor, receiveValue: @escaping @MainActor (Output) -> Void) -> AnyCancellable {
        sink(on: actor, receiveCompletion: { _ in }, receiveValue: receiveValue)
    }
}

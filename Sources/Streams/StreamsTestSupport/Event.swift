// Subscribers.Event: a received event as a comparable value.

import StreamsCore

extension Subscribers {
    /// A value or a completion.
    public enum Event<Value, Failure: Error> {
        /// A value was received.
        case value(Value)
        /// The completion was received.
        case completion(Subscribers.Completion<Failure>)
    }
}

extension Subscribers.Event: Equatable where Value: Equatable, Failure: Equatable {}
extension Subscribers.Event: Hashable where Value: Hashable, Failure: Hashable {}
extension Subscribers.Event: Sendable where Value: Sendable, Failure: Sendable {}

extension Subscribers.Event: CustomStringConvertible {
    public var description: String {
        switch self {
        case .value(let value): "\(value)"
        case .completion(.finished): "finished"
        case .completion(.failure(let failure)): "failure(\(failure))"
        }
    }
}

extension Sequence {
    /// These values as events, followed by the completion if there is one.
    public func asEvents<Failure: Error>(
        failure: Failure.Type, completion: Subscribers.Completion<Failure>? = nil
    ) -> [Subscribers.Event<Element, Failure>] {
        map { .value($0) } + (completion.map { [.completion($0)] } ?? [])
    }

    /// These values as events of a stream that cannot fail, followed by the completion if there is one.
    public func asEvents(completion: Subscribers.Completion<Never>? = nil) -> [Subscribers.Event<Element, Never>] {
        asEvents(failure: Never.self, completion: completion)
    }
}

extension Subject {
    /// Sends each value of `sequence`, and then the completion if there is one.
    public func send<S: Sequence>(sequence: S, completion: Subscribers.Completion<Failure>? = nil)
    where S.Element == Output {
        for value in sequence { send(value) }
        if let completion { send(completion: completion) }
    }
}

extension Publisher {
    /// Receives all events with a closure.
    /// - Returns: a cancellable that ends the subscription when it is cancelled or released.
    public func sink(event: @escaping @Sendable (Subscribers.Event<Output, Failure>) -> Void) -> AnyCancellable {
        sink(receiveCompletion: { event(.completion($0)) }, receiveValue: { event(.value($0)) })
    }
}

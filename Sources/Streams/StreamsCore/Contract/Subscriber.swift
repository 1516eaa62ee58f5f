// Subscriber and Subscription: the receiving side, and its link to the delivering side.

/// Receives the values of a publisher.
///
/// A publisher calls these methods one at a time, never concurrently.
public protocol Subscriber<Input, Failure>: CustomCombineIdentifierConvertible, Sendable {
    /// The type of the values that the subscriber receives.
    associatedtype Input
    /// The type of failure that the subscriber can receive; `Never` if it accepts none.
    associatedtype Failure: Error

    /// The publisher has accepted the subscriber, which can now request values.
    func receive(subscription: any Subscription)
    /// A value arrived.
    /// - Returns: the number of further values that the subscriber wants, in addition to its earlier requests.
    func receive(_ input: Input) -> Subscribers.Demand
    /// The stream ended. Nothing follows.
    func receive(completion: Subscribers.Completion<Failure>)
}

extension Subscriber where Input == Void {
    /// Receives an event that has no value.
    public func receive() -> Subscribers.Demand { receive(()) }
}

/// One subscriber's connection to one publisher. It can be used from any thread.
public protocol Subscription: Cancellable, CustomCombineIdentifierConvertible, Sendable {
    /// Requests more values, in addition to earlier requests (Reactive Streams §3.8).
    ///
    /// Values may be delivered during the call. Requesting `.none` has no effect, nor has a request after `cancel()`.
    func request(_ demand: Subscribers.Demand)
}

extension Subscribers {
    /// How a stream ended.
    @frozen public enum Completion<Failure: Error> {
        /// The stream ended normally.
        case finished
        /// The stream ended with an error.
        case failure(Failure)
    }
}

extension Subscribers.Completion: Equatable where Failure: Equatable {}
extension Subscribers.Completion: Hashable where Failure: Hashable {}
extension Subscribers.Completion: Sendable where Failure: Sendable {}

extension Subscribers.Completion {
    /// The same completion with another failure type; `transform` converts the failure.
    func mapFailure<NewFailure>(_ transform: (Failure) -> NewFailure) -> Subscribers.Completion<NewFailure> {
        switch self {
        case .finished: .finished
        case .failure(let failure): .failure(transform(failure))
        }
    }
}

private enum CompletionKey: CodingKey { case success, error }

extension Subscribers.Completion: Encodable where Failure: Encodable {
    /// `{"success": true}`, or `{"success": false, "error": …}`.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CompletionKey.self)
        switch self {
        case .finished:
            try container.encode(true, forKey: .success)
        case .failure(let failure):
            try container.encode(false, forKey: .success)
            try container.encode(failure, forKey: .error)
        }
    }
}

extension Subscribers.Completion: Decodable where Failure: Decodable {
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CompletionKey.self)
        let succeeded = try container.decode(Bool.self, forKey: .success)
        self = succeeded ? .finished : .failure(try container.decode(Failure.self, forKey: .error))
    }
}

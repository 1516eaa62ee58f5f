// Subscriber and Subscription: the side that receives, and its hold on the side that delivers.

/// Receives the values of a publisher.
///
/// A publisher calls these one at a time, never two at once.
public protocol Subscriber<Input, Failure>: CustomCombineIdentifierConvertible, Sendable {
    /// What it takes.
    associatedtype Input
    /// The failure that it can be told of; `Never` if it takes none.
    associatedtype Failure: Error

    /// The publisher has accepted the subscriber, which can now ask for values.
    func receive(subscription: any Subscription)
    /// A value arrived.
    /// - Returns: how many more values are wanted, beyond what was asked for before.
    func receive(_ input: Input) -> Subscribers.Demand
    /// The stream ended; nothing more comes.
    func receive(completion: Subscribers.Completion<Failure>)
}

extension Subscriber where Input == Void {
    /// Takes an occurrence that has no value.
    public func receive() -> Subscribers.Demand { receive(()) }
}

/// One subscriber's connection to one publisher. May be used from any thread.
public protocol Subscription: Cancellable, CustomCombineIdentifierConvertible, Sendable {
    /// Asks for that many more values. Adds to what was asked for before (Reactive Streams §3.8).
    ///
    /// Values may be delivered from within the call. A demand of none means nothing; after `cancel()` nothing happens.
    func request(_ demand: Subscribers.Demand)
}

extension Subscribers {
    /// How a stream ended.
    @frozen public enum Completion<Failure: Error> {
        /// There is no more, and nothing went wrong.
        case finished
        /// Something went wrong, and there is no more.
        case failure(Failure)
    }
}

extension Subscribers.Completion: Equatable where Failure: Equatable {}
extension Subscribers.Completion: Hashable where Failure: Hashable {}
extension Subscribers.Completion: Sendable where Failure: Sendable {}

extension Subscribers.Completion {
    /// The same end with another type of failure, made by `transform` if there is one.
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

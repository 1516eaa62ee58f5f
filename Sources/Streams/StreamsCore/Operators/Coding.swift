// encode and decode: convert values to and from a format, with any encoder or decoder that has one method for that.

/// Encodes complete values, as `JSONEncoder` does.
public protocol TopLevelEncoder: Sendable {
    /// The type of encoded values.
    associatedtype Output
    /// The encoded form of a value.
    func encode<T: Encodable>(_ value: T) throws -> Output
}

/// Decodes complete values, as `JSONDecoder` does.
public protocol TopLevelDecoder: Sendable {
    /// The type of encoded values.
    associatedtype Input
    /// Decodes a value.
    func decode<T: Decodable>(_ type: T.Type, from: Input) throws -> T
}

extension Publisher {
    /// Encodes each value. If that fails, upstream is cancelled and the stream fails with the error.
    public func encode<Coder: TopLevelEncoder>(
        encoder: Coder
    ) -> Publishers.Encode<Self, Coder> where Output: Encodable {
        Publishers.Encode(upstream: self, encoder: encoder)
    }

    /// Decodes each value. If that fails, upstream is cancelled and the stream fails with the error.
    public func decode<Item: Decodable, Coder: TopLevelDecoder>(
        type: Item.Type, decoder: Coder
    ) -> Publishers.Decode<Self, Item, Coder> where Output == Coder.Input {
        Publishers.Decode(upstream: self, decoder: decoder)
    }
}

extension Publishers {
    /// See `Publisher.encode`.
    public struct Encode<Upstream: Publisher, Coder: TopLevelEncoder>: Publisher where Upstream.Output: Encodable {
        public typealias Output = Coder.Output
        public typealias Failure = any Error

        public let upstream: Upstream
        private let encoder: Coder

        public init(upstream: Upstream, encoder: Coder) {
            self.upstream = upstream
            self.encoder = encoder
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = StepBehavior<Void, Upstream.Output, Upstream.Failure, Output, any Error>(trying: ()) {
                [encoder] _, value in
                .send(try encoder.encode(value))
            }
            upstream.subscribe(Operator(behavior, name: "Encode", downstream: subscriber))
        }
    }

    /// See `Publisher.decode`.
    public struct Decode<Upstream: Publisher, Output: Decodable, Coder: TopLevelDecoder>: Publisher
    where Upstream.Output == Coder.Input {
        public typealias Failure = any Error

        public let upstream: Upstream
        private let decoder: Coder

        public init(upstream: Upstream, decoder: Coder) {
            self.upstream = upstream
            self.decoder = decoder
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = StepBehavior<Void, Upstream.Output, Upstream.Failure, Output, any Error>(trying: ()) {
                [decoder] _, value in
                .send(try decoder.decode(Output.self, from: value))
            }
            upstream.subscribe(Operator(behavior, name: "Decode", downstream: subscriber))
        }
    }
}

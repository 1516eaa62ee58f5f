// Record: replays recorded values and a recorded completion to each subscriber.

/// Publishes recorded values on demand, and then the recorded completion.
public struct Record<Output, Failure: Error>: Publisher {
    /// The recording that is published.
    public let recording: Recording

    /// - Parameter record: fills in the recording, which finishes normally if no completion is recorded.
    public init(record: (inout Recording) -> Void) {
        var recording = Recording()
        record(&recording)
        self.init(recording: recording)
    }

    /// Publishes the recording to each subscriber.
    public init(recording: Recording) { self.recording = recording }

    /// Publishes the values and the completion to each subscriber.
    public init(output: [Output], completion: Subscribers.Completion<Failure>) {
        self.init(recording: Recording(output: output, completion: completion))
    }

    public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
        SequenceMachine.start(subscriber, recording.output, end: recording.completion)
    }

    /// Values and a completion.
    public struct Recording {
        /// The type of the recorded values.
        public typealias Input = Output

        /// The values so far.
        public private(set) var output: [Output]
        /// `finished` until another completion is recorded.
        public private(set) var completion: Subscribers.Completion<Failure>
        private var hasEnded = false

        /// An empty recording. Values can be added until a completion is recorded.
        public init() { (output, completion) = ([], .finished) }

        /// A complete recording, to which nothing can be added.
        public init(output: [Output], completion: Subscribers.Completion<Failure> = .finished) {
            self.output = output
            self.completion = completion
            hasEnded = true
        }

        /// Records a value. No completion must have been recorded.
        public mutating func receive(_ input: Output) {
            precondition(!hasEnded, "A value cannot be recorded after the completion.")
            output.append(input)
        }

        /// Records the completion. No completion must have been recorded yet.
        public mutating func receive(completion: Subscribers.Completion<Failure>) {
            precondition(!hasEnded, "A second completion cannot be recorded.")
            self.completion = completion
            hasEnded = true
        }
    }
}

private enum RecordKey: CodingKey { case recording }
private enum RecordingKey: CodingKey { case output, completion }

extension Record.Recording: Encodable where Output: Encodable, Failure: Encodable {
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: RecordingKey.self)
        try container.encode(output, forKey: .output)
        try container.encode(completion, forKey: .completion)
    }

    /// Does the same as `encode(to:)`.
    public func encode(into encoder: any Encoder) throws { try encode(to: encoder) }

}

extension Record.Recording: Decodable where Output: Decodable, Failure: Decodable {
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: RecordingKey.self)
        self.init(
            output: try container.decode([Output].self, forKey: .output),
            completion: try container.decode(Subscribers.Completion<Failure>.self, forKey: .completion))
    }
}

extension Record: Encodable where Output: Encodable, Failure: Encodable {
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: RecordKey.self)
        try container.encode(recording, forKey: .recording)
    }
}

extension Record: Decodable where Output: Decodable, Failure: Decodable {
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: RecordKey.self)
        self.init(recording: try container.decode(Recording.self, forKey: .recording))
    }
}

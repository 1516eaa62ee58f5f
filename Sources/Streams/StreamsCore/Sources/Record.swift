// Record: values and an end that are known, played to each subscriber.

/// Publishes recorded values, as fast as they are asked for, and then the recorded end.
public struct Record<Output, Failure: Error>: Publisher {
    /// What is published.
    public let recording: Recording

    /// - Parameter record: fills in the recording. It finishes if no end is recorded.
    public init(record: (inout Recording) -> Void) {
        var recording = Recording()
        record(&recording)
        self.init(recording: recording)
    }

    /// Publishes what was recorded, to each subscriber.
    public init(recording: Recording) { self.recording = recording }

    /// Publishes what was recorded, to each subscriber.
    public init(output: [Output], completion: Subscribers.Completion<Failure>) {
        self.init(recording: Recording(output: output, completion: completion))
    }

    public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
        SequenceMachine.start(subscriber, recording.output, end: recording.completion)
    }

    /// Values, and how they end.
    public struct Recording {
        /// What is recorded.
        public typealias Input = Output

        /// The values so far.
        public private(set) var output: [Output]
        /// `finished` until another end is recorded.
        public private(set) var completion: Subscribers.Completion<Failure>
        private var hasEnded = false

        /// A recording to which values can be added until its end is.
        public init() { (output, completion) = ([], .finished) }

        /// A recording to which values can be added until its end is.
        public init(output: [Output], completion: Subscribers.Completion<Failure> = .finished) {
            self.output = output
            self.completion = completion
            hasEnded = true
        }

        /// Records a value. There must be no end yet.
        public mutating func receive(_ input: Output) {
            precondition(!hasEnded, "A value cannot be recorded after the end.")
            output.append(input)
        }

        /// Records the end. There must be none yet.
        public mutating func receive(completion: Subscribers.Completion<Failure>) {
            precondition(!hasEnded, "A second end cannot be recorded.")
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

    /// The same as `encode(to:)`.
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

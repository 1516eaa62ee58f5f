// RSocketError: the module's only error – the contents of an ERROR frame, and whether it ends a stream or the
// connection.

import ForebayWire

/// An error to send to the peer.
public struct RSocketError: Error, Sendable, Equatable {
    /// What the error ends.
    public enum Scope: Sendable, Equatable {
        /// The stream with this id; the connection and its other streams continue.
        case stream(UInt32)
        /// The connection: the ERROR goes out on stream 0, then the socket is closed.
        case connection
    }

    /// The limits of a connection that errors refer to.
    public enum Bound: Sendable, Equatable {
        case payload, metadata, keepaliveData, streams, reassembly, reassemblyTime, memory
    }

    public var code: ErrorCode
    /// What the text begins with.
    public var word: ErrorWord
    /// A sentence that says what the person at the other end has to change.
    public var sentence: String
    public var scope: Scope
    /// The limit that was reached, if any.
    public var bound: Bound?

    /// - Parameter word: nil for the one that goes with the limit or the code.
    public init(code: ErrorCode, word: ErrorWord? = nil, sentence: String, scope: Scope, bound: Bound? = nil) {
        self.code = code
        self.word = word ?? bound?.word ?? code.word
        self.sentence = sentence
        self.scope = scope
        self.bound = bound
    }

    /// The text that the peer receives.
    public var message: String { word.text(sentence) }

    /// The stream to answer on: 0 for the connection.
    public var stream: UInt32 {
        switch scope {
        case .stream(let id): id
        case .connection: 0
        }
    }

    static func connection(
        _ code: ErrorCode, word: ErrorWord? = nil, _ sentence: String, bound: Bound? = nil
    ) -> RSocketError {
        RSocketError(code: code, word: word, sentence: sentence, scope: .connection, bound: bound)
    }

    static func stream(
        _ id: UInt32, _ code: ErrorCode, word: ErrorWord? = nil, _ sentence: String, bound: Bound? = nil
    ) -> RSocketError {
        RSocketError(code: code, word: word, sentence: sentence, scope: .stream(id), bound: bound)
    }
}

extension RSocketError.Bound {
    fileprivate var word: ErrorWord {
        switch self {
        case .payload, .metadata, .keepaliveData: .tooLarge
        case .streams, .reassembly, .memory: .limit
        case .reassemblyTime: .timeout
        }
    }
}

extension ErrorCode {
    /// The word of errors with this code that specify neither a word nor a bound.
    fileprivate var word: ErrorWord {
        switch self {
        case .invalidSetup, .invalid: .invalid
        case .unsupportedSetup: .unsupported
        case .connectionError: .protocol
        case .connectionClose: .draining
        case .canceled: .unavailable
        case .rejectedResume: .notFound
        case .applicationError: .topicFailed
        case .rejectedSetup, .rejected: .limit
        }
    }
}

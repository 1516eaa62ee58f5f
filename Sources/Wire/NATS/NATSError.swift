// NATSError: the module's only error – what went wrong, as a word and a sentence, and what it ends.

import ForebayWire

/// An error of a NATS connection, of a call, or of a text that cannot be parsed.
public struct NATSError: Error, Equatable, Sendable, CustomStringConvertible {
    /// What the error ends.
    public enum Scope: Equatable, Sendable {
        /// Only the call that threw it: nothing was written.
        case call
        /// Only one received message, whose headers cannot be read.
        case message
        /// The connection: close the socket.
        case connection
    }

    /// What the text begins with, for programs.
    public var word: ErrorWord
    /// What is wrong and what to do about it.
    public var sentence: String
    public var scope: Scope

    public init(_ word: ErrorWord, _ sentence: String, scope: Scope) {
        self.word = word
        self.sentence = sentence
        self.scope = scope
    }

    /// Whether the connection must be closed.
    public var endsConnection: Bool { scope == .connection }

    /// The word, a colon, a space and the sentence.
    public var description: String { word.text(sentence) }

    static func call(_ word: ErrorWord, _ sentence: String) -> NATSError {
        NATSError(word, sentence, scope: .call)
    }

    static func message(_ sentence: String) -> NATSError {
        NATSError(.invalid, sentence, scope: .message)
    }

    static func connection(_ word: ErrorWord, _ sentence: String) -> NATSError {
        NATSError(word, sentence + " The connection ends.", scope: .connection)
    }

    static func `protocol`(_ sentence: String) -> NATSError { connection(.protocol, sentence) }
}

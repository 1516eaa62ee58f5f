// Refusal: why a request, or a stream, comes to nothing. Each protocol has its own code for it.

import ForebayWire

/// What is wrong with a request: an ERROR on its stream, the status of its call.
public struct Refusal: Error, Sendable {
    var word: ErrorWord
    /// A sentence that says what happened and what to do.
    var sentence: String
    /// Seconds after which to try again, where that is known.
    var retryAfter: Int?
    /// The limit that stands behind it, where that matters to those who count.
    var limit: LimitReached?

    init(_ word: ErrorWord, _ sentence: String, retryAfter: Int? = nil) {
        self.word = word
        self.sentence = sentence
        self.retryAfter = retryAfter
    }

    /// The text that the client receives.
    var message: String { word.text(sentence) }

    /// It is too early to look at credentials again.
    var isSlowing: Bool { word == .limit && retryAfter != nil }

    static func invalid(_ sentence: String) -> Refusal { Refusal(.invalid, sentence) }
    static func limit(_ sentence: String) -> Refusal { Refusal(.limit, sentence) }

    static var draining: Refusal { Refusal(.draining, "The broker is shutting down; connect again later.") }

    /// Of a message, when all of a connection's that are not complete need more than `limit` bytes.
    static func unfinished(limit bytes: Int) -> Refusal {
        .limit("The connection's unfinished messages need more than \(bytes) bytes: send fewer at a time.")
    }
}

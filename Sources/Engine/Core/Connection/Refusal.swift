// Refusal: why a request or a stream fails. Each protocol has its own code for each reason.

import ForebayWire

/// What is wrong with a request: sent as an ERROR frame on its stream, or as the status of its call.
public struct Refusal: Error, Sendable {
    var word: ErrorWord
    /// A sentence that says what happened and what to do.
    var sentence: String
    /// Seconds after which to try again, if known.
    var retryAfter: Int?
    /// Whether the whole connection ends, not only the stream.
    var endsConnection = false
    /// The limit that was reached, for the statistics.
    package var limit: LimitReached?

    package init(_ word: ErrorWord, _ sentence: String, retryAfter: Int? = nil) {
        self.word = word
        self.sentence = sentence
        self.retryAfter = retryAfter
    }

    /// The text that the client receives.
    var message: String { word.text(sentence) }

    /// Whether credentials were sent again too early.
    var isSlowing: Bool { word == .limit && retryAfter != nil }

    static func invalid(_ sentence: String) -> Refusal { Refusal(.invalid, sentence) }
    static func limit(_ sentence: String) -> Refusal { Refusal(.limit, sentence) }

    static var requestOfZero: Refusal { .invalid("REQUEST_N of 0 is not allowed; request 1 or more.") }
    static var draining: Refusal { Refusal(.draining, "The broker is shutting down; connect again later.") }

    /// Refuses a message, or a topic's end, that the store did not write.
    static func store(_ failure: StoreFailure) -> Refusal {
        switch failure {
        case .full:
            Refusal(
                .store,
                "full; publish again once the store has room. Deleting topics, or a larger store-bytes, makes room."
            )
        case .aborted: Refusal(.store, "The store did not write the message; publish it again.")
        case .unknown:
            Refusal(
                .store,
                "outcome unknown; the store failed while writing, and the broker must be restarted to find out what it "
                    + "kept.")
        }
    }

    /// Refuses a message because the store has failed.
    static var storeFailed: Refusal {
        Refusal(.store, "The store has failed and takes no messages until the broker is restarted; try again later.")
    }

    /// Refuses a message because the connection's incomplete messages together need more than `limit` bytes.
    static func unfinished(limit bytes: Int) -> Refusal {
        .limit("The connection's unfinished messages need more than \(bytes) bytes; send fewer at a time.")
    }
}

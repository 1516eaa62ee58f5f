// ConnectionFault: why the engine ends a connection. Each protocol has its own code for each reason.

import ForebayWire

struct ConnectionFault {
    enum Kind {
        /// The peer is refused.
        case rejectedSetup
        /// The connection begins with an invalid setup.
        case invalidSetup
        /// Closed on request, for example by an operator.
        case closed
        /// The peer's authorization was withdrawn.
        case withdrawn
        /// The connection cannot continue.
        case failed
    }

    var kind: Kind
    var word: ErrorWord
    /// A sentence for the client.
    var sentence: String

    init(_ kind: Kind, _ word: ErrorWord, _ sentence: String) {
        self.kind = kind
        self.word = word
        self.sentence = sentence
    }

    init(_ kind: Kind, _ refusal: Refusal) { self.init(kind, refusal.word, refusal.sentence) }
}

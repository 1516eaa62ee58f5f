// ConnectionFault: why the engine ends a connection. Its peer is told in the words of the connection's protocol.

import ForebayWire

struct ConnectionFault {
    enum Kind {
        /// It is not let in.
        case rejectedSetup
        /// It does not begin as it should.
        case invalidSetup
        /// Somebody had it closed.
        case closed
        /// Its peer may not use it any more.
        case withdrawn
        /// It can go on no more.
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

// ConnectionFault: why the engine ends a connection. Each protocol has its own code for it.

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
    /// A sentence for the client.
    var message: String

    init(_ kind: Kind, _ message: String) {
        self.kind = kind
        self.message = message
    }
}

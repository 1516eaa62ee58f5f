// ConnectionFault: why the engine ends a connection. Its peer is told in the words of the connection's protocol.

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
    /// A sentence for the client.
    var message: String

    init(_ kind: Kind, _ message: String) {
        self.kind = kind
        self.message = message
    }
}

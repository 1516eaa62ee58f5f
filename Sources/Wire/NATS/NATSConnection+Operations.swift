// What the operations of a server mean in each state, and what is sent in response.

import Bytes

extension NATSConnection {
    static var unencrypted: NATSError {
        .protocol("The NATS server sent unencrypted bytes after it had to begin with TLS.")
    }

    /// - Throws: what ends the connection.
    mutating func interpret(_ operation: NATSOperation) throws(NATSError) -> NATSEvent? {
        switch operation {
        case .info(let json): return try interpret(info: NATSInfo(json: json))
        case .message(let message):
            guard isReady else { throw .protocol("The NATS server sent a message before it accepted the connection.") }
            return .message(message)
        case .ping:
            try checkReserve()
            NATSWriter.pong(into: &output)
            return nil
        case .pong: return try interpretPong()
        case .ok: return nil
        case .error(let text): return try interpret(error: NATSServerError(text))
        }
    }

    private mutating func interpret(info new: NATSInfo) throws(NATSError) -> NATSEvent? {
        let mustMove = new.isLameDuck && info?.isLameDuck != true
        info = new
        guard case .greeting(let until) = state else { return .info(mustMove: mustMove) }
        if try mustSecure(new) {
            // What came with INFO in plain text could be an attacker's, and must not count as sent through TLS.
            guard !parser.hasUnread else { throw NATSConnection.unencrypted }
            state = .securing(isFirst: false, until: until)
            return .startTLS
        }
        try join(until: until)
        return nil
    }

    /// Whether TLS comes next.
    private func mustSecure(_ info: NATSInfo) throws(NATSError) -> Bool {
        if usesTLS { return false }
        switch options.tls {
        case .off:
            guard !info.requiresTLS else {
                throw .connection(.unsupported, "The NATS server requires TLS; use a URL that begins with tls://.")
            }
            return false
        case .ifOffered: return info.offersTLS
        case .required, .first:
            guard info.offersTLS else {
                throw .connection(.unsupported, "The NATS server does not offer TLS, which is required here.")
            }
            return true
        }
    }

    /// Sends CONNECT, and PING to learn whether it is accepted.
    mutating func join(until: UInt64) throws(NATSError) {
        var request = NATSConnect(version: options.version, name: options.name)
        request.usesTLS = usesTLS
        try options.credentials.apply(to: &request, nonce: info?.nonce)
        NATSWriter.connect(request, into: &output)
        state = .joining(until: until)
        try ping()
    }

    private mutating func interpretPong() throws(NATSError) -> NATSEvent? {
        guard pongs < pings else { throw .protocol("The NATS server sent a PONG without a PING.") }
        pongs += 1
        switch state {
        case .joining:
            state = .ready(nextPing: now.addingClamped(options.limits.pingInterval), unanswered: 0)
            return .ready
        case .ready(let nextPing, _):
            state = .ready(nextPing: nextPing, unanswered: 0)
            return .flushed(pongs)
        default: return nil
        }
    }

    private mutating func interpret(error: NATSServerError) throws(NATSError) -> NATSEvent? {
        if let ending = error.ending {
            cause = error
            throw ending
        }
        if isReady { return .refused(error) }
        cause = error
        guard case .unknown(let text) = error else {
            throw .protocol("The NATS server reported an error that belongs to no request.")
        }
        throw .connection(.unavailable, "The NATS server refuses the connection: \(text).")
    }

    mutating func ping() throws(NATSError) {
        try checkReserve()
        NATSWriter.ping(into: &output)
        pings += 1
    }

    /// Checks that there is space for a PING or PONG.
    private func checkReserve() throws(NATSError) {
        guard output.count - NATSLimits.reserved + 6 <= options.limits.maxPending else {
            throw .connection(.limit, "The NATS server sends PINGs and does not read the answers.")
        }
    }
}

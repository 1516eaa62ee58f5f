// Revoking: what ends when permissions are withdrawn, users removed, or tokens expire. What is still allowed goes on as
// if nothing had happened.

extension Shard {
    /// From now on `access` says who may do what. Streams that it no longer allows end with REJECTED or
    /// PERMISSION_DENIED; a connection of RSocket whose user is not let in any more ends behind them.
    public func reload(_ access: AccessTable, now: Instant) {
        moment = now
        self.access = access
        sweep(.permissions, now: now)
        settle(now)
    }

    /// Finds out anew who a connection's peer is.
    func reload(_ connection: Connection, _ review: inout Review?) {
        connection.allowedTargets = AllowedTargets()
        timers.touch(connection)
        if let http = connection.http {
            reload(http, of: connection)
        } else if let principal = connection.principal {
            let current = access.current(principal)
            if current == nil, !connection.isExpelled { review?.connections += 1 }
            connection.principal = current ?? .nobody
            connection.isExpelled = current == nil
        }
    }

    /// Looks at the first `count` streams of a connection, from the last of them on, at most `most`. Returns how many
    /// are left; nil if none.
    func review(
        _ connection: Connection, _ count: Int, _ review: inout Review?, most: inout Int, now: Instant
    ) -> Int? {
        var left = Swift.min(count, connection.streams.count)
        while most > 0, left > 0 {
            most -= 1
            left -= 1
            // One that ends has another take its place, which was looked at before.
            if self.review(connection.streams[left], now: now) { review?.streams += 1 }
            left = Swift.min(left, connection.streams.count)
        }
        return left > 0 ? left : nil
    }

    private func reload(_ http: HTTPFace, of connection: Connection) {
        connection.principal = unasked(connection)
        http.login = nil
        for exchange in http.all {
            if let principal = exchange.principal { exchange.principal = access.current(principal) ?? .nobody }
        }
    }

    /// Ends a stream that would not be opened any more. Returns whether it did.
    private func review(_ stream: BoundStream, now: Instant) -> Bool {
        guard streams[stream.handle] === stream else { return false }
        let principal = stream.exchange?.principal ?? stream.connection.principal ?? .nobody
        let isGone = stream.principal.user != nil && principal === Principal.nobody
        stream.principal = principal
        do throws(Refusal) {
            switch stream.kind {
            case .subscriber where isGone, .publisher where isGone:
                throw Refusal(.forbidden, "The user is no longer known here.")
            case .subscriber:
                let subscriber = unsafeDowncast(stream, to: Subscriber.self)
                try expectSubscribe(to: subscriber.mirror.name, subscriber.options, of: principal)
            case .publisher:
                try expect(.publish, unsafeDowncast(stream, to: Publisher.self).name, of: principal)
            case .listing where principal === Principal.nobody:
                throw Refusal(.unauthenticated, "The user is no longer known here.")
            // A list leaves out what may not be seen any more; a call is all but answered.
            case .listing, .call: break
            }
            return false
        } catch {
            revoke(stream, error, now: now)
            return true
        }
    }

    // Time

    /// Ends what was opened with a token that has expired since, and the connection of a user who is gone.
    func endExpired(_ connection: Connection, now: Instant) {
        guard let http = connection.http else {
            if let expires = connection.principal?.expires, now.wall >= expires {
                fatal(connection, ConnectionFault(.failed, LoginOutcome.expiredRefusal.message), now: now)
            } else if connection.isExpelled, connection.isWritten {
                fatal(connection, ConnectionFault(.failed, "The user is no longer known here."), now: now)
            }
            return
        }
        guard let next = http.nextExpiry, now.wall >= next else { return }
        http.nextExpiry = nil
        for exchange in http.all where !exchange.isFinished {
            guard let expires = exchange.principal?.expires else { continue }
            guard now.wall >= expires else {
                http.noteExpiry(expires)
                continue
            }
            let refusal = LoginOutcome.expiredRefusal
            leave(exchange, .cancelled, reason: refusal.message, now: now)
            finish(exchange, refusal)
        }
        if let expires = http.login?.principal.expires, now.wall >= expires { http.login = nil }
    }
}
